//! Objective: Open vSwitch joins balancers that are virtual machines and back ends, and has no port of the run when that ends.

use support::{Ovs, Signal};

use super::*;

mod all {
    use super::*;

    /// Ends a run beside an Open vSwitch, which is to have no port of it any more.
    fn leaves_no_port(mut world: World, ovs: &Ovs) {
        world.stage.run().signal(Signal::TERM).expect("it is told");
        let done = world.stage.run().wait(PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
        assert_eq!(ovs.ask(&["list-ports", BRIDGE]).expect("ports"), "", "none of the run's is left");
    }

    #[test]
    fn open_vswitch_joins_balancers_and_kernel_routers() {
        support::needs!(
            Root,
            Tun,
            Program("ip"),
            Program("busybox"),
            Program("nsenter"),
            Program("ovs-vswitchd"),
            Program("ovsdb-server")
        );
        let text = file("kernel", &format!("interconnect = 'ovs:{BRIDGE}'"));
        let text = text.replace("queue_len = 4096\noffload = false\n", "");
        let started = Stage::start_with_names_beside_ovs(RINGROAD, &text, &["--json"], BRIDGE);
        let (stage, ovs) = started.expect("it starts");
        let world = World::around(stage);
        world.all_serve(3, 2);
        is_one_router(&world);
        let flows = world.flows();
        world.transfers(1);
        world.waits_for("both spread", |counters| {
            (0..2).all(|n| counters.get(&format!("duo_lb{n}.vcpu0.balancer.spread")) > 100)
        });
        let ports = || ovs.ask(&["list-ports", BRIDGE]).expect("ports");
        assert!(ports().lines().any(|port| port == "duo_2.west"), "{}", ports());
        world.ask(&["set", "duo", "backends=2"]);
        world.all_serve(2, 2);
        all_resume(&flows, "a back end went");
        world.transfers(2);
        let end = Instant::now() + PATIENCE;
        while ports().contains("duo_2.") {
            assert!(Instant::now() < end, "{}", ports());
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(flows);
        leaves_no_port(world, &ovs);
    }

    #[test]
    fn open_vswitch_joins_balancers_and_back_ends() {
        support::needs!(
            Root,
            Tun,
            Program("ip"),
            Program("busybox"),
            Program("ovs-vswitchd"),
            Program("ovsdb-server")
        );
        let text = file("process", &format!("interconnect = 'ovs:{BRIDGE}'"));
        let (stage, ovs) = Stage::start_beside_ovs(RINGROAD, &text, &["--json"], BRIDGE).expect("it starts");
        let world = World::around(stage);
        world.all_serve(3, 2);
        is_one_router(&world);
        let flows = world.flows();
        world.transfers(1);
        world.waits_for("all forward", all_have_forwarded);
        world.ask(&["set", "duo", "balancers=1"]);
        world.all_serve(3, 1);
        all_resume(&flows, "a balancer was cut");
        world.transfers(2);
        drop(flows);
        leaves_no_port(world, &ovs);
    }
}
