//! Objective: a router's NIC on a bridge of Open vSwitch whose datapath is the kernel's own module: frames pass through
//! that datapath, and the port disappears with the run.

use std::fs;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use support::{Running, Signal, run};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
const DATABASE: &str = "/etc/openvswitch/conf.db";
const FILE: &str = "[[router]]\nname = \"ov\"\nengine = \"kvm\"\n\
                    [[router.nic]]\nname = \"wan\"\nattach = \"ovs:ovbr\"\naddress = \"192.0.2.1/24\"\n";

fn said(program: &str, words: &[&str]) -> (ExitStatus, String) {
    let done = run(Command::new(program).args(words), PATIENCE).expect("it ends");
    (done.status, format!("{}{}", done.stdout, done.stderr))
}

fn well(program: &str, words: &[&str]) -> String {
    let (status, text) = said(program, words);
    assert!(status.success(), "{program} {words:?}: {text}");
    text
}

fn start_open_vswitch() {
    for folder in ["/etc/openvswitch", "/run/openvswitch", "/var/log/openvswitch"] {
        fs::create_dir_all(folder).expect("a folder");
    }
    well("ovsdb-tool", &["create", DATABASE, SCHEMA]);
    let socket = "--remote=punix:/run/openvswitch/db.sock";
    well("ovsdb-server", &[DATABASE, socket, "--pidfile", "--detach", "--log-file=/dev/null"]);
    well("ovs-vsctl", &["--no-wait", "init"]);
    well("ovs-vswitchd", &["--pidfile", "--detach", "--log-file=/dev/null"]);
}

#[test]
fn frames_pass_by_the_kernels_datapath() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("ovs-vsctl"), Program("ovs-vswitchd"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose Open vSwitch is nobody else's");
        return;
    }
    start_open_vswitch();
    well("ovs-vsctl", &["--timeout=50", "add-br", "ovbr"]);
    well("ip", &["address", "add", "192.0.2.2/24", "dev", "ovbr"]);
    well("ip", &["link", "set", "ovbr", "up"]);
    fs::write("/root/ov.toml", FILE).expect("a file");
    let mut router = Running::start(Command::new(inbox::ringroad()).args(["run", "/root/ov.toml", "--json"]))
        .expect("it starts");
    router.wait_for_line(PATIENCE, |line| line.contains("counters")).expect("it runs");
    support::ping(Command::new("busybox"), 5, &["192.0.2.1"]).expect("answers");
    let datapaths = well("ovs-appctl", &["dpctl/show", "-s"]);
    assert!(datapaths.contains("system@ovs-system"), "{datapaths}");
    let ports = well("ovs-vsctl", &["list-ports", "ovbr"]);
    assert_eq!(ports.lines().filter(|line| !line.is_empty()).count(), 1, "{ports}");

    router.signal(Signal::TERM).expect("a signal");
    let done = router.wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}: {}", done.status, done.stderr);
    assert_eq!(well("ovs-vsctl", &["list-ports", "ovbr"]).trim(), "", "the port goes with the run");
    well("ovs-appctl", &["-t", "ovs-vswitchd", "exit"]);
    well("ovs-appctl", &["-t", "ovsdb-server", "exit"]);
}
