//! Placement and scheduling of a NAPI thread of the kernel, as of ringroad's own threads.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use kernel_router::{Interface, Origin, PeerNamespace, Router, RouterConfig, Surroundings};
use netns::Namespace;
use rustix::thread::{Pid, sched_getaffinity};
use sched::{Applier, Class, Outline, SchedFacts, Thread, ThreadIdentity, attributes, outline, stat};

use crate::host::{HANGS, alone, applier, lacks, left_over, run};

/// Time slice of such threads, in nanoseconds.
const SLICE: u64 = 100_000;
/// First kernel in which the time slice of an ordinary thread can be set.
const WITH_SLICES: (u32, u32) = (6, 12);

/// A kernel router with a veth pair, and the NAPI thread of that pair.
struct Napi {
    thread: Thread,
    _router: Router,
    _home: Namespace,
}

impl Napi {
    fn new() -> Self {
        Self::at("wan")
    }

    /// That of an interface with this name. Before Linux 6.8 a thread is known by the name of its interface alone.
    fn at(interface: &str) -> Self {
        // Stands for the host's namespace.
        let home = Namespace::new().expect("a namespace");
        let origin = Origin::Veth { peer: "rr-napi".to_owned(), at: PeerNamespace::Home, bridge: None };
        let wan = Interface { threaded: true, ..Interface::new(interface, origin) };
        let others = BTreeMap::new();
        let site = Surroundings { home: &home, others: &others };
        let router =
            Router::start(RouterConfig::new("edge", vec![wan]), &site, &mut |_| {}).expect("a router");
        let found = thread_of(&router);
        let task = ThreadIdentity::named_in_kernel(stat, found.tid, &found.name).expect("it runs");
        let class = Class::Napi { nic: 0, queue: 0 };
        let thread = Thread { router: "edge".to_owned(), class, name: "edge/wan-napi0".to_owned(), task };
        Self { thread, _router: router, _home: home }
    }

    fn tid(&self) -> i32 {
        self.thread.task.tid
    }

    fn cpus(&self) -> Vec<u32> {
        let set = sched_getaffinity(Pid::from_raw(self.tid())).expect("its CPUs");
        (0..1024).filter(|cpu| set.is_set(*cpu as usize)).collect()
    }

    /// Reads `/proc/PID/cgroup`.
    fn groups(&self) -> String {
        fs::read_to_string(format!("/proc/{}/cgroup", self.tid())).expect("its groups")
    }
}

/// Returns the router's NAPI thread. Before Linux 6.8 it cannot be told from that of an earlier test until that has ended.
fn thread_of(router: &Router) -> kernel_router::NapiThread {
    let end = Instant::now() + HANGS;
    loop {
        match router.threads() {
            Ok(mut threads) => return threads.remove(0),
            Err(error) => assert!(Instant::now() < end, "threads: {error}"),
        }
        sleep(Duration::from_millis(10));
    }
}

fn plan(lines: &str) -> config::Plan {
    let text = format!(
        "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n{lines}\n[[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-napi\"\n"
    );
    config::parse(&text, "f.toml").expect("a good file")
}

#[track_caller]
fn outlined(lines: &str, known: &SchedFacts) -> Outline {
    let plan = plan(lines);
    outline(&plan, known).unwrap_or_else(|refused| panic!("{}", sched::refused(&plan, refused)))
}

/// Places the thread; retries on passing errors.
#[track_caller]
fn place(applier: &mut Applier, napi: &Napi) {
    let end = Instant::now() + HANGS;
    loop {
        let errors = applier.place(std::slice::from_ref(&napi.thread));
        if errors.is_empty() {
            return;
        }
        assert!(errors.iter().all(sched::ApplyError::is_passing) && Instant::now() < end, "{errors:?}");
        sleep(Duration::from_millis(5));
    }
}

/// Returns the host if its NAPI threads can be placed; otherwise prints the reason.
fn host(needs: &[&str]) -> Option<SchedFacts> {
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, needs) {
        return None;
    }
    let hidden = (!known.host.sees_kernel).then(|| "a PID namespace hides kernel threads".to_owned());
    if let Some(why) = hidden.or_else(|| known.host.not_for_kernel.clone()) {
        println!("SKIPPED: {why}");
        return None;
    }
    Some(known)
}

