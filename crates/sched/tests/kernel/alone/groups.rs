//! Control groups: locks of other users, sharing among runs, and removal.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use sched::{Applier, SchedFacts, Undo, Version};
use support::{UnprivilegedLocker, all_below};

use crate::host::{
    HANGS, RESERVED, alone, applier, lacks, left_over, outlined, place, plan, read, run, settings, shared,
    wait_until,
};
use crate::worker::{vcpu, vhost};

#[test]
fn nobody_who_may_look_at_groups_can_hold_up_who_makes_them() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, &["nice", "two CPUs", "cpuset", "cpu"]) || !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can be somebody else");
    }
    let before = settings(&known.host);
    let cpu = *known.topology.allowed.last().expect("a CPU");
    let shares = "vhost = { policy = \"shares\", weight = 2 }";
    let reserved = RESERVED.replace(" }}", &format!(" }}, {shares} }}"));
    let outline = outlined(&format!("pin = {{ vcpu = \"{cpu}\" }}\n{reserved}"), &known);
    let bases = [&known.host.cpu, &known.host.cpuset].map(|found| found.as_ref().expect("one").base.clone());
    let paths: Vec<PathBuf> =
        bases.iter().map(PathBuf::as_path).chain([shared()]).flat_map(all_below).collect();
    for way in ["-s", "-x"] {
        let stranger = UnprivilegedLocker::lock(way, &paths).expect("a process of nobody");
        let held = stranger.held();
        assert!(bases.iter().all(|base| held.contains(base)), "{held:?}");
        let (mut applier, outline) = (applier(), outline.clone());
        let (tell, told) = channel();
        let work = std::thread::spawn(move || {
            let made = applier.make(&outline).map_err(|error| error.to_string());
            // The receiver is gone if this took too long.
            let _ = tell.send((made, applier.undo_all().len()));
        });
        let outcome = told.recv_timeout(HANGS);
        drop(stranger);
        work.join().expect("it ends");
        assert_eq!(outcome, Ok((Ok(()), 0)), "while somebody holds {way} locks");
        assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
        assert_eq!(settings(&known.host), before);
    }
}

#[test]
fn a_run_that_ends_leaves_others_what_they_have() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, &["nice", "cpu"]) {
        return;
    }
    let before = settings(&known.host);
    let shares = outlined("sched = { policy = \"shares\", weight = 3 }", &known);
    let [mut first, mut second] =
        ["a", "b"].map(|n| Applier::new(&format!("{}{n}", run()), shared(), |_| {}));
    first.make(&shares).expect("a group");
    second.make(&shares).expect("a group");
    assert!(first.undo_all().is_empty());
    let hierarchy = known.host.cpu.as_ref().expect("there is one");
    let group = hierarchy.base.join(format!("ringroad-{}b.edge", run()));
    let weight =
        ["cpu.shares", "cpu.weight"].iter().find_map(|file| fs::read_to_string(group.join(file)).ok());
    assert!(weight.is_some_and(|weight| ["3072", "300"].contains(&weight.trim())), "it weighs what it did");
    assert!(second.undo_all().is_empty());
    assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
    assert_eq!(settings(&known.host), before);
}

#[test]
fn groups_hold_threads_to_their_weight_and_quota() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, &["nice", "cpu"]) {
        return;
    }
    let shares = |weight, more| {
        let burner = format!("{{ policy = \"shares\", weight = {weight}{more} }}");
        format!("affinity = {{ vcpu = \"free\", vhost = \"free\" }}\nsched = {{ vcpu = {burner} }}")
    };
    let (vcpu, vhost) = (vcpu(true), vhost(false));
    let mut applier = applier();
    applier.make(&outlined(&shares(2, ", quota = 0.2"), &known)).expect("two groups");
    place(&mut applier, &[&vcpu, &vhost]);
    let group = |part: &str| format!("ringroad-{}.edge{part}", run());
    assert!(vcpu.group("cpu").ends_with(&group(".vcpu")) && vhost.group("cpu").ends_with(&group("")));
    let hierarchy = known.host.cpu.as_ref().expect("there is one");
    let folder = hierarchy.base.join(group(".vcpu"));
    let throttled = || {
        let text = read(&folder.join("cpu.stat"));
        let count = text.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        count.and_then(|count| count.trim().parse::<u64>().ok()).expect("a number")
    };
    let before = throttled();
    wait_until("it is stopped at the end of its quota", || throttled() >= before + 20);
    let weight = match hierarchy.version {
        Version::V1 => ("cpu.shares", ["2048", "3072"]),
        Version::V2 => ("cpu.weight", ["200", "300"]),
    };
    assert_eq!(read(&folder.join(weight.0)), weight.1[0]);
    applier.make(&outlined(&shares(3, ""), &known)).expect("the same groups");
    place(&mut applier, &[&vcpu, &vhost]);
    assert_eq!(read(&folder.join(weight.0)), weight.1[1]);
    let unlimited = match hierarchy.version {
        Version::V1 => read(&folder.join("cpu.cfs_quota_us")) == "-1",
        Version::V2 => read(&folder.join("cpu.max")).starts_with("max"),
    };
    assert!(unlimited);
    // Threads leave the groups, which are removed.
    applier.make(&outlined("affinity = { vcpu = \"free\" }", &known)).expect("nothing to make");
    place(&mut applier, &[&vcpu, &vhost]);
    assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
}

#[test]
fn who_was_told_before_can_clean_up() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, &["nice", "two CPUs", "cpuset", "cpu"]) {
        return;
    }
    let before = settings(&known.host);
    let cpu = *known.topology.allowed.last().expect("a CPU");
    let lines = format!(
        "pin = {{ vcpu = \"{cpu}\" }}\nsched = {{ vcpu = {{ policy = \"deadline\", runtime = \"2ms\", period = \"10ms\" }}, \
         vhost = {{ policy = \"shares\", weight = 2 }} }}"
    );
    let (vcpu, vhost) = (vcpu(false), vhost(false));
    let (tell, told) = channel();
    let mut applier = Applier::new(&run(), shared(), move |undo| {
        tell.send(serde_json::to_string(undo).expect("text")).expect("somebody listens");
    });
    applier.make(&outlined(&lines, &known)).expect("a cpuset and a group");
    place(&mut applier, &[&vcpu, &vhost]);
    assert_eq!(left_over(&known.host).len(), 2);
    // Killed: the process itself undoes nothing.
    std::mem::forget(applier);
    let told: Vec<String> = told.try_iter().collect();
    for _ in 0..2 {
        for text in told.iter().rev() {
            let undo: Undo = serde_json::from_str(text).expect("an undo");
            undo.after_kill(Instant::now() + Duration::from_secs(60))
                .unwrap_or_else(|error| panic!("{undo:?}: {error}"));
        }
    }
    assert!(left_over(&known.host).is_empty(), "{:?}", left_over(&known.host));
    assert_eq!(settings(&known.host), before);
}
