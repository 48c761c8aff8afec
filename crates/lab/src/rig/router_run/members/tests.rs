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

#[test]
fn members_that_serve_and_spare_ones_are_told_apart() {
    let of = |states: &[Option<&str>]| -> Vec<RouterStatus> {
        states.iter().map(|state| router("a_0", State::Running, *state)).collect()
    };
    let (serving, parked) = (Some("serving, 4 of 8 queues"), Some("parked, 0 of 8 queues"));
    assert!(consist_of(&of(&[serving, serving]), (2, 0)) && consist_of(&of(&[None, None]), (2, 0)));
    assert!(consist_of(&of(&[serving, parked]), (1, 1)));
    assert!(!consist_of(&of(&[serving, parked]), (2, 0)) && !consist_of(&of(&[serving, parked]), (1, 0)));
    assert!(!consist_of(&of(&[serving, Some("starting, 0 of 8 queues")]), (1, 1)));
}
