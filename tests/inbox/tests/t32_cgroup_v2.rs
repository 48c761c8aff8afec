//! Objective: with control groups of version 2, the kernel gives threads the shares, quotas, reservations and guarantees that a
//! file states, also after `set`; and neither groups nor partitions nor controllers remain of a run, not even after SIGKILL.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use support::{Namespace, Running, Scheduled, Signal, Stage, Traces, router_threads};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(50);
const ROOT: &str = "/sys/fs/cgroup";
const SWITCHES: &str = "/sys/fs/cgroup/cgroup.subtree_control";
/// Name of the runs.
const RUN: &str = "t32v2";

/// Returns true outside the box, whose control groups are used by this test alone; there it disables controllers that other tests
/// have left enabled.
fn not_alone() -> bool {
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose control groups are nobody else's");
        return true;
    }
    fs::write(SWITCHES, "-cpu -cpuset -memory -pids").expect("no group has them");
    assert_eq!(controllers(), "");
    false
}

/// Controllers that are enabled for groups in the root.
fn controllers() -> String {
    fs::read_to_string(SWITCHES).expect("version 2").trim().to_owned()
}

/// Group of a router, or with `cpusN` that of exclusive CPUs.
fn group(of: &str) -> PathBuf {
    Path::new(ROOT).join(format!("ringroad-{RUN}.{of}"))
}

/// Content of a group's file; none if the group or the file does not exist.
fn held(of: &str, file: &str) -> Option<String> {
    Some(fs::read_to_string(group(of).join(file)).ok()?.trim().to_owned())
}

/// Reads a line of a group's `cpu.stat`.
fn stat(of: &str, key: &str) -> u64 {
    let text = held(of, "cpu.stat").expect("a group");
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no {key} in {text}"))
}

#[track_caller]
fn wait(what: &str, is_there: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(LOOK);
    }
}

fn ask(words: &[&str]) -> support::Finished {
    support::run(Command::new(inbox::ringroad()).args(words), PATIENCE).expect("it ends")
}

#[track_caller]
fn set(router: &str, setting: &str) {
    let done = ask(&["set", router, setting]);
    assert!(done.status.success(), "{setting}: {}", done.stderr);
}

fn start(text: &str) -> Stage {
    Stage::start_with_groups(&inbox::ringroad(), text, &["--json", "--name", RUN]).expect("it starts")
}

/// A router on CPU 1 with a network behind it that leads back to itself: each frame to 203.0.113.0/24 passes it until its TTL
/// expires. Its weight is also part of the MAC address of its NIC there.
fn circle(name: &str, weight: u32) -> String {
    let mac = format!("02:00:00:00:32:{weight:02}");
    format!(
        "[switch.{name}]\n\
         [[router]]\nname = \"{name}\"\nengine = \"process\"\npin = {{ vcpu = \"1\", vhost = \"1\" }}\n\
         sched = {{ policy = \"shares\", weight = {weight} }}\n\
         [[router.nic]]\nname = \"in\"\nattach = \"tap:{name}\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"out\"\nattach = \"switch:{name}\"\naddress = \"10.32.1.1/24\"\n\
         [[router.nic]]\nname = \"back\"\nattach = \"switch:{name}\"\naddress = \"10.32.2.1/24\"\nmac = \"{mac}\"\n\
         [[router.neighbour]]\naddress = \"10.32.1.2\"\nmac = \"{mac}\"\n\
         [[router.route]]\nto = \"203.0.113.0/24\"\nvia = \"10.32.1.2\"\n"
    )
}

