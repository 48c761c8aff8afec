//! Objective: a router attached to a bridge of the kernel, to Open vSwitch, and to macvtaps in every mode. TCP passes in
//! both directions; everything that the run created is gone after its end and after SIGKILL; a failure is reported in one
//! line; and if a link is deleted under a router, its other NICs continue.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use support::{Flow, Namespace, Ovs, Running, Signal, Traces, alone, transfer};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets of a transfer.
const OCTETS: usize = 1 << 20;

/// Kind of attachment of both NICs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Bridge,
    Ovs,
    Macvtap(&'static str),
}

impl By {
    /// Configuration lines of a NIC on this side.
    fn nic(self, side: &str) -> String {
        match self {
            Self::Bridge => format!("attach = \"bridge:br-{side}\"\n"),
            Self::Ovs => format!("attach = \"ovs:br-{side}\"\n"),
            Self::Macvtap(mode) => format!("attach = \"macvtap:{side}0\"\nmacvtap_mode = \"{mode}\"\n"),
        }
    }

    fn file(self) -> String {
        format!(
            "[[router]]\nname = \"t24\"\n\
             [[router.nic]]\nname = \"west\"\n{}address = \"192.0.2.1/24\"\nqueue_len = \"auto\"\n\
             [[router.nic]]\nname = \"east\"\n{}address = \"198.51.100.1/24\"\n",
            self.nic("west"),
            self.nic("east")
        )
    }
}

/// Host of the router between two other hosts, each connected by a cable (veth).
struct World {
    // The order of the fields is the drop order.
    run: Option<Running>,
    ovs: Option<Ovs>,
    west: Namespace,
    east: Namespace,
    home: Namespace,
    folder: TempDir,
}

/// Creates a host with a cable `side0` at home, and its address.
fn host(home: &Namespace, side: &str, net: &str) -> Namespace {
    let host = Namespace::add_silent(&format!("t24-{side}")).expect("a namespace");
    cable(home, &host, side, net);
    host
}

/// Creates the cable between them.
fn cable(home: &Namespace, host: &Namespace, side: &str, net: &str) {
    let (near, far) = (format!("{side}0"), format!("{side}1"));
    home.ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", host.name()])
        .expect("a cable");
    home.ip(&["link", "set", &near, "up"]).expect("up");
    host.add_four(&far, &format!("{net}.2/24"), &format!("{net}.1")).expect("a route");
}

impl World {
    fn new() -> Self {
        let home = Namespace::add("t24-home").expect("a namespace");
        home.set("net.ipv6.conf.default.disable_ipv6", "1").expect("set");
        let (west, east) = (host(&home, "west", "192.0.2"), host(&home, "east", "198.51.100"));
        let folder = tempfile::tempdir().expect("a folder");
        Self { run: None, ovs: None, west, east, home, folder }
    }

    /// Creates the world with what the attachment needs in addition to the cables.
    fn of(by: By) -> Self {
        let mut world = Self::new();
        for side in ["west", "east"] {
            world.add_bridge(by, side);
        }
        world
    }

    /// Creates the bridge on one side, with the cable in it, if the attachment needs one.
    fn add_bridge(&mut self, by: By, side: &str) {
        let (bridge, near) = (format!("br-{side}"), format!("{side}0"));
        match by {
            By::Bridge => {
                self.home.ip(&["link", "add", &bridge, "type", "bridge"]).expect("a bridge");
                self.home.ip(&["link", "set", &bridge, "up"]).expect("up");
                self.home.ip(&["link", "set", &near, "master", &bridge]).expect("in it");
            }
            By::Ovs => {
                let ovs = self.ovs.get_or_insert_with(|| Ovs::start(&self.home).expect("Open vSwitch"));
                ovs.add_bridge(&bridge, &[&near]).expect("a bridge");
                // Its packet sockets would see frames whose checksum the sender has left to the cable, which needs none.
                let host = if side == "west" { &self.west } else { &self.east };
                let done = host.command("ethtool").args(["-K", &format!("{side}1"), "tx", "off"]).status();
                assert!(done.expect("ethtool").success());
            }
            By::Macvtap(_) => {}
        }
    }

