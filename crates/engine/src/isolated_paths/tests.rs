use super::*;

#[test]
fn a_router_s_process_shares_its_memory_and_another_machine_what_the_file_says() {
    let text = "[[router]]\nname = 'r'\nmemory = '64M'\nisolate = 'process'\n\
                [[router.nic]]\nname = 'n'\nattach = 'vhost-user-backend:v.sock'\nmemory_max = '2G'\n";
    let plan = config::parse(text, "r.toml").expect("a good file");
    let (router, nic) = plan.nics().next().expect("a NIC");
    assert_eq!(router.wanted(nic).memory_max, 2 << 30);
    assert_eq!(
        peer_requirements(router, nic),
        NicRequirements { memory_max: 64 << 20, ..router.wanted(nic) }
    );
}

#[test]
fn a_process_is_charged_with_what_it_has_done_and_not_with_what_this_host_lacks() {
    let line = || "a line".to_owned();
    assert_eq!(told_of_process(News::Fault(line())), Some((Kind::Charged, line())));
    assert_eq!(told_of_process(News::CannotAccept(line())), Some((Kind::Notice, line())));
    assert_eq!(told_of_process(News::Served(Some(7))), None);
    assert_eq!(told_of_process(News::Gone), None);
}