/// Sends datagrams with the largest TTL into the loops until told to stop: more than their routers can forward on a whole CPU.
fn feed(host: &Namespace, enough: &AtomicBool) {
    let socket = host.inside(|| UdpSocket::bind(("0.0.0.0", 0))).expect("a namespace").expect("a socket");
    socket.set_ttl(255).expect("the longest life");
    while !enough.load(Relaxed) {
        for _ in 0..20 {
            // If there is no room, there is enough load.
            let _ = socket.send_to(&[0; 18], "203.0.113.9:9");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn weights_and_quotas_are_those_of_the_file_and_of_set() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    if not_alone() {
        return;
    }
    let mut stage = start(&(circle("big", 2) + &circle("small", 1)));
    let hosts = ["big", "small"].map(|tap| stage.host(tap, "192.0.2.2/24", "192.0.2.1").expect("a host"));
    wait("both routers have threads in their groups", || {
        ["big", "small"]
            .iter()
            .all(|of| held(of, "cgroup.threads").is_some_and(|ids| ids.lines().count() == 2))
    });
    assert_eq!([held("big", "cpu.weight"), held("small", "cpu.weight")].map(Option::unwrap), ["200", "100"]);
    assert_eq!(controllers(), "cpu");

    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        let senders = hosts.each_ref().map(|host| scope.spawn(|| feed(host, &enough)));
        let used = || ["big", "small"].map(|of| stat(of, "usage_usec"));
        let before = used();
        wait("both work in their groups", || used().iter().zip(before).all(|(now, before)| *now > before));
        assert_eq!(stat("big", "nr_throttled"), 0);
        set("big", "sched.weight=1");
        wait("the weight", || held("big", "cpu.weight").as_deref() == Some("100"));
        set("big", "sched.quota=0.2");
        wait("the quota", || held("big", "cpu.max").as_deref() == Some("2000 10000"));
        wait("it is stopped at the end of its quota", || stat("big", "nr_throttled") >= 20);
        enough.store(true, Relaxed);
        senders.into_iter().for_each(|sender| sender.join().expect("a sender"));
    });
    // Frames were dropped, as intended.
    stage.finish_troubled(hosts.into()).expect("nothing is left");
    assert_eq!(controllers(), "");
}

/// One router between two TAPs or null attachments, with these lines of its own.
fn file(lines: &str, attach: [&str; 2]) -> String {
    let [left, right] = attach;
    format!(
        "[[router]]\nname = \"edge\"\nengine = \"process\"\n{lines}\n\
         [[router.nic]]\nname = \"left\"\nattach = \"{left}\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"{right}\"\naddress = \"198.51.100.1/24\"\n"
    )
}

const TAPS: [&str; 2] = ["tap:v2-l", "tap:v2-r"];
const ON_1: &str = "pin = { vcpu = \"1\", vhost = \"1\" }";
const RESERVED: &str = "sched = { policy = \"deadline\", runtime = \"30ms\", period = \"200ms\" }";

/// Waits until all threads of the router are scheduled as wanted.
#[track_caller]
fn threads_are(what: &str, wanted: impl Fn(&Scheduled) -> bool) {
    let end = Instant::now() + PATIENCE;
    loop {
        let threads = Scheduled::of_router(&inbox::ringroad(), "edge").expect("an answer");
        if threads.len() == 2 && threads.values().all(&wanted) {
            return;
        }
        assert!(Instant::now() < end, "not {what}: {threads:#?}");
        thread::sleep(LOOK);
    }
}

/// Returns true if a thread has this many ms of each 200 reserved, on CPU 1.
fn is_reserved(ms: u64) -> impl Fn(&Scheduled) -> bool {
    let reserved = [ms * 1_000_000, 200_000_000, 200_000_000];
    move |is| is.policy == "SCHED_DEADLINE" && is.reserved == reserved && is.cpus == "1"
}

#[test]
fn a_pinned_reservation_has_a_partition() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("chrt"), Program("nsenter"));
    if not_alone() {
        return;
    }
    let mut stage = start(&file(&format!("{ON_1}\n{RESERVED}"), TAPS));
    let left = stage.host("v2-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("v2-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    // The kernel goes by where a thread last ran, and these have slept since they were moved.
    inbox::ping(&left);
    threads_are("30 of 200 ms", is_reserved(30));
    assert_eq!(held("cpus1", "cpuset.cpus.partition").as_deref(), Some("root"));
    let inside = held("cpus1", "cgroup.threads").expect("a partition");
    let mut threads: Vec<u32> = router_threads(&inbox::ringroad(), "edge")
        .expect("an answer")
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    threads.sort_unstable();
    let mut listed: Vec<u32> = inside.lines().map(|id| id.parse().expect("a number")).collect();
    listed.sort_unstable();
    assert_eq!(listed, threads);
    // All other processes are elsewhere.
    assert_eq!(support::allowed_cpus(std::process::id()).as_deref(), Some("0"));
    // Its supervisor may no longer use that CPU, and can still assign it to its threads.
    set("edge", "sched.runtime=40ms");
    threads_are("40 of 200 ms", is_reserved(40));
    set("edge", "sched={ policy = \"other\" }");
    threads_are("ordinary on CPU 1", |is| is.policy == "SCHED_OTHER" && is.cpus == "1");
    wait("the partition goes", || !group("cpus1").exists());
    set("edge", "pin.vhost=0");
    set("edge", "sched={ vcpu = { policy = \"deadline\", runtime = \"50ms\", period = \"200ms\" } }");
    let places = || Scheduled::of_router(&inbox::ringroad(), "edge").expect("an answer");
    let vcpu = |name: &String| name.ends_with("/vcpu0");
    wait("the vCPU's is back, and the other thread beside it", || {
        let places = places();
        places.len() == 2
            && places.iter().all(|(name, is)| if vcpu(name) { is_reserved(50)(is) } else { is.cpus == "0" })
    });
    inbox::ping(&left);
    set("edge", "sched={ policy = \"other\" }");
    wait("the partition goes again", || !group("cpus1").exists());
    // Threads outside the partition keep their CPUs, whatever the kernel gives to all others there.
    wait("each on its CPU", || {
        let places = places();
        places.len() == 2 && places.iter().all(|(name, is)| is.cpus == if vcpu(name) { "1" } else { "0" })
    });
    // It may have reported that a thread slept where it was for a while.
    stage.finish_troubled(vec![left, right]).expect("nothing is left");
    assert_eq!(controllers(), "");
    assert_eq!(support::allowed_cpus(std::process::id()).as_deref(), Some("0-1"));
}

