//! Objective: with a kernel that has 802.1Q, its VLANs are those of our routers: hosts in a VLAN of a TAP, with one tag and with two,
//! send large packets through a router of ours; a kernel router has such VLANs itself, and advertises itself in them, and a control
//! plane has those of its router, or of its group. The example does what its comment says.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use inbox::ping;
use support::{Counters, Finished, Flow, Namespace, Script, Stage, run, transfer};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Octets of each transfer.
const OCTETS: usize = 500_000;
const RIGHT: &str = "198.51.100.2";
const PORT: u16 = 7028;
/// Flows that are spread over the members of a group: with so many none of two is without any, but once in thousands of runs.
const FLOWS: u16 = 16;
/// Datagrams a second of each.
const RATE: u32 = 20;
/// The source tree is not there inside.
const EXAMPLE: &str = include_str!("../../../examples/vlan.toml");

fn ip(host: &Namespace, words: &str) {
    host.ip(&words.split(' ').collect::<Vec<_>>()).expect("it is done");
}

fn send(from: &Namespace, to: &Namespace, address: &str) {
    let place: SocketAddr = format!("{address}:{PORT}").parse().expect("an address");
    transfer(from, to, place, OCTETS, PATIENCE);
}

#[test]
fn vlans_of_a_tap_lead_to_interfaces_of_a_router() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has 802.1Q");
        return;
    }
    let interface = |name: &str, tags: &str, address: &str| {
        format!(
            "[[router.interface]]\nname = \"{name}\"\nnic = \"trunk\"\n{tags}\naddress = \"{address}/24\"\n"
        )
    };
    let text = "[[router]]\nname = \"vt\"\nengine = \"process\"\n\
        [[router.nic]]\nname = \"trunk\"\nattach = \"tap:vt-l\"\n\
        [[router.nic]]\nname = \"right\"\nattach = \"tap:vt-r\"\naddress = \"198.51.100.1/24\"\n"
        .to_owned()
        + &interface("guests", "vlan = 100", "192.0.2.1")
        + &interface("customers", "outer = 200\nvlan = 100", "203.0.113.1");
    let mut stage = Stage::start(&inbox::ringroad(), &text).expect("it starts");
    let right = stage.host("vt-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    let left = stage.host("vt-l", "10.28.0.2/24", "10.28.0.1").expect("left");
    for words in [
        "link add link vt-l name guests type vlan id 100",
        "address add 192.0.2.2/24 dev guests",
        "link set guests up",
        "link add link vt-l name service type vlan proto 802.1ad id 200",
        "link set service up",
        "link add link service name customers type vlan id 100",
        "address add 203.0.113.2/24 dev customers",
        "link set customers up",
    ] {
        ip(&left, words);
    }
    for (gateway, own) in [("192.0.2.1", "192.0.2.2"), ("203.0.113.1", "203.0.113.2")] {
        ip(&left, &format!("route replace 198.51.100.0/24 via {gateway} src {own}"));
        ping(&left);
        send(&left, &right, RIGHT);
        send(&right, &left, own);
    }
    for link in ["customers", "service", "guests"] {
        ip(&left, &format!("link delete {link}"));
    }
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    assert_eq!(counters.faults("vt"), [""; 0]);
    let large = |name: &str| counters.get(&format!("vt.trunk.{name}.left_segments"));
    assert!(large("rx") > 0 && large("tx") > 0, "large packets have tags in both directions: {counters:?}");
}

#[test]
fn a_kernel_router_has_vlans_with_one_tag_and_with_two() {
    support::needs!(Root, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has 802.1Q");
        return;
    }
    let name = |side: &str| format!("vk-{side}-{}", std::process::id());
    let nic = |side: &str, more: &str| {
        let netns = name(side);
        format!("[[router.nic]]\nname = \"{side}\"\nattach = \"veth:vk-{side}\"\nnetns = \"{netns}\"\n{more}")
    };
    let text = "[[router]]\nname = \"vk\"\nengine = \"kernel\"\n".to_owned()
        + &nic("west", "")
        + &nic("east", "address = \"198.51.100.1/24\"\n")
        + "[[router.interface]]\nname = \"guests\"\nnic = \"west\"\nvlan = 100\naddress = \"192.0.2.1/24\"\nrpf = \"strict\"\n\
           [[router.interface]]\nname = \"customers\"\nnic = \"west\"\nouter = 200\nvlan = 100\naddress = \"203.0.113.1/24\"\n";
    let hosts = |_: &Namespace| -> anyhow::Result<(Namespace, Namespace)> {
        Ok((Namespace::add("vk-west")?, Namespace::add("vk-east")?))
    };
    let started = Stage::start_with_names_after(&inbox::ringroad(), &text, &["--json"], hosts);
    let (stage, (west, east)) = started.expect("it starts");
    stage.client().expect("it answers, so its pairs are there");
    for words in [
        "link set vk-west up",
        "link add link vk-west name guests type vlan id 100",
        "address add 192.0.2.2/24 dev guests",
        "link set guests up",
        "route add default via 192.0.2.1",
        "link add link vk-west name service type vlan proto 802.1ad id 200",
        "link set service up",
        "link add link service name customers type vlan id 100",
        "address add 203.0.113.2/24 dev customers",
        "link set customers up",
    ] {
        ip(&west, words);
    }
    for words in [
        "address add 198.51.100.2/24 dev vk-east",
        "link set vk-east up",
        "route add default via 198.51.100.1",
    ] {
        ip(&east, words);
    }
    ping(&west);
    send(&west, &east, RIGHT);
    // With two tags.
    ip(&west, "route replace default via 203.0.113.1 src 203.0.113.2");
    ping(&west);
    send(&west, &east, RIGHT);
    for link in ["customers", "service", "guests"] {
        ip(&west, &format!("link delete {link}"));
    }
    stage.finish_troubled(vec![west, east]).expect("nothing is left");
}