    fn delete_bridge(&self, by: By, side: &str) {
        let bridge = format!("br-{side}");
        match by {
            By::Bridge => drop(self.home.ip(&["link", "delete", &bridge]).expect("deleted")),
            By::Ovs => {
                let ovs = self.ovs.as_ref().expect("Open vSwitch");
                ovs.ask(&["del-br", &bridge]).expect("deleted");
            }
            By::Macvtap(_) => {}
        }
    }

    /// Waits until the run has printed something for the `times`th time.
    fn says(&self, wanted: &str, times: usize) {
        let run = self.run.as_ref().expect("it runs");
        let end = Instant::now() + PATIENCE;
        loop {
            let said = [run.lines(0), run.stderr_lines(0)].concat();
            if said.iter().filter(|line| line.contains(wanted)).count() >= times {
                return;
            }
            assert!(Instant::now() < end, "not said {times} times: {wanted}\n{}", said.join("\n"));
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn launch(&self, text: &str) -> Running {
        fs::write(self.folder.path().join("file.toml"), text).expect("written");
        let mut command = self.home.command(BINARY);
        command.current_dir(self.folder.path()).args(["run", "--log", "text", "file.toml"]);
        if let Some(ovs) = &self.ovs {
            ovs.serve(&mut command);
        }
        Running::start(&mut command).expect("it starts")
    }

    fn start(&mut self, text: &str) {
        let mut run = self.launch(text);
        run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
        self.run = Some(run);
    }

    /// Returns the run's error message for a file that cannot be run here.
    fn refusal(&self, text: &str) -> String {
        let done = self.launch(text).wait(PATIENCE).expect("it ends");
        assert!(!done.status.success());
        done.stderr
    }

    fn both_ways(&self) {
        let at = |address: &str| -> SocketAddr { address.parse().expect("an address") };
        transfer(&self.west, &self.east, at("198.51.100.2:7024"), OCTETS, PATIENCE);
        transfer(&self.east, &self.west, at("192.0.2.2:7024"), OCTETS, PATIENCE);
    }

    fn end(&mut self, signal: Signal) {
        let mut run = self.run.take().expect("it runs");
        run.signal(signal).expect("signalled");
        let done = run.wait(PATIENCE).expect("it ends");
        assert_eq!(done.status.success(), signal == Signal::TERM, "{}", done.stderr);
    }

    /// Waits until nothing of the run remains.
    fn nothing_is_left(&self, before: &[String]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let (links, ports) = (self.home.links().expect("links"), self.ports());
            if links == before && !ports.contains("t24.") {
                return;
            }
            assert!(Instant::now() < end, "left behind: {links:?} instead of {before:?}, ports {ports}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn ports(&self) -> String {
        self.ovs.as_ref().map_or_else(String::new, |ovs| ovs.ask(&["list", "Port"]).expect("ports"))
    }
}

/// Starts the same file twice: the first run ends in good order, the second by SIGKILL.
fn carries_tcp_and_leaves_nothing(by: By) {
    let mut world = World::of(by);
    let before = world.home.links().expect("links");
    for signal in [Signal::TERM, Signal::KILL] {
        world.start(&by.file());
        let links = world.home.links().expect("links");
        assert!(links.iter().any(|link| link == "t24.west"), "{links:?}");
        world.both_ways();
        world.end(signal);
        world.nothing_is_left(&before);
    }
}

fn alone_and_tidy(test: impl FnOnce()) {
    let _turn = alone();
    let before = Traces::now();
    test();
    assert_eq!(Traces::left(&before, PATIENCE), [""; 0]);
}

#[test]
fn a_bridge_of_the_kernel() {
    support::needs!(Root, Tun);
    alone_and_tidy(|| carries_tcp_and_leaves_nothing(By::Bridge));
}

#[test]
fn macvtaps_in_every_mode() {
    support::needs!(Root, Tun);
    alone_and_tidy(|| {
        for mode in ["bridge", "private", "vepa", "passthru"] {
            carries_tcp_and_leaves_nothing(By::Macvtap(mode));
        }
    });
}

#[test]
fn open_vswitch() {
    support::needs!(Root, Tun, Program("ovs-vswitchd"), Program("ovsdb-server"), Program("ethtool"));
    alone_and_tidy(|| carries_tcp_and_leaves_nothing(By::Ovs));
}

/// Deletes something under a running router and restores it; traffic resumes.
fn deleted_and_back(by: By, delete: impl FnOnce(&World), restore: impl FnOnce(&mut World)) {
    let mut world = World::of(by);
    world.start(&by.file());
    world.both_ways();
    delete(&world);
    let run = world.run.as_mut().expect("it runs");
    run.wait_for_line(PATIENCE, |line| line.contains("was deleted")).expect("it is told");
    restore(&mut world);
    let run = world.run.as_mut().expect("it runs");
    run.wait_for_line(PATIENCE, |line| line.contains("is there again")).expect("it is mended");
    world.both_ways();
    world.end(Signal::TERM);
}

/// Two more NICs of the same router, on macvtaps, and a host behind each.
struct Bystanders {
    north: Namespace,
    south: Namespace,
}

impl Bystanders {
    const NICS: &str = "[[router.nic]]\nname = \"north\"\nattach = \"macvtap:north0\"\naddress = \"203.0.113.1/24\"\n\
                        queue_len = 4096\n\
                        [[router.nic]]\nname = \"south\"\nattach = \"macvtap:south0\"\naddress = \"198.18.0.1/24\"\n";

    fn of(world: &World) -> Self {
        let [north, south] =
            [("north", "203.0.113"), ("south", "198.18.0")].map(|(side, net)| host(&world.home, side, net));
        Self { north, south }
    }

    /// Starts a flow of datagrams from one to the other.
    fn flow(&self) -> Flow {
        let to = SocketAddr::from(([198, 18, 0, 2], 7025));
        let flow = Flow::start(&self.north, &self.south, to, RATE).expect("a flow");
        // Neighbours are resolved, and refusals during that time precede any deletion.
        flow.reaches(u64::from(RATE), PATIENCE).expect("it arrives");
        flow
    }
}

/// Datagrams a second.
const RATE: u32 = 1000;

/// While bridges come and go, the router's other NICs lose nothing.
fn made_again(by: By, faults: impl FnOnce(&mut World)) {
    let mut world = World::of(by);
    let bystanders = Bystanders::of(&world);
    world.start(&(by.file() + Bystanders::NICS));
    world.both_ways();
    let flow = bystanders.flow();
    let before = flow.so_far();
    faults(&mut world);
    world.both_ways();
    flow.reaches(before.received + u64::from(RATE), PATIENCE).expect("it goes on");
    let tally = flow.stop().expect("it ends");
    println!("beside {by:?}: {tally:?}");
    // Before the first neighbour is resolved, the kernel queues few datagrams.
    let lost = tally.lost().saturating_sub(before.lost());
    assert!(lost == 0 && tally.repeated == 0, "lost {lost}: {before:?} {tally:?}");
    world.end(Signal::TERM);
}

#[test]
fn what_the_host_does_not_have_is_said_in_one_line() {
    support::needs!(Root, Tun);
    alone_and_tidy(|| {
        let world = World::new();
        let before = world.home.links().expect("links");
        let says = |text: &str, wanted: &str| {
            let said = world.refusal(text);
            assert!(said.contains(wanted) && said.trim_end().lines().count() == 1, "{said}");
        };
        let one_of =
            |nic: String| By::Macvtap("bridge").file().replace(&By::Macvtap("bridge").nic("west"), &nic);
        says(&one_of(By::Bridge.nic("west")), "br-west");
        says(&one_of("attach = \"macvtap:west9\"\n".to_owned()), "west9");
        says(&one_of("attach = \"bridge:west0\"\n".to_owned()), "west0");
        says(
            &By::Macvtap("bridge").file().replacen("address", "mtu = 1800\naddress", 1),
            "router.nic.attach: the NIC's mtu of 1800 is more than the 1500 of west0",
        );
        world
            .home
            .ip(&["link", "add", "link", "west0", "name", "t24.west", "type", "macvtap"])
            .expect("a macvtap");
        says(&By::Macvtap("bridge").file(), "`t24.west`");
        world.home.ip(&["link", "delete", "t24.west"]).expect("deleted");
        assert_eq!(world.home.links().expect("links"), before);
    });
}

mod all {
    use super::*;

    #[test]
    fn several_queues_on_a_macvtap_and_in_a_bridge() {
        support::needs!(Root, Tun);
        alone_and_tidy(|| {
            for by in [By::Macvtap("bridge"), By::Bridge] {
                let mut world = World::of(by);
                let text = by.file().replace(
                    "name = \"t24\"\n",
                    "name = \"t24\"\nvcpus = 2\nmemory = \"64M\"\nvhost = \"per-queue\"\n",
                );
                world.start(&text);
                world.both_ways();
                world.end(Signal::TERM);
            }
        });
    }

    #[test]
    fn a_bridge_that_is_made_again_gets_its_tap_back_and_other_nics_lose_nothing() {
        support::needs!(Root, Tun);
        alone_and_tidy(|| {
            made_again(By::Bridge, |world| {
                world.delete_bridge(By::Bridge, "west");
                world.says(
                    "the bridge `br-west`: it is not there; it is put in again as soon as that can be done",
                    1,
                );
                world.add_bridge(By::Bridge, "west");
                world.says("NIC t24.west: its link is in the bridge `br-west` again", 1);
            });
        });
    }

    #[test]
    fn open_vswitch_that_loses_a_bridge_or_dies_gets_its_port_back_and_other_nics_lose_nothing() {
        support::needs!(Root, Tun, Program("ovs-vswitchd"), Program("ovsdb-server"), Program("ethtool"));
        alone_and_tidy(|| {
            made_again(By::Ovs, |world| {
                let again = |side: &str| {
                    format!("NIC t24.{side}: its link is in the bridge `br-{side}` of Open vSwitch again")
                };
                world.delete_bridge(By::Ovs, "west");
                world.says(
                    "NIC t24.west: cannot put `t24.west` into the bridge `br-west` of Open vSwitch: ",
                    1,
                );
                world.add_bridge(By::Ovs, "west");
                world.says(&again("west"), 1);
                world.both_ways();
                world.ovs.as_mut().expect("Open vSwitch").kill().expect("killed");
                for (side, times) in [("west", 2), ("east", 1)] {
                    world.says(&format!("NIC t24.{side}: cannot put"), times);
                }
                world.ovs.as_mut().expect("Open vSwitch").start_again(&world.home).expect("started");
                world.says(&again("west"), 2);
                world.says(&again("east"), 1);
            });
        });
    }

    #[test]
    fn open_vswitch_that_does_not_answer_is_said_in_one_line() {
        support::needs!(Root, Tun, Program("ovs-vsctl"));
        alone_and_tidy(|| {
            let world = World::new();
            let said = world.refusal(&By::Ovs.file());
            assert!(said.contains("Open vSwitch") && said.trim_end().lines().count() == 1, "{said}");
        });
    }

    #[test]
    fn a_link_that_is_deleted_is_made_again() {
        support::needs!(Root, Tun);
        alone_and_tidy(|| {
            let drop_link = |name: &'static str| {
                move |world: &World| drop(world.home.ip(&["link", "delete", name]).expect("deleted"))
            };
            deleted_and_back(By::Bridge, drop_link("t24.west"), |_| {});
            deleted_and_back(By::Macvtap("bridge"), drop_link("t24.west"), |_| {});
            // Together with its parent interface, which comes back later.
            deleted_and_back(By::Macvtap("bridge"), drop_link("west0"), |world| {
                thread::sleep(Duration::from_millis(1500));
                cable(&world.home, &world.west, "west", "192.0.2");
            });
        });
    }
}
