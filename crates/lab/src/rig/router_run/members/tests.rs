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
fn members_and_balancers_are_told_by_their_numbers() {
    let names = ["core_10", "core_2", "core_lb1", "core_lb0", "core", "edge", "core2_0", "core_0"];
    let found = |part: &str| -> Vec<String> {
        let routers = names.map(|name| router(name, State::Running, None)).into();
        of_group(routers, ("core", part)).into_iter().map(|router| router.name).collect()
    };
    assert_eq!(found(MEMBER), ["core_0", "core_2", "core_10"]);
    assert_eq!(found(BALANCER), ["core_lb0", "core_lb1"]);
}

#[test]
fn a_balancer_carries_links_if_it_serves_some() {
    let carries = |state, told| carries(&router("a_lb0", state, told));
    assert!(carries(State::Running, Some("serving, 1 of 2 links")));
    assert!(!carries(State::Running, Some("serving, 0 of 2 links")));
    assert!(!carries(State::Running, Some("suspect, 1 of 2 links")));
    assert!(!carries(State::Running, None) && !carries(State::Waiting, Some("serving, 1 of 2 links")));
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