#[test]
fn hosts_in_a_vlan_of_a_kernel_router_configure_themselves() {
    support::needs!(Root, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has 802.1Q");
        return;
    }
    let text = format!(
        "[[router]]\nname = \"vk\"\nengine = \"kernel\"\n\
         [[router.nic]]\nname = \"west\"\nattach = \"veth:vk-west\"\nnetns = \"vk-west-{}\"\n\
         [[router.interface]]\nname = \"guests\"\nnic = \"west\"\nvlan = 100\naddress = \"2001:db8:100::1/64\"\nra = {{}}\n",
        std::process::id()
    );
    let host = |_: &Namespace| Namespace::add("vk-west");
    let started = Stage::start_with_names_after(&inbox::ringroad(), &text, &["--json"], host);
    let (stage, west) = started.expect("it starts");
    stage.client().expect("it answers, so its pair is there");
    for words in
        ["link set vk-west up", "link add link vk-west name guests type vlan id 100", "link set guests up"]
    {
        ip(&west, words);
    }
    let end = Instant::now() + PATIENCE;
    for (what, wanted) in [("route", "default via fe80:"), ("address", "inet6 2001:db8:100:")] {
        while !west.ip(&["-6", what, "show", "dev", "guests"]).expect("it says so").contains(wanted) {
            assert!(Instant::now() < end, "{wanted} does not come");
            thread::sleep(Duration::from_millis(20));
        }
    }
    ip(&west, "link delete guests");
    stage.finish_troubled(vec![west]).expect("nothing is left");
}

/// Runs a line of the example's comment beside its run; what it does to network namespaces others see.
fn command(home: &Namespace, line: &str) -> Finished {
    // The box has no other ping.
    let line = if line.starts_with("ping ") { format!("busybox {line}") } else { line.to_owned() };
    let mut shell = home.command_with_names("sh");
    run(shell.args(["-c", &format!("set -e; {line}")]), PATIENCE).expect("it ends")
}

#[test]
fn the_example_does_what_its_comment_says() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has 802.1Q");
        return;
    }
    let script = Script::of("vlan.toml", &|_| EXAMPLE.to_owned());
    assert!(script.before.is_empty(), "{script:?}");
    let (last, first) = script.after.split_last().expect("something is tried");
    let stage = Stage::start_with(&inbox::ringroad(), EXAMPLE, &["--json"]).expect("it starts");
    // Its TAPs exist by then.
    stage.wait_for_counters(|_| true).expect("it counts");
    for line in first {
        let done = command(stage.home(), line);
        assert!(done.status.success(), "{line}: {}", done.stderr);
    }
    let right = Namespace::adopt("right");
    let end = Instant::now() + PATIENCE;
    loop {
        let done = command(stage.home(), last);
        if done.status.success() {
            break;
        }
        assert!(Instant::now() < end, "{last}: {}{}", done.stdout, done.stderr);
        thread::sleep(Duration::from_millis(100));
    }
    [stage.home(), &right].iter().for_each(|host| host.silence_six().expect("it is silent"));
    let done = stage.finish_troubled(vec![right]).expect("nothing is left");
    let counters = Counters::of(done.stdout.lines()).expect("counters");
    assert_eq!(counters.faults("edge"), [""; 0]);
    for way in ["in", "out"] {
        let end = format!(".guests.vlan.{way}_frames");
        let moved = counters.sum(|name| name.starts_with("edge.") && name.ends_with(&end));
        assert!(moved > 0, "{way}: {counters:?}");
    }
}

/// Waits until a command succeeds.
fn until_done(what: &str, command: impl Fn() -> Command) {
    let end = Instant::now() + PATIENCE;
    loop {
        let done = run(&mut command(), PATIENCE).expect("it ends");
        if done.status.success() {
            return;
        }
        assert!(Instant::now() < end, "{what}: {}{}", done.stdout, done.stderr);
        thread::sleep(Duration::from_millis(100));
    }
}

