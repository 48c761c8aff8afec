//! Objective: packets of a kernel router, of both families, are traced to the NIC by which they leave, to the kernel's reason for
//! dropping them, or into the router; `limit` admits no more of them than it says; and `drop_reasons` counts what the kernel drops by
//! its reason. All of it works while the router forwards, and leaves nothing behind.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Counters, Flow, Namespace, Running, Stage, ping};

use crate::verbs::said;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Longest wait, also on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams per second.
const RATE: u32 = 4000;

const FILE: &str = "[[router]]\nname = \"t40\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"west\"\nattach = \"veth:t40w\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"east\"\nattach = \"veth:t40e\"\naddress = \"198.51.100.1/24\"\n";

/// A run of the file with a host on each side.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start() -> Self {
        Self::start_with(FILE)
    }

    fn start_with(file: &str) -> Self {
        let hosts = |_: &Namespace| Ok((host("t40-west"), host("t40-east")));
        let started = Stage::start_with_groups_after(RINGROAD, file, &["--json"], hosts);
        let (stage, (west, east)) = started.expect("it starts");
        let end = Instant::now() + PATIENCE;
        while stage.client().is_err() {
            assert!(Instant::now() < end, "it does not come up");
            thread::sleep(Duration::from_millis(10));
        }
        for (link, host, net) in [("t40w", &west, "192.0.2"), ("t40e", &east, "198.51.100")] {
            stage.home().ip(&["link", "set", link, "netns", host.name()]).expect("moved");
            settle(host, link, net);
        }
        ping(west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
        Self { stage, west, east }
    }

    /// Sends a datagram from the west.
    fn send(&self, to: &str) {
        let own = if to.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
        let send = || {
            let socket = UdpSocket::bind(own).expect("a socket");
            // An ICMP error for an earlier datagram shows as an error of the next send.
            let _ = socket.send_to(b"somebody there?", to);
        };
        self.west.inside(send).expect("the namespace");
    }

    /// The first packet that a trace with these arguments reports, while something is sent repeatedly.
    fn traced(&self, words: &[&str], send: impl Fn()) -> Value {
        let mut command = Command::new(RINGROAD);
        command.args(["trace", "t40.west", "--count", "1", "--seconds", "50", "--json"]).args(words);
        let mut trace = Running::start(&mut command).expect("it starts");
        let end = Instant::now() + PATIENCE;
        while !trace.ended().expect("it can be looked at") {
            assert!(Instant::now() < end, "no packet is traced");
            send();
            thread::sleep(Duration::from_millis(20));
        }
        let done = trace.wait(PATIENCE).expect("it has ended");
        assert!(done.status.success(), "{}", done.stderr);
        let first = done.stdout.lines().next().expect("a packet");
        serde_json::from_str(first).expect("JSON")
    }

    fn finish(self) {
        let Self { stage, west, east } = self;
        stage.finish(vec![west, east]).expect("nothing is left");
    }
}

/// A host without IPv6, so that it sends nothing by itself.
fn host(name: &str) -> Namespace {
    Namespace::add_silent(name).expect("a namespace")
}

/// Gives a host's end of a pair an address and a default route.
fn settle(host: &Namespace, link: &str, net: &str) {
    host.add_four(link, &format!("{net}.2/24"), &format!("{net}.1")).expect("a route");
}

/// Their runs see the host's `/sys`, with tracing and control groups: other tests would take the groups for their own.
mod alone {
    use super::*;

