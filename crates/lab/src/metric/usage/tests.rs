use std::sync::mpsc;
use std::time::{Duration, Instant};

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
    let (mut split, patience) = (Split::default(), Instant::now() + Duration::from_secs(20));
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
