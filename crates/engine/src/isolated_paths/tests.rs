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
