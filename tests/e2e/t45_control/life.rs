//! FRR sees each change at a NIC, by the file, by `set` or from outside; and its shadow carries as many frames as were sorted out for it.

use std::thread::JoinHandle;

use support::Finished;

use super::*;
use crate::verbs::{said, said_at};

const ROUTER: &str = "t45-n1";
/// Address that only the control plane has.
const LATER: &str = "192.0.2.9";
/// What zebra says of an interface, and of one that has a carrier.
const THERE: &str = "Interface lan is ";
const UP: &str = "line protocol is up";

/// A router with a TAP, and with a NIC that leads nowhere.
fn file(frr: &str, core: &str) -> String {
    format!(
        "[[router]]\nname = \"{ROUTER}\"\nengine = \"process\"\ncontrol = {{ frr = \"{frr}\" }}\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"tap:{ROUTER}\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"core\"\nattach = \"null\"\n{core}\n"
    )
}

/// Waits until zebra says all of this of an interface, and does not say that.
fn is_seen(link: &str, all: &[&str], other: Option<&str>) {
    let question = format!("show interface {link}");
    wait_for(&format!("{link} with {all:?} and without {other:?}"), || {
        // It may not answer yet.
        let done = run(Command::new(RINGROAD).args(["cli", ROUTER, "-c", &question]), PATIENCE);
        let told = done.expect("it ends").stdout;
        let is_so = all.iter().all(|words| told.contains(*words));
        (is_so && other.is_none_or(|words| !told.contains(words))).then_some(())
    });
}

/// Frames that the kernel of the control plane has got from a shadow, and has sent there.
fn carried(nic: &str) -> (u64, u64) {
    let told = said(&["exec", ROUTER, "--", "cat", "/proc/net/dev"]);
    let start = format!("{nic}:");
    let row = told.lines().find_map(|line| line.trim().strip_prefix(&start)).expect("the shadow");
    let counts: Vec<u64> = row.split_whitespace().map(|count| count.parse().expect("a number")).collect();
    (counts[1], counts[9])
}

/// Waits until what was sorted out for the control plane was passed or dropped by class, what was passed is what the shadow was
/// given, and both directions of the shadow are what the kernel counts.
fn adds_up(stage: &Stage, nic: &str) {
    wait_for("counters that add up", || {
        let before = carried(nic);
        let counters = stage.wait_for_counters(|_| true).expect("counters");
        let get = |name: &str| counters.get(&format!("{ROUTER}.{nic}.{name}"));
        let sum = |start: &str| {
            let start = format!("{ROUTER}.{nic}.{start}");
            counters.sum(|name| name.starts_with(&start))
        };
        let classified = sum("punt.");
        let given = get("shadow.write.frames") + sum("shadow.write.drop_");
        let is_right = classified > 0
            && classified == get("sorted.for_control") + get("sorted.for_both")
            && classified == given + sum("punt.drop_")
            && before == (get("shadow.write.frames"), get("shadow.read.frames"));
        (is_right && carried(nic) == before).then_some(())
    });
}

/// What `tcpdump` says of the first echo request that the control plane gets.
fn first_request() -> JoinHandle<Finished> {
    let words =
        ["exec", ROUTER, "--", "tcpdump", "-n", "-c", "1", "-i", "lan", "icmp[icmptype] == icmp-echo"];
    spawn(move || run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends"))
}

#[test]
fn frr_sees_what_file_command_namespace_and_host_change_and_the_counters_add_up() {
    needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"), Program("tcpdump"));
    let folder = tempfile::tempdir().expect("a folder");
    let frr = folder.path().join("frr.conf");
    fs::write(&frr, "ip route 198.51.100.0/24 blackhole\n").expect("written");
    let file = |core: &str| file(&frr.display().to_string(), core);
    let mut stage = Stage::start(RINGROAD, &file("address = \"10.45.0.1/24\"")).expect("it starts");
    let near = stage.host(ROUTER, "192.0.2.2/24", "192.0.2.1").expect("a host");
    is_seen("lan", &[UP, "inet 192.0.2.1/24", " mtu 1500 "], None);
    is_seen("core", &[UP, "inet 10.45.0.1/24", " mtu 1500 "], None);
    // In the namespace.
    said(&["exec", ROUTER, "--", "ip", "address", "add", &format!("{LATER}/32"), "dev", "lan"]);
    is_seen("lan", &[UP, "inet 192.0.2.9/32"], None);
    wait_for_answer(&near, LATER);
    let request = first_request();
    wait_for("an echo request that tcpdump sees", || {
        wait_for_answer(&near, LATER);
        request.is_finished().then_some(())
    });
    let told = request.join().expect("it ends").stdout;
    assert!(told.contains(&format!("192.0.2.2 > {LATER}: ICMP echo request")), "{told}");
    ping(near.command("busybox"), 5, &[LATER]).expect("answered");
    adds_up(&stage, "lan");
    // An MTU stays there until the settings are brought into force again.
    said(&["exec", ROUTER, "--", "ip", "link", "set", "lan", "mtu", "1300"]);
    is_seen("lan", &[UP, " mtu 1300 "], None);
    // By a command, and on the host.
    said(&["set", &format!("{ROUTER}.lan"), "link=down"]);
    is_seen("lan", &[THERE, " mtu 1500 "], Some(UP));
    said(&["set", &format!("{ROUTER}.lan"), "link=up"]);
    is_seen("lan", &[UP], None);
    near.ip(&["link", "set", ROUTER, "down"]).expect("set");
    is_seen("lan", &[THERE], Some(UP));
    near.ip(&["link", "set", ROUTER, "up"]).expect("set");
    is_seen("lan", &[UP], None);
    // The link of the host takes less than the NIC, and then more.
    for (mtu, seen) in [("1400", " mtu 1400 "), ("9000", " mtu 1500 ")] {
        near.ip(&["link", "set", ROUTER, "mtu", mtu]).expect("set");
        is_seen("lan", &[UP, seen], None);
    }
    // By the file.
    let later = file("address = \"10.45.1.1/24\"\nmtu = 1400");
    fs::write(stage.path("later.toml"), later).expect("written");
    said_at(&stage, &["apply", "later.toml", "--run", "file"]);
    is_seen("core", &[UP, "inet 10.45.1.1/24", " mtu 1400 "], Some("10.45.0.1"));
    stage.finish_troubled(vec![near]).expect("nothing is left");
}
