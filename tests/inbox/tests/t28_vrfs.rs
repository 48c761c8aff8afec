//! Objective: with a kernel that has VRFs, those of a kernel router are the kernel's: two of them have the same addresses of both
//! families, and each reaches only its own hosts; an address that the router has elsewhere is unknown in it. A NIC changes its VRF while
//! the router runs. FRR beside them routes for the NICs without a VRF.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use inbox::ping;
use support::{Namespace, Stage, run, transfer};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Octets of each transfer.
const OCTETS: usize = 500_000;
const PORT: u16 = 7029;
/// Hosts on the right side of each VRF.
const RIGHT: [&str; 2] = ["198.51.100.2", "2001:db8:2::2"];
/// Address of the router at the NIC that changes its VRF, and of the host there.
const OWN: &str = "10.28.0.1";
const MOVED: &str = "10.28.0.2";
/// Address of the router in the blue VRF only.
const OWN_IN_BLUE: &str = "10.28.9.1";
/// Address behind a host, to which FRR has a route.
const FAR: &str = "203.0.113.9";
const NICS: [&str; 5] = ["red1", "red2", "blue1", "blue2", "moves"];

/// A NIC of the router, whose host is in the namespace `vr-NAME`, with a number behind it.
fn nic(name: &str, keys: &str) -> String {
    let netns = format!("vr-{name}-{}", std::process::id());
    format!("[[router.nic]]\nname = \"{name}\"\nattach = \"veth:vr-{name}\"\nnetns = \"{netns}\"\n{keys}\n")
}

/// Adds the hosts of these NICs.
fn hosts(nics: &[&str]) -> anyhow::Result<Vec<Namespace>> {
    nics.iter().map(|nic| Namespace::add(&format!("vr-{nic}"))).collect()
}

/// The file of a router, with this key of the NIC that changes its VRF.
fn file(vrf: &str) -> String {
    let (left, right) =
        ("\"192.0.2.1/24\", \"2001:db8:1::1/64\"", "\"198.51.100.1/24\", \"2001:db8:2::1/64\"");
    let of = |vrf: &str, addresses: &str| format!("vrf = \"{vrf}\"\naddress = [{addresses}]");
    "[[router]]\nname = \"vr\"\nengine = \"kernel\"\n".to_owned()
        + &nic("red1", &of("red", left))
        + &nic("red2", &of("red", right))
        + &nic("blue1", &of("blue", left))
        + &nic("blue2", &of("blue", &format!("{right}, \"{OWN_IN_BLUE}/24\"")))
        + &nic("moves", &format!("{vrf}address = \"{OWN}/24\""))
}

/// Runs the command, which has to succeed; returns what it says.
fn ringroad(words: &[&str]) -> String {
    let done = run(Command::new(inbox::ringroad()).args(words), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{words:?}: {} {}", done.stdout, done.stderr);
    done.stdout
}

fn apply(stage: &Stage, text: &str) {
    let path = stage.path("next.toml");
    std::fs::write(&path, text).expect("written");
    ringroad(&["apply", &path.display().to_string()]);
}

fn place(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), PORT)
}

/// Asserts that the router knows no way from a host to an address: it says so at once.
fn is_unknown(from: &Namespace, address: &str) {
    let stream = from.inside(|| TcpStream::connect_timeout(&place(address), PATIENCE)).expect("inside");
    let refused = stream.expect_err("there is no way").kind();
    let says_so = matches!(refused, ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable);
    assert!(says_so, "{address}: {refused:?}");
}

/// Waits until an address answers: the router uses its IPv6 addresses only when it knows that nobody else does.
fn wait_for(from: &Namespace, address: &str) {
    let end = Instant::now() + PATIENCE;
    let mut ping = from.command("busybox");
    ping.args(["ping", "-c", "1", "-W", "1", address]);
    while !run(&mut ping, PATIENCE).expect("it ends").status.success() {
        assert!(Instant::now() < end, "{address} does not answer");
    }
}

