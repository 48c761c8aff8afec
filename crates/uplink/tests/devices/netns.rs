//! Network namespaces that belong to this process alone.

use std::os::fd::AsFd;
use std::process::Command;

use crate::support::{devices, wait_for};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use uplink::{Error, Links, Netns, PacketSender, Tap, TapConfig};

fn own() -> std::path::PathBuf {
    std::fs::read_link("/proc/thread-self/ns/net").unwrap()
}

#[test]
fn work_runs_inside_while_the_caller_stays_outside() {
    if !devices() {
        return;
    }
    let before = own();
    let netns = Netns::new().unwrap();
    let inside = netns.run(own).unwrap();
    assert_ne!(inside, before);
    assert_eq!(netns.clone().run(own).unwrap(), inside);
    assert_eq!(own(), before);
}

#[test]
fn a_settled_namespace_has_loopback_and_forwards_as_told() {
    if !devices() {
        return;
    }
    for forward in [false, true] {
        let netns = Netns::new().unwrap();
        netns.settle(forward).unwrap();
        let read = |path: &'static str| netns.run(move || std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(read("/proc/sys/net/ipv4/ip_forward").trim(), if forward { "1" } else { "0" });
        netns.run(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let refused = netns.set_sysctl("net.ipv4.no_such_key", "1").unwrap_err().to_string();
        assert!(refused.contains("/proc/sys/net/ipv4/no_such_key"), "{refused}");
    }
}

#[test]
fn routes_go_in_and_wrong_ones_are_refused() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let links = netns.settle(false).unwrap();
    let _tap = Tap::open("r0", &TapConfig { netns: Some(&netns), ..TapConfig::default() }).unwrap();
    links.add_address("r0", [192, 0, 2, 1].into(), 24).unwrap();
    links.add_route([0, 0, 0, 0].into(), 0, [192, 0, 2, 254].into()).unwrap();
    links.add_route([198, 51, 100, 0].into(), 25, [192, 0, 2, 253].into()).unwrap();
    let table = netns.run(|| std::fs::read_to_string("/proc/self/net/route").unwrap()).unwrap();
    let thread_table = netns.run(|| std::fs::read_to_string("/proc/thread-self/net/route").unwrap()).unwrap();
    assert_ne!(table, thread_table, "the process itself is elsewhere");
    assert!(thread_table.contains("r0\t006433C6\tFD0200C0"), "{thread_table}");
    assert!(thread_table.contains("r0\t00000000\tFE0200C0"), "{thread_table}");
    let refused = links.add_route([10, 0, 0, 0].into(), 8, [203, 0, 113, 1].into()).unwrap_err().to_string();
    assert!(refused.contains("10.0.0.0/8 via 203.0.113.1"), "{refused}");
    assert!(matches!(links.add_address("r0", [192, 0, 2, 1].into(), 33), Err(Error::Range { .. })));
    let refused = links.set_up("nothing", true).unwrap_err().to_string();
    assert!(refused.contains("`nothing`: there is no such interface"), "{refused}");
}

#[test]
fn a_command_runs_inside_and_dies_with_the_thread_that_spawned_it() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let mut look = Command::new("readlink");
    let output = netns.attach(look.arg("/proc/self/ns/net")).output().unwrap();
    let inside = netns.run(own).unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), inside.to_string_lossy());

    let mut sleeper = std::thread::scope(|scope| {
        let spawn = || netns.attach(Command::new("sleep").arg("infinity")).spawn().unwrap();
        scope.spawn(spawn).join().unwrap()
    });
    let mut ended = None;
    wait_for("its end", || {
        ended = sleeper.try_wait().unwrap();
        ended.is_some()
    });
    assert!(!ended.unwrap().success());
}

#[test]
fn a_namespace_is_found_by_its_file_and_its_descriptor() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let inside = netns.run(own).unwrap();
    let child = netns.attach(Command::new("sleep").arg("600")).spawn();
    let mut child = child.unwrap();
    let by_pid = Netns::open(format!("/proc/{}/ns/net", child.id())).unwrap();
    assert_eq!(by_pid.run(own).unwrap(), inside);
    child.kill().unwrap();
    child.wait().unwrap();
    let by_fd = Netns(netns.as_fd().try_clone_to_owned().unwrap().into());
    assert_eq!(by_fd.run(own).unwrap(), inside);
    let refused = Netns::open("/run/netns/there-is-none").unwrap_err().to_string();
    assert!(refused.contains("/run/netns/there-is-none"), "{refused}");
}

#[test]
fn without_privilege_one_line_says_so() {
    if !devices() {
        return;
    }
    std::thread::spawn(|| {
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .unwrap();
        let tap = Tap::open("never", &TapConfig::default()).expect_err("no privilege");
        let netns = Netns::new().expect_err("no privilege");
        for refused in [tap, netns] {
            assert!(matches!(refused, Error::NotPermitted { .. }), "{refused}");
            assert!(refused.to_string().contains("run as root"), "{refused}");
        }
    })
    .join()
    .unwrap();
    assert!(!Links::here().unwrap().exists("never").unwrap());
}

#[test]
#[should_panic(expected = "goes on outside")]
fn a_panic_inside_goes_on_outside() {
    if !devices() {
        panic!("goes on outside");
    }
    let _ = Netns::new().unwrap().run(|| panic!("goes on outside"));
}

#[test]
fn a_packet_socket_wants_an_interface_that_is_there() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    assert!(PacketSender::open(&netns, "lo").is_ok());
    let refused = PacketSender::open(&netns, "none").unwrap_err().to_string();
    assert!(refused.contains("`none`"), "{refused}");
}