#[test]
fn nothing_is_left_of_a_run_that_was_killed() {
    support::needs!(Root, Tun, Program("chrt"));
    if not_alone() {
        return;
    }
    let shares = "sched = { policy = \"shares\", weight = 3, quota = 0.5 }".to_owned();
    for (lines, group_of, switched_on) in
        [(format!("{ON_1}\n{RESERVED}"), "cpus1", "cpuset"), (shares, "edge", "cpu")]
    {
        let before = Traces::now();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file.toml");
        fs::write(&path, file(&lines, ["null", "null"])).expect("a file");
        let mut command = Command::new(inbox::ringroad());
        let mut run =
            Running::start(command.args(["run", "--json", "--name", RUN]).arg(&path)).expect("it starts");
        wait("its threads are there", || {
            held(group_of, "cgroup.threads").is_some_and(|ids| ids.lines().count() == 2)
        });
        assert_eq!(controllers(), switched_on);
        run.signal(Signal::KILL).expect("killed");
        run.wait(PATIENCE).expect("it ends");
        assert_eq!(Traces::left(&before, PATIENCE), [""; 0], "{lines}");
        wait("controllers are switched off again", || controllers().is_empty());
        wait("all CPUs are everybody's", || {
            support::allowed_cpus(std::process::id()).as_deref() == Some("0-1")
        });
    }
}

/// Extracts the rate that a refusal says would fit: `217 kpps would fit`.
fn would_fit(refusal: &str) -> u64 {
    let words: Vec<&str> = refusal.split_once(" would fit").expect("a rate that fits").0.split(' ').collect();
    let [.., number, unit] = words.as_slice() else { panic!("{refusal}") };
    let times = match *unit {
        "Mpps" => 1e6,
        "kpps" => 1e3,
        _ => 1.0,
    };
    (number.parse::<f64>().expect("a number") * times) as u64
}

#[test]
fn a_promised_rate_is_a_weight() {
    support::needs!(Root, Tun, Program("ip"), Program("busybox"), Program("nsenter"));
    if not_alone() {
        return;
    }
    let other = file(ON_1, ["null", "null"]).replace("edge", "other");
    let mut stage = start(&(file(&format!("{ON_1}\nguarantee = \"100pps\""), TAPS) + &other));
    let left = stage.host("v2-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("v2-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    let weight = |of: &str| held(of, "cpu.weight").and_then(|weight| weight.parse::<u64>().ok());
    wait("weights", || weight("edge").is_some());
    assert_eq!((weight("edge"), weight("other")), (Some(100), Some(100)), "as one ordinary thread");
    let refusal = ask(&["set", "edge", "guarantee=50Mpps"]).stderr;
    set("edge", &format!("guarantee={}pps", would_fit(&refusal) * 9 / 10));
    wait("a larger weight", || weight("edge") > Some(200));
    inbox::ping(&left);
    set("edge", "guarantee=none");
    wait("no weight", || weight("edge").is_none());
    stage.finish(vec![left, right]).expect("nothing is left");
    assert_eq!(controllers(), "");
}