#[test]
fn vrfs_of_a_kernel_router_do_not_reach_each_other() {
    support::needs!(Root, Program("ip"), Program("busybox"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has VRFs");
        return;
    }
    let hosts = |_: &Namespace| hosts(&NICS);
    let started = Stage::start_with_names_after(&inbox::ringroad(), &file(""), &["--json"], hosts);
    let (stage, hosts) = started.expect("it starts");
    stage.client().expect("it answers, so its pairs are there");
    let [red1, red2, blue1, blue2, moves] = hosts.as_slice() else { panic!("five hosts") };
    let vrfs = [(red1, red2, ["vr-red1", "vr-red2"]), (blue1, blue2, ["vr-blue1", "vr-blue2"])];
    for (left, right, [one, two]) in vrfs {
        left.add_four(one, "192.0.2.2/24", "192.0.2.1").expect("a host");
        right.add_four(two, "198.51.100.2/24", "198.51.100.1").expect("a host");
        left.add_six(one, "2001:db8:1::2/64", "2001:db8:1::1").expect("IPv6");
        right.add_six(two, "2001:db8:2::2/64", "2001:db8:2::1").expect("IPv6");
    }
    moves.add_four("vr-moves", "10.28.0.2/24", OWN).expect("a host");
    let passes = || {
        for (left, right, _) in vrfs {
            RIGHT.iter().for_each(|address| wait_for(left, address));
            ping(left);
            RIGHT.iter().for_each(|address| transfer(left, right, place(address), OCTETS, PATIENCE));
        }
    };
    passes();
    // The router's own addresses elsewhere, and a network of nobody, are unknown in a VRF and outside of them.
    [OWN, OWN_IN_BLUE, "203.0.113.9", "2001:db8:9::9"].iter().for_each(|address| is_unknown(red1, address));
    [OWN_IN_BLUE, "192.0.2.1", RIGHT[0]].iter().for_each(|address| is_unknown(moves, address));
    wait_for(blue1, OWN_IN_BLUE);

    apply(&stage, &file("vrf = \"red\"\n"));
    wait_for(red1, MOVED);
    is_unknown(blue1, MOVED);
    apply(&stage, &file("vrf = \"blue\"\n"));
    wait_for(blue1, MOVED);
    is_unknown(red1, MOVED);
    ringroad(&["restart", "vr"]);
    passes();
    wait_for(blue1, MOVED);
    // The last VRF goes with its NICs.
    let plain: Vec<String> = file("").split("[[router.nic]]").map(str::to_owned).collect();
    let [head, .., alone] = plain.as_slice() else { panic!("NICs") };
    apply(&stage, &format!("{head}[[router.nic]]{alone}"));
    wait_for(moves, OWN);
    stage.finish_troubled(hosts).expect("nothing is left");
}

#[test]
fn frr_routes_for_the_nics_of_a_kernel_router_that_are_in_no_vrf() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("vtysh"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has VRFs");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let frr = folder.path().join("frr.conf");
    std::fs::write(&frr, "ip route 203.0.113.0/24 192.0.2.2\n").expect("written");
    let text = format!(
        "[[router]]\nname = \"vr\"\nengine = \"kernel\"\ncontrol = {{ frr = \"{}\" }}\n",
        frr.display()
    ) + &nic("red1", "vrf = \"red\"\naddress = \"192.0.2.1/24\"")
        + &nic("left", "address = \"192.0.2.1/24\"")
        + &nic("right", "address = \"198.51.100.1/24\"");
    let hosts = |_: &Namespace| hosts(&["red1", "left", "right"]);
    let started = Stage::start_with_names_after(&inbox::ringroad(), &text, &["--json"], hosts);
    let (stage, hosts) = started.expect("it starts");
    stage.client().expect("it answers, so its pairs are there");
    let [red, left, right] = hosts.as_slice() else { panic!("three hosts") };
    red.add_four("vr-red1", "192.0.2.2/24", "192.0.2.1").expect("a host");
    left.add_four("vr-left", "192.0.2.2/24", "192.0.2.1").expect("a host");
    left.ip(&["address", "add", &format!("{FAR}/32"), "dev", "lo"]).expect("an address");
    right.add_four("vr-right", "198.51.100.2/24", "198.51.100.1").expect("a host");

    wait_for(right, FAR);
    is_unknown(red, FAR);
    is_unknown(red, RIGHT[0]);
    let routes = ringroad(&["show", "routes", "--vrf", "vr", "203.0.113.0/24"]);
    assert!(routes.contains("via 192.0.2.2") && routes.contains("static"), "{routes}");
    stage.finish_troubled(hosts).expect("nothing is left");
}
