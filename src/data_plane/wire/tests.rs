use std::fs::File;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use vmm::Spawn;

use super::Wire;
use crate::link::{Link, ToPlane, ToSupervisor};

fn pair() -> (Arc<Wire>, Link) {
    let (ours, theirs) = Link::pair().expect("descriptors");
    (Arc::new(Wire::new(Link::new(theirs))), ours)
}

fn null() -> std::os::fd::OwnedFd {
    File::open("/dev/null").expect("null").into()
}

/// Waits until the data plane asks for a process.
fn is_asked(link: &mut Link) -> String {
    loop {
        match link.receive().expect("a good message").pop() {
            Some((ToSupervisor::Spawn { router }, _)) => return router,
            Some(other) => panic!("{other:?}"),
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn a_process_is_asked_for_and_other_messages_wait() {
    let (wire, mut supervisor) = pair();
    let asking = wire.clone();
    let asker = thread::spawn(move || asking.spawn("edge"));
    assert_eq!(is_asked(&mut supervisor), "edge");
    supervisor.send(&ToPlane::Forget { id: 7 }, vec![]).expect("sent");
    supervisor.send(&ToPlane::Spawned { pid: 4711 }, vec![null(), null()]).expect("sent");
    let spawned = asker.join().expect("no panic").expect("spawned");
    assert_eq!(spawned.pid, 4711);
    let next = wire.next(Some(Instant::now())).expect("a good message");
    assert!(matches!(next, Some((ToPlane::Forget { id: 7 }, _))), "{next:?}");
}

#[test]
fn a_refusal_and_bad_answers_are_errors() {
    let no = ToPlane::NotSpawned { why: "no namespaces here".to_owned() };
    for (answer, descriptors, expected) in [
        (no, 0, "no namespaces here"),
        (ToPlane::Spawned { pid: 1 }, 1, "the supervisor sent no descriptors"),
        (ToPlane::Spawned { pid: u32::MAX }, 2, "a process number that is none"),
    ] {
        let (wire, mut supervisor) = pair();
        let asking = wire.clone();
        let asker = thread::spawn(move || asking.spawn("edge"));
        is_asked(&mut supervisor);
        supervisor.send(&answer, (0..descriptors).map(|_| null()).collect()).expect("sent");
        let error = asker.join().expect("no panic").expect_err("refused");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
}

#[test]
fn the_end_of_the_supervisor_is_no_message() {
    let (wire, mut supervisor) = pair();
    supervisor.send(&ToPlane::Stop, vec![]).expect("sent");
    drop(supervisor);
    assert!(matches!(wire.next(None), Ok(Some((ToPlane::Stop, _)))));
    assert!(matches!(wire.next(None), Ok(None)));
    assert!(wire.is_ended());
    assert!(wire.spawn("edge").is_err());
}

#[test]
fn nothing_comes_within_the_time() {
    let (wire, _supervisor) = pair();
    let start = Instant::now();
    assert!(matches!(wire.next(Some(start + Duration::from_millis(30))), Ok(None)));
    assert!(start.elapsed() >= Duration::from_millis(30) && !wire.is_ended());
}