/// Returns the time slice of an ordinary thread.
fn slice(napi: &Napi, known: &SchedFacts) -> u64 {
    let held = attributes(napi.tid()).expect("a thread");
    assert!(held.is_other(), "{held:?}");
    if known.host.kernel < WITH_SLICES { SLICE } else { held.runtime }
}

#[test]
fn it_has_a_cpu_a_weight_and_short_slices() {
    let _alone = alone();
    let Some(known) = host(&["nice", "cpu"]) else { return };
    let napi = Napi::new();
    let cpu = *known.topology.allowed.last().expect("a CPU");
    let mut applier = applier();
    let pin = format!("pin = {{ vhost = \"{cpu}\" }}\n");
    let shares = outlined(&format!("{pin}sched = {{ policy = \"shares\", weight = 2 }}"), &known);
    applier.make(&shares).expect("a group");
    place(&mut applier, &napi);
    assert_eq!((napi.cpus(), slice(&napi, &known)), (vec![cpu], SLICE));
    let group = format!("ringroad-{}.edge", run());
    assert!(napi.groups().contains(&group), "{}", napi.groups());
    // The thread leaves the group, which is removed.
    applier.make(&outlined(&pin, &known)).expect("nothing to make");
    place(&mut applier, &napi);
    assert!(!napi.groups().contains(&group), "{}", napi.groups());
    assert_eq!((napi.cpus(), slice(&napi, &known)), (vec![cpu], SLICE));
    assert!(applier.undo_all().is_empty());
    assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
}

#[test]
fn it_has_a_priority_and_a_reservation() {
    let _alone = alone();
    let Some(known) = host(&["nice", "real-time group"]) else { return };
    let (napi, mut applier) = (Napi::new(), applier());
    let cpu = *known.topology.allowed.last().expect("a CPU");
    let fifo = format!("pin = {{ vhost = \"{cpu}\" }}\nsched = {{ policy = \"fifo\", priority = 5 }}");
    applier.make(&outlined(&fifo, &known)).expect("nothing to make");
    place(&mut applier, &napi);
    let held = attributes(napi.tid()).expect("a thread");
    assert_eq!((held.policy, held.priority, napi.cpus()), (1, 5, vec![cpu]), "SCHED_FIFO");
    // On all CPUs, which needs no exclusive ones.
    let all: Vec<u32> = known.topology.cpus.iter().map(|cpu| cpu.number).collect();
    if all.iter().all(|cpu| known.topology.allowed.contains(cpu)) {
        let reserved = "sched = { policy = \"deadline\", runtime = \"2ms\", period = \"10ms\" }";
        applier.make(&outlined(reserved, &known)).expect("nothing to make");
        place(&mut applier, &napi);
        let held = attributes(napi.tid()).expect("a thread");
        assert!(held.is_deadline(), "{held:?}");
        assert_eq!((held.runtime, held.period), (2_000_000, 10_000_000));
    }
    applier.let_go();
    assert!(!attributes(napi.tid()).expect("a thread").is_deadline());
    assert!(applier.undo_all().is_empty());
}

#[test]
fn one_that_has_ended_is_in_nobody_s_way() {
    let _alone = alone();
    let Some(known) = host(&["nice", "cpu"]) else { return };
    let mut applier = applier();
    applier.make(&outlined("sched = { policy = \"shares\", weight = 3 }", &known)).expect("a group");
    let (first, second) = (Napi::new(), Napi::at("lan"));
    place(&mut applier, &first);
    let task = first.thread.task;
    drop(first);
    let end = Instant::now() + HANGS;
    while task.is_there() {
        assert!(Instant::now() < end, "its interface is gone");
        sleep(Duration::from_millis(5));
    }
    // Another interface of the same NIC.
    place(&mut applier, &second);
    assert!(second.groups().contains(&format!("ringroad-{}.edge", run())), "{}", second.groups());
    drop(second);
    assert!(applier.undo_all().is_empty());
    assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
}
