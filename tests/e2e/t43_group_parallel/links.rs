//! Objective: members share the queues of macvtaps, which the kernel chooses; a TAP that somebody deletes is made again under all of them.

use support::Signal;

use super::*;

/// A cable at which a group has a macvtap: it begins at home, and ends at a host with an address, whose namespace is returned.
fn cable(home: &Namespace, name: &str, net: &str) -> anyhow::Result<Namespace> {
    let (host, end) = (Namespace::add_silent(name)?, format!("{name}-end"));
    home.ip(&["link", "add", name, "type", "veth", "peer", "name", &end, "netns", host.name()])?;
    home.ip(&["link", "set", name, "up"])?;
    host.add_four(&end, &format!("{net}.2/24"), &format!("{net}.1"))?;
    Ok(host)
}

/// A group at macvtaps on two cables, with a host at the other end of each.
fn between_macvtaps() -> World {
    let text = between_taps("process").replace("'tap:t43-", "'macvtap:t43-");
    let prepare = |home: &Namespace| {
        home.set("net.ipv6.conf.default.disable_ipv6", "1")?;
        anyhow::Ok((cable(home, "t43-west", "192.0.2")?, cable(home, "t43-east", "198.51.100")?))
    };
    let (stage, (west, east)) = Stage::start_after(RINGROAD, &text, &["--json"], prepare).expect("it starts");
    stage.wait_for_counters(|_| true).expect("it is up");
    World { stage, west, east }
}

mod all {
    use super::*;

    #[test]
    fn two_members_share_the_queues_of_macvtaps() {
        support::needs!(Root, Tun, Program("ip"));
        let mut world = between_macvtaps();
        world.become_members(&["serving, 4 of 8 queues"; 2]);
        let flows = world.flows();
        let both = |counters: &support::Counters| {
            (0..2).all(|n| counters.get(&format!("duo_{n}.east.group.passed")) > 500)
        };
        world.stage.wait_for_counters(both).expect("both forward");
        all_resume(&flows, "both forward");
        transfer(&world.west, &world.east, (EAST, PORT - 1).into(), 2_000_000, PATIENCE);
        drop(flows);
        world.stage.run().signal(Signal::TERM).expect("signalled");
        let done = world.stage.run().wait(PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
        let end = Instant::now() + PATIENCE;
        loop {
            let left = world.stage.home().links().expect("links");
            if left == ["lo", "t43-west", "t43-east"] {
                return;
            }
            assert!(Instant::now() < end, "more than the cables is left: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_link_that_is_deleted_is_made_again_under_all_members() {
        support::needs!(Root, Tun, Program("ip"));
        let mut world = World::start(&between_taps("process"));
        world.become_members(&["serving, 4 of 8 queues"; 2]);
        let flows = world.flows();
        all_resume(&flows, "both serve");
        world.west.ip(&["link", "delete", "t43-west"]).expect("deleted");
        let is_back = |line: &str| line.contains("NIC duo.west: its link is there again");
        world.stage.run().wait_for_line(PATIENCE, is_back).expect("it is made again");
        // It is made where the run is, and is plugged in at the host again.
        world.stage.home().ip(&["link", "set", "t43-west", "netns", world.west.name()]).expect("moved");
        world.west.add_four("t43-west", "192.0.2.2/24", "192.0.2.1").expect("an address");
        all_resume(&flows, "its link was made again");
        world.become_members(&["serving, 4 of 8 queues"; 2]);
        all_resume(&flows, "both serve again");
        drop(flows);
        let said = world.finish();
        assert!(said.contains("NIC duo.west: its link was deleted"), "{said}");
    }
}
