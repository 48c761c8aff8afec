//! Objective: members that the load does not need, and spare ones, sleep until they are wanted, and stand in for others; flows go on.

use super::*;

fn try_to_park(engine: &str) {
    let text = between_taps(engine).replacen("kind =", "scale = { min = 1, max = 2 }\nkind =", 1);
    let world = World::start(&text);
    world.become_members(&["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    let flows = world.flows();
    all_resume(&flows, "a member was parked");
    let routers = world.routers(&["--members"]);
    assert!(routers.iter().all(|router| router["restarts"] == 0), "{routers:?}");
    let shown = world.ask(&["show", "duo"]);
    assert!(shown.contains("awake = 1"), "{shown}");
    let told = world.ask(&["set", "duo", "awake=2"]);
    assert!(told.contains("group duo: 2 of 2 members are awake"), "{told}");
    world.become_members(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    all_resume(&flows, "it has woken");
    // The load does not need it, so it is parked again, and takes the place of the other one when that is stopped.
    world.become_members(&["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    world.ask(&["stop", "duo_0"]);
    world.become_members(&["leaving, 0 of 8 queues", "serving, 8 of 8 queues"]);
    all_resume(&flows, "it stands in");
    drop(flows);
    let said = world.finish();
    assert!(
        said.contains("duo_1: notice: it was parked for ") && said.contains("of CPU time saved"),
        "{said}"
    );
}

fn try_a_spare_member(engine: &str) {
    let text = between_taps(engine).replacen("members = 2", "members = 1\nspare = 1", 1);
    let world = World::start(&text);
    let (all, half, none) = ("serving, 8 of 8 queues", "serving, 4 of 8 queues", "parked, 0 of 8 queues");
    world.become_members(&[all, none]);
    let flows = world.flows();
    all_resume(&flows, "one serves and one is spare");
    let woken = world.pid("duo_1");
    world.ask(&["set", "duo", "members=2"]);
    world.become_members(&[half, half, none]);
    all_resume(&flows, "the spare one has woken");
    assert_eq!(world.pid("duo_1"), woken, "it is the one that slept");
    world.ask(&["stop", "duo_0"]);
    world.become_members(&["leaving, 0 of 8 queues", half, half]);
    all_resume(&flows, "the spare one stands in");
    world.ask(&["start", "duo_0"]);
    world.become_members(&[half, half, none]);
    world.ask(&["set", "duo", "members=1"]);
    world.become_members(&[all, none]);
    all_resume(&flows, "it is spare again");
    drop(flows);
    world.finish();
}

#[test]
fn a_spare_process_wakes_and_is_followed_by_another_one() {
    support::needs!(Root, Tun, Program("ip"));
    try_a_spare_member("process");
}

mod all {
    use super::*;

    #[test]
    fn processes_that_the_load_does_not_need_are_parked_and_wake() {
        support::needs!(Root, Tun, Program("ip"));
        try_to_park("process");
    }

    #[test]
    fn a_load_wakes_a_member() {
        support::needs!(Root, Tun, Program("ip"));
        let one = "members = 1\nspin = '0us'\nscale = { min = 1, max = 2, target = 0.1 }";
        let world = World::start(&between_taps("process").replacen("members = 2", one, 1));
        world.become_members(&["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
        // Together they keep a member busy for more than a tenth of its time; one that gets no CPU for them loses frames.
        let flow =
            |n| Flow::start(&world.west, &world.east, (EAST, PORT + n).into(), 20_000).expect("a flow");
        let flows: Vec<Flow> = (0..4).map(flow).collect();
        world.become_members(&["serving, 4 of 8 queues"; 2]);
        all_resume(&flows, "a member has woken");
        drop(flows);
        let said = world.finish();
        assert!(said.contains("duo: notice: 2 members instead of 1, for a load of "), "{said}");
    }

    #[test]
    fn virtual_machines_that_the_load_does_not_need_are_parked_and_wake() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_to_park("kvm");
    }

    #[test]
    fn a_spare_virtual_machine_wakes_and_is_followed_by_another_one() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_a_spare_member("kvm");
    }
}
