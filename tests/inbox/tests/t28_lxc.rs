//! Objective: where there are control groups of version 2 only, the container of a container router starts under Debian's LXC and
//! kernel, and forwards, also in a VLAN; neither its groups nor its interfaces remain.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use inbox::ping;
use support::{Namespace, Stage, transfer};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Octets of each transfer.
const OCTETS: usize = 500_000;
const FILE: &str = "[[router]]\nname = \"t28\"\nengine = \"lxc\"\n\
    [[router.nic]]\nname = \"west\"\nattach = \"veth:t28w\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"east\"\nattach = \"veth:t28e\"\naddress = \"198.51.100.1/24\"\n\
    [[router.interface]]\nname = \"guests\"\nnic = \"west\"\nvlan = 100\naddress = \"203.0.113.1/24\"\n";

#[track_caller]
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Control group of the container's processes, or of those that watch it.
fn group(of: &str) -> PathBuf {
    Path::new("/sys/fs/cgroup").join(format!("lxc.{of}.ringroad-t28"))
}

/// Moves the outer end of a pair to a host, and gives it an address and a default route.
fn plug_in(home: &Namespace, link: &str, host: &Namespace, net: &str) {
    let is_there = || home.links().expect("links").iter().any(|known| known == link);
    wait("the outer end of a pair", is_there);
    home.ip(&["link", "set", link, "netns", host.name()]).expect("moved");
    host.add_four(link, &format!("{net}.2/24"), &format!("{net}.1")).expect("a route");
}

#[test]
fn a_container_forwards_under_version_2() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"), Program("lxc-start"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose control groups are of version 2 only");
        return;
    }
    let hosts = |_: &Namespace| -> anyhow::Result<(Namespace, Namespace)> {
        Ok((Namespace::add_silent("t28-west")?, Namespace::add_silent("t28-east")?))
    };
    let started = Stage::start_with_groups_after(&inbox::ringroad(), FILE, &["--json"], hosts);
    let (stage, (west, east)) = started.expect("it starts");
    plug_in(stage.home(), "t28w", &west, "192.0.2");
    plug_in(stage.home(), "t28e", &east, "198.51.100");
    let far = "198.51.100.2:7028".parse().expect("an address");
    ping(&west);
    transfer(&west, &east, far, OCTETS, PATIENCE);
    assert!(group("payload").is_dir(), "the container has a group of its own");
    for words in [
        "link add link t28w name guests type vlan id 100",
        "address add 203.0.113.2/24 dev guests",
        "link set guests up",
        "route replace default via 203.0.113.1 src 203.0.113.2",
    ] {
        west.ip(&words.split(' ').collect::<Vec<_>>()).expect("it is done");
    }
    ping(&west);
    west.ip(&["link", "delete", "guests"]).expect("deleted");
    stage.finish_troubled(vec![west, east]).expect("nothing is left");
    wait("its groups are gone", || ["payload", "monitor"].iter().all(|of| !group(of).exists()));
}
