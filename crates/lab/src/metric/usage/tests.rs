use std::sync::mpsc;
use std::time::{Duration, Instant};

use sched::account::{CoreSplit, ThreadSplit};

use super::*;

#[test]
fn threads_are_told_by_their_names() {
    assert_eq!(class("l1f2-0a/vcpu0"), Some((0, TimeCategory::Guest)));
    assert_eq!(class("l1f2b-10b/vcpu#71"), Some((1, TimeCategory::Guest)));
    assert_eq!(class("l1f2-0h/near-rx#9"), Some((7, TimeCategory::Vhost)));
    assert!(["vhost-7", "vhost-4321#99"].into_iter().all(is_vhost_net));
    assert!(
        !["vhost-owner", "vhost-", "vhost", "l1f2-0a/vhost", "l0-0a/vhost-7"].into_iter().any(is_vhost_net)
    );
    assert_eq!((class("ringroad/clock"), class("ksoftirqd/1"), class("l1f2-0")), (None, None, None));
}

#[test]
fn threads_of_both_stages_are_told_apart() {
    let vcpu = |stage| Some((stage, Class::Vcpu));
    let mover = |stage| Some((stage, Class::Mover));
    // The kernel cuts names at 15 octets.
    assert_eq!(stage("l1f20a_lb0/vcpu#7"), vcpu(Stage::Balancer));
    assert_eq!(stage("l3fffff12a_lb0/"), mover(Stage::Balancer));
    assert_eq!(stage("l1f20a/lb1#7"), mover(Stage::Balancer));
    assert_eq!(
        (stage("l1f20a_0/vhost"), stage("l1f20a_1/vc#9")),
        (mover(Stage::BackEnd), vcpu(Stage::BackEnd))
    );
    assert_eq!((stage("l1f20a/group#7"), stage("ksoftirqd/1")), (None, None));
    assert_eq!(["l1f20a_lb0/vcpu0", "l1f20a_12/near", "l1f20a/lb0"].map(member), ["_lb0", "_12", ""]);
}

#[test]
fn a_parent_is_behind_a_name_that_may_hold_anything() {
    assert_eq!(parent("12 (a name) with) R 7 12 0"), Some(7));
    assert_eq!(parent("12"), None);
}

#[test]
fn a_thread_that_runs_is_seen_running_and_its_process_among_the_parents() {
    let me = std::process::id();
    assert!(processes(me).unwrap().contains(&me));
    let (say, hear) = mpsc::channel();
    let (end, wait) = mpsc::channel::<()>();
    let worker = std::thread::Builder::new().name("l0-0c/vcpu0".to_owned());
    let burn = worker.spawn(move || {
        say.send(()).unwrap();
        while wait.try_recv() == Err(mpsc::TryRecvError::Empty) {}
    });
    hear.recv().unwrap();
    let mut reader = Reader::traced().unwrap();
    let mut look = || reader.look(&threads(me).unwrap()).unwrap();
    let before = look();
    let (mut split, patience) = (Split::default(), Instant::now() + Duration::from_secs(60));
    while used(&split, Some(2)).vcpu == 0.0 && Instant::now() < patience {
        split = Split::between(&before, &look());
    }
    let (own, all) = (used(&split, Some(2)), used(&split, None));
    assert!(own.vcpu > 0.0 && own.vhost == 0.0 && all.vcpu >= own.vcpu, "{split:?}");
    assert_eq!(used(&split, Some(0)), Used::default());
    assert_eq!(of_cpu(&split, usize::MAX), None);
    assert!((0..64).filter_map(|cpu| of_cpu(&split, cpu)).count() > 0, "{split:?}");
    end.send(()).unwrap();
    burn.unwrap().join().unwrap();
}

#[test]
fn the_time_of_all_threads_is_that_which_they_ran() {
    assert_eq!(ran("1500000000 72 9\n"), Some(Duration::from_millis(1500)));
    assert_eq!((ran(""), ran("many 1 2")), (None, None));
    assert!(of_all(std::process::id()).unwrap() > Duration::ZERO);
}

#[test]
fn threads_that_receive_for_interfaces_are_told_by_the_names_of_these() {
    let known = |interface: &str| ["near", "near-1-"].iter().position(|side| *side == interface);
    let found = napi("napi/near-1--8211", 71, known).unwrap();
    assert_eq!(
        (found.tid, router(&found.name), class(&found.name)),
        (71, Some(1), Some((1, TimeCategory::Vhost)))
    );
    assert_eq!(napi("napi/near-8210", 70, known).and_then(|thread| router(&thread.name)), Some(0));
    assert!(
        ["napi/eth0-3", "napi/near", "near-1", "vhost-7"].iter().all(|name| napi(name, 1, known).is_none())
    );
    of_napi(|_| Some(0)).unwrap();
}

/// A thread that has run for so long, of that in the kernel, on a CPU.
fn one(run: f64, system: f64, cpu: u32) -> ThreadSplit {
    ThreadSplit {
        column: TimeCategory::Vhost,
        cpu,
        moved: false,
        run,
        guest: 0.0,
        system,
        wait: 0.0,
        switches: 0,
        wakeups: 0,
    }
}

#[test]
fn the_thread_of_a_group_is_told_from_those_of_its_stages() {
    let names =
        ["l1f20a/group#6", "l1f20a/lb0#4", "l1f20a_0/vhost#11", "l1f20a_0/green#12", "l1f20a_lb0/vhost#8"];
    let threads = names.map(|name| (name.to_owned(), one(10.0, 0.0, 1))).into();
    let split = Split { interval: 100.0, cores: [(1, CoreSplit::default())].into(), threads };
    assert!((of_groups(&split) - 0.1).abs() < 1e-9, "{split:?}");
    // The kernel cuts names at 15 octets.
    let cut = [("l3fffff12a/grou#7".to_owned(), one(30.0, 0.0, 1))].into();
    assert!((of_groups(&Split { threads: cut, ..split }) - 0.3).abs() < 1e-9);
}

#[test]
fn what_ran_on_a_cpu_is_the_kernels_or_of_programs() {
    let core = CoreSplit {
        guest: 10.0,
        vhost: 40.0,
        kernel: 5.0,
        softirq: 15.0,
        idle: 30.0,
        ..CoreSplit::default()
    };
    let threads = [("la/vhost", one(40.0, 30.0, 1)), ("lb/vhost", one(90.0, 90.0, 0))];
    let threads = threads.map(|(name, thread)| (name.to_owned(), thread)).into();
    let split = Split { interval: 100.0, cores: [(1, core)].into(), threads };
    let found = busy(&split, 1).unwrap();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(found.kernel, 0.5) && near(found.user, 0.2) && near(found.total, 0.7), "{found:?}");
    assert_eq!(busy(&split, 0), None);
}