/// A command beside the control plane of a router or group.
fn in_control(name: &str, words: &str) -> Command {
    let mut command = Command::new(inbox::ringroad());
    command.args(["exec", name, "--"]).args(words.split(' '));
    command
}

#[test]
fn a_control_plane_has_the_vlans_of_its_router() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has 802.1Q");
        return;
    }
    let text = "[[router]]\nname = \"vc\"\nengine = \"process\"\ncontrol = {}\n\
        [[router.nic]]\nname = \"trunk\"\nattach = \"tap:vc-l\"\n\
        [[router.nic]]\nname = \"right\"\nattach = \"tap:vc-r\"\naddress = \"198.51.100.1/24\"\n\
        [[router.interface]]\nname = \"guests\"\nnic = \"trunk\"\nvlan = 100\naddress = \"192.0.2.1/24\"\n";
    let mut stage = Stage::start(&inbox::ringroad(), text).expect("it starts");
    let right = stage.host("vc-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    let left = stage.host("vc-l", "10.28.0.2/24", "10.28.0.1").expect("left");
    for words in [
        "link set lo up",
        "address add 203.0.113.9/32 dev lo",
        "link add link vc-l name guests type vlan id 100",
        "address add 192.0.2.2/24 dev guests",
        "link set guests up",
        "route replace 198.51.100.0/24 via 192.0.2.1",
    ] {
        ip(&left, words);
    }
    until_done("the VLAN's neighbour", || in_control("vc", "busybox ping -c 1 -W 1 192.0.2.2"));
    until_done("a route", || in_control("vc", "ip route replace 203.0.113.0/24 via 192.0.2.2 dev guests"));
    until_done("the router's way", || {
        let mut command = right.command("busybox");
        command.args(["ping", "-c", "1", "-W", "1", "203.0.113.9"]);
        command
    });
    ip(&left, "link delete guests");
    stage.finish_troubled(vec![left, right]).expect("nothing is left");
}

/// Waits until each of three pings to an address is answered; none may have two answers.
fn each_has_one_answer(host: &Namespace, address: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut ping = host.command("busybox");
        let said =
            run(ping.args(["ping", "-c", "3", "-W", "30", address]), PATIENCE).expect("it ends").stdout;
        assert!(!said.contains("duplicates"), "{said}");
        if said.contains("3 packets received") {
            return;
        }
        assert!(Instant::now() < end, "{said}");
    }
}

#[test]
fn a_group_with_a_control_plane_has_vlans() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has 802.1Q");
        return;
    }
    let text = "[[group]]\nname = \"duo\"\nkind = \"parallel\"\nmembers = 2\nengine = \"process\"\ncontrol = {}\n\
        [[group.nic]]\nname = \"trunk\"\nattach = \"tap:duo-l\"\n\
        [[group.nic]]\nname = \"right\"\nattach = \"tap:duo-r\"\naddress = \"198.51.100.1/24\"\n\
        [[group.interface]]\nname = \"guests\"\nnic = \"trunk\"\nvlan = 100\naddress = \"192.0.2.1/24\"\n";
    let mut stage = Stage::start(&inbox::ringroad(), text).expect("it starts");
    let right = stage.host("duo-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    let left = stage.host("duo-l", "10.28.0.2/24", "10.28.0.1").expect("left");
    for words in [
        "link set lo up",
        "address add 203.0.113.9/32 dev lo",
        "link add link duo-l name guests type vlan id 100",
        "address add 192.0.2.2/24 dev guests",
        "link set guests up",
        "route replace 198.51.100.0/24 via 192.0.2.1",
    ] {
        ip(&left, words);
    }
    each_has_one_answer(&left, "192.0.2.1");
    until_done("the VLAN's neighbour", || in_control("duo", "busybox ping -c 1 -W 1 192.0.2.2"));
    until_done("a route", || in_control("duo", "ip route replace 203.0.113.0/24 via 192.0.2.2 dev guests"));
    each_has_one_answer(&right, "203.0.113.9");
    let flow = |number: u16| {
        let place: SocketAddr = format!("203.0.113.9:{}", PORT + number).parse().expect("an address");
        Flow::start(&right, &left, place, RATE).expect("a flow")
    };
    let flows: Vec<Flow> = (0..FLOWS).map(flow).collect();
    // Members are probed by frames without tags.
    let both = |all: &Counters| {
        (0..2).all(|number| all.get(&format!("duo_{number}.vcpu0.guests.vlan.out_frames")) > 20)
    };
    let counters = stage.wait_for_counters(both).expect("both forward by what one control plane has found");
    let heard = counters.get("duo.trunk.sorted.for_control") + counters.get("duo.trunk.sorted.for_both");
    assert!(heard > 0, "{:?}", counters.named(|name| name.starts_with("duo.trunk.")));
    drop(flows);
    ip(&left, "link delete guests");
    stage.finish_troubled(vec![left, right]).expect("nothing is left");
}
