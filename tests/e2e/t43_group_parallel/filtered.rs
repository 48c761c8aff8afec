//! Objective: members whose NICs have strict filters of sources pass probes and flows, and no packet from the other side's network.

use super::*;

/// Probes and flows pass two members of a group whose NICs have strict filters, and a packet from the other side's network does not.
fn try_to_filter(kind: &str) {
    let filtered = between_taps("process").replace("queue_len = 4096", "queue_len = 4096\nrpf = 'strict'");
    let world = World::start(&filtered.replacen("kind = 'parallel'\nmembers = 2", kind, 1));
    let flows = world.flows();
    // No member gets any before its probes have come back by both NICs.
    let both = |counters: &support::Counters| {
        (0..2).all(|n| counters.get(&format!("duo_{n}.east.group.passed")) > 500)
            && ["west", "east"].iter().all(|nic| counters.get(&format!("duo.{nic}.group.probes_back")) > 0)
    };
    world.stage.wait_for_counters(both).expect("both forward");
    all_resume(&flows, "both forward");
    let forged = "198.51.100.9";
    world.west.ip(&["address", "add", &format!("{forged}/32"), "dev", "t43-west"]).expect("an address");
    let mut ping = world.west.command("busybox");
    ping.args(["ping", "-c", "2", "-W", "1", "-I", forged, &EAST.to_string()]);
    assert!(!run(&mut ping, PATIENCE).expect("it ends").status.success(), "it has no way back by this NIC");
    let is_dropped =
        |counters: &support::Counters| counters.sum(|name| name.ends_with(".drop_reverse_path")) > 0;
    world.stage.wait_for_counters(is_dropped).expect("it is dropped under a name");
    all_resume(&flows, "another source was refused");
    drop(flows);
    world.finish();
}

mod all {
    use super::*;

    #[test]
    fn sources_are_filtered() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        try_to_filter("kind = 'parallel'\nmembers = 2");
    }

    #[test]
    fn sources_are_filtered_behind_balancers() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        try_to_filter("kind = 'multistage'\nbackends = 2");
    }

    #[test]
    fn sources_are_filtered_behind_balancers_that_are_virtual_machines() {
        support::needs!(Root, Tun, Program("ip"), Program("busybox"));
        try_to_filter("kind = 'multistage'\nbackends = 2\nbalancer = 'vm'");
    }
}