    #[test]
    fn packets_are_followed_to_where_they_leave_or_why_they_end() {
        support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
        let world = World::start();
        let to = "198.51.100.2:7040";
        let left = world.traced(&["--port", "7040"], || world.send(to));
        assert_eq!(left["fate"]["left"]["nic"], "t40.east", "{left}");
        let places: Vec<&Value> = (0..2).map(|hop| &left["hops"][hop]["place"]).collect();
        assert_eq!(places, ["t40.west.rx", "t40.east.tx"], "{left}");
        assert!(
            left["hops"][1]["seen"].as_str().is_some_and(|seen| seen.starts_with("ttl 63 to ")),
            "{left}"
        );
        assert!(
            left["headers"].as_str().is_some_and(|headers| headers.contains("> 198.51.100.2 ttl 64")),
            "{left}"
        );
        let dropped = world.traced(&["--to", "203.0.113.9"], || world.send("203.0.113.9:7040"));
        assert!(dropped["fate"]["dropped"]["reason"].is_string(), "{dropped}");
        let closed =
            world.traced(&["--to", "192.0.2.1", "--protocol", "udp"], || world.send("192.0.2.1:7040"));
        assert_eq!(closed["fate"]["dropped"]["reason"], "no_socket", "{closed}");
        let kept = world.traced(&["--to", "192.0.2.1", "--protocol", "icmp"], || {
            let _ = ping(world.west.command("busybox"), 1, &["192.0.2.1"]);
        });
        assert!(kept["fate"]["kept"].is_object(), "{kept}");
        world.finish();
    }

    #[test]
    fn what_enters_is_limited_while_it_forwards() {
        support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
        let world = World::start();
        let to: SocketAddr = "198.51.100.2:7040".parse().expect("an address");
        let flow = Flow::start(&world.west, &world.east, to, RATE).expect("a flow");
        flow.reaches(100, PATIENCE).expect("it flows");
        said(&["set", "t40", "limit=500pps"]);
        let counted = world.stage.wait_for_counters(|counters| {
            let of_limit = |name: &str| counters.get(&format!("t40.west.limit.{name}"));
            of_limit("drop_limit") > 100 && of_limit("passed") > 100
        });
        counted.expect("some pass, and some do not");
        assert!(said(&["show", "t40"]).contains("limit = 500pps"));
        said(&["set", "t40", "limit=none"]);
        let before = flow.so_far().received;
        flow.reaches(before + 1000, PATIENCE).expect("it flows");
        assert!(!said(&["show", "t40"]).contains("limit ="));
        drop(flow);
        let counted = world.stage.wait_for_counters(|counters| {
            let of_limit = |name: &str| counters.get(&format!("t40.west.limit.{name}"));
            of_limit("in_frames") == of_limit("passed") + of_limit("drop_limit")
        });
        counted.expect("each was counted once");
        world.finish();
    }

    mod all {
        use super::*;

        /// A run whose router and hosts have IPv6 as well.
        fn with_six() -> World {
            let both = |text: &str, four: &str, six: &str| {
                text.replace(&format!("\"{four}\""), &format!("[\"{four}\", \"{six}\"]"))
            };
            let file = both(FILE, "192.0.2.1/24", "2001:db8:1::1/64");
            let world = World::start_with(&both(&file, "198.51.100.1/24", "2001:db8:2::1/64"));
            world.west.add_six("t40w", "2001:db8:1::2/64", "2001:db8:1::1").expect("IPv6");
            world.east.add_six("t40e", "2001:db8:2::2/64", "2001:db8:2::1").expect("IPv6");
            // The router uses its addresses after it has looked for others that have them.
            let end = Instant::now() + PATIENCE;
            while !support::answers(world.west.command("busybox"), &["-6", "2001:db8:2::2"]) {
                assert!(Instant::now() < end, "no packet of IPv6 passes");
                thread::sleep(Duration::from_millis(20));
            }
            world
        }

