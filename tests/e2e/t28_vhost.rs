//! Objective: the threads that move a router's frames, other than ringroad's I/O threads: the vCPU's own and a main loop
//! (`vhost = "vmm"`), and the kernel's (`vhost = "kernel"`, which `tests/inbox` shows at work; here its absence is
//! reported). Expected: ping and TCP pass through the VMM, each kick is an exit, under load too; every frame is accounted
//! for.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::{Namespace, Stage, needs, run, transfer};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

fn file(name: &str, vhost: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"kvm\"\nvhost = \"{vhost}\"\nrestart = \"never\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:{name}-l\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:{name}-r\"\naddress = \"198.51.100.1/24\"\n"
    )
}

fn ping(from: &Namespace, octets: &str) {
    support::ping(from.command("busybox"), 5, &["-s", octets, "198.51.100.2"]).expect("answers");
}

#[test]
fn frames_pass_within_the_access_that_tells_of_them() {
    needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let mut stage = Stage::start(RINGROAD, &file("vmm", "vmm")).expect("it starts");
    let left = stage.host("vmm-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("vmm-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    for octets in ["0", "1472", "4000"] {
        ping(&left, octets);
    }
    transfer(&left, &right, "198.51.100.2:7001".parse().expect("an address"), 5_000_000, PATIENCE);
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    let faults = counters.faults("vmm");
    assert!(faults.is_empty(), "{faults:?}");
    let kicks = counters.get("vmm.left.tx.kicks") + counters.get("vmm.right.tx.kicks");
    let exits = counters.get("vmm.vcpu0.exit.register_write");
    assert!(kicks > 0 && exits >= kicks, "{kicks} kicks, {exits} exits");
}

#[test]
fn a_host_without_vhost_net_is_told_of() {
    needs!(Root, Kvm, Tun);
    if Path::new("/dev/vhost-net").exists() {
        println!("SKIPPED: there is a /dev/vhost-net");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file.toml");
    fs::write(&path, file("vkn", "kernel")).expect("a file");
    let said = |verb: &str| {
        let mut command = Command::new(RINGROAD);
        run(command.arg(verb).arg(&path), PATIENCE).expect("it ends")
    };
    let line = said("check").stdout.lines().find(|line| line.contains("vhost-net")).map(str::to_owned);
    assert!(line.as_ref().is_some_and(|line| line.contains("load the module vhost_net")), "{line:?}");
    let done = said("run");
    assert!(!done.status.success() && done.stderr.contains("/dev/vhost-net"), "{}", done.stderr);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
}
