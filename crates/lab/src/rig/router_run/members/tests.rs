use super::*;

fn router(name: &str, state: State, member: Option<&str>) -> RouterStatus {
    RouterStatus {
        name: name.to_owned(),
        engine: "kvm".to_owned(),
        state,
        since_ms: 0,
        restarts: 0,
        reason: None,
        pid: None,
        member: member.map(str::to_owned),
        threads: Vec::new(),
    }
}

#[test]
fn members_are_told_by_their_numbers_and_balancers_are_none() {
    let names = ["core_10", "core_2", "core_lb0", "core", "edge", "core2_0", "core_0"];
    let routers = names.map(|name| router(name, State::Running, None)).into();
    let found: Vec<String> = of_group(routers, "core").into_iter().map(|router| router.name).collect();
    assert_eq!(found, ["core_0", "core_2", "core_10"]);
}

#[test]
fn a_member_serves_if_it_runs_and_has_its_part() {
    assert!(serves(&router("a_0", State::Running, Some("serving, 4 of 8 queues"))));
    assert!(serves(&router("a_0", State::Running, None)), "it is at a bridge");
    assert!(!serves(&router("a_0", State::Running, Some("suspect, 4 of 8 queues"))));
    assert!(!serves(&router("a_0", State::Waiting, Some("serving, 4 of 8 queues"))));
}