        #[test]
        fn packets_of_ipv6_are_told_from_others_and_followed_to_their_end() {
            support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
            if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
                return println!("SKIPPED: this kernel has no IPv6");
            }
            let world = with_six();
            let send = |six: &str| {
                // No filter selects this one.
                world.send("198.51.100.2:7041");
                world.send(six);
            };
            let from = ["--from", "2001:db8:1::2", "--protocol", "udp", "--port", "7040"];
            let left = world.traced(&from, || send("[2001:db8:2::2]:7040"));
            assert_eq!(left["fate"]["left"]["nic"], "t40.east", "{left}");
            let places: Vec<&Value> = (0..2).map(|hop| &left["hops"][hop]["place"]).collect();
            assert_eq!(places, ["t40.west.rx", "t40.east.tx"], "{left}");
            let seen = left["hops"][1]["seen"].as_str();
            assert!(seen.is_some_and(|seen| seen.starts_with("ttl 63 to ")), "{left}");
            let headers = left["headers"].as_str();
            let is_ours = |headers: &str| headers.contains("IPv6 2001:db8:1::2 > 2001:db8:2::2 ttl 64");
            assert!(headers.is_some_and(is_ours), "{left}");
            let dropped = world.traced(&["--to", "2001:db8:9::9"], || send("[2001:db8:9::9]:7040"));
            assert!(dropped["fate"]["dropped"]["reason"].is_string(), "{dropped}");
            let to = ["--to", "2001:db8:1::1", "--protocol", "udp"];
            let closed = world.traced(&to, || send("[2001:db8:1::1]:7040"));
            assert_eq!(closed["fate"]["dropped"]["reason"], "no_socket", "{closed}");
            [&world.west, &world.east].iter().for_each(|host| host.silence_six().expect("it is silent"));
            world.finish();
        }

        #[test]
        fn drops_are_counted_by_the_kernels_reason_while_somebody_asks() {
            support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
            if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
                return println!("SKIPPED: this kernel exports no type information");
            }
            let world = World::start();
            let of_kernel = |name: &str| name.starts_with("t40.") && name.contains(".kernel.drop_");
            let counted = |least: u64| {
                let arrived = |counters: &Counters| counters.get("t40.west.kernel.drop_no_socket") >= least;
                world.stage.wait_for_counters(arrived).expect("it counts")
            };
            let delivered = |more: u64| {
                let arrived = |counters: &Counters| counters.get("t40.ip.delivered") >= more;
                world.stage.wait_for_counters(arrived).expect("it counts")
            };
            let first = delivered(0).get("t40.ip.delivered");
            world.send("192.0.2.1:7040");
            assert_eq!(delivered(first + 1).sum(of_kernel), 0, "nobody has asked");
            said(&["set", "t40", "drop_reasons=true"]);
            (0..5).for_each(|_| world.send("192.0.2.1:7040"));
            let counters = counted(5);
            assert_eq!(counters.get("t40.west.kernel.drop_no_socket"), 5, "{counters:?}");
            assert_eq!(counters.get("t40.east.kernel.drop_no_socket"), 0, "{counters:?}");
            // The run looks once a second.
            let shows = |words: &str, is_so: bool| {
                let end = Instant::now() + PATIENCE;
                while said(&["show", "t40"]).contains(words) != is_so {
                    assert!(Instant::now() < end, "{}", said(&["show", "t40"]));
                    thread::sleep(Duration::from_millis(20));
                }
            };
            shows("no_socket 5", true);
            // A namespace of its own has other interfaces, which count from zero.
            said(&["restart", "t40"]);
            let gone =
                world.stage.wait_for_counters(|counters| counters.get("t40.west.kernel.drop_no_socket") == 0);
            gone.expect("it counts");
            // The first ones may be lost where the host has not noticed yet that its cable is in again.
            let again = world.stage.wait_for_counters(|counters| {
                world.send("192.0.2.1:7040");
                counters.get("t40.west.kernel.drop_no_socket") > 0
            });
            again.expect("it counts");
            said(&["set", "t40", "drop_reasons=false"]);
            world
                .stage
                .wait_for_counters(|counters| counters.sum(of_kernel) == 0)
                .expect("nothing is counted");
            shows("drops = ", false);
            world.finish();
        }
    }
}
