use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use api::{Answer, Counters, Outcome, Request};
use engine::KernelThreads;
use link::{Link, ToPlane, ToSupervisor};
use rustix::event::{PollFd, PollFlags, poll};
use vmm::{Firmware, Spawn};

use super::{LinkEndpoint, Patience};

/// Data plane's end, served by a thread that can report counters; and the supervisor's end.
fn pair() -> (Arc<LinkEndpoint>, Link) {
    served(|link| LinkEndpoint::new(link).expect("descriptors"))
}

/// Link whose data plane's end is made by this function, and served by a thread; and the supervisor's end.
fn served(end: impl FnOnce(Link) -> LinkEndpoint) -> (Arc<LinkEndpoint>, Link) {
    let (ours, theirs) = Link::pair().expect("descriptors");
    let wire = Arc::new(end(Link::new(theirs)));
    let attending = wire.clone();
    thread::spawn(move || attending.attend(count));
    (wire, ours)
}

/// Counters: a single one for a router, whose value is the length of its name.
fn count(request: &Request) -> Option<Outcome> {
    let Request::Counters { router } = request else { return None };
    let name = router.as_ref()?;
    let counters = BTreeMap::from([(name.clone(), name.len() as u64)]);
    Some(Ok(Answer::Counters(Counters { counters, ..Counters::default() })))
}

fn counters_of(router: &str) -> Request {
    Request::Counters { router: Some(router.to_owned()) }
}

fn null() -> std::os::fd::OwnedFd {
    File::open("/dev/null").expect("null").into()
}

/// Next message of the data plane.
fn heard(link: &mut Link) -> ToSupervisor {
    loop {
        if let Some((message, _)) = link.receive().expect("a good message").pop() {
            return message;
        }
        poll(&mut [PollFd::from_borrowed_fd(link.as_fd(), PollFlags::IN)], None).expect("something comes");
    }
}

/// Waits until the data plane requests a process.
fn is_asked(link: &mut Link) -> String {
    match heard(link) {
        ToSupervisor::Spawn { router, jumbo: false } => router,
        other => panic!("{other:?}"),
    }
}

#[test]
fn counters_are_told_while_an_order_is_carried_out() {
    let (wire, mut supervisor) = pair();
    let (go_on, stuck) = mpsc::channel::<()>();
    let working = wire.clone();
    // An engine whose router does not come up.
    let worker = thread::spawn(move || {
        let order = working.next(None).expect("a good message");
        let Some((ToPlane::Ask { id, .. }, _)) = order else { panic!("{order:?}") };
        let _ = stuck.recv();
        let outcome = Ok(Answer::Done { message: "it is up".to_owned() });
        working.say(&ToSupervisor::Answer { id, outcome }).expect("said");
    });
    let restart = Request::Restart { router: "edge".to_owned() };
    supervisor.send(&ToPlane::Ask { id: 1, request: restart }, vec![]).expect("sent");
    for id in 2..5 {
        supervisor.send(&ToPlane::Ask { id, request: counters_of("core") }, vec![]).expect("sent");
        match heard(&mut supervisor) {
            ToSupervisor::Answer { id: answered, outcome: Ok(Answer::Counters(counters)) } => {
                assert_eq!((answered, counters.counters["core"]), (id, 4));
            }
            other => panic!("{other:?}"),
        }
    }
    drop(go_on);
    let done = heard(&mut supervisor);
    assert!(matches!(done, ToSupervisor::Answer { id: 1, outcome: Ok(Answer::Done { .. }) }), "{done:?}");
    worker.join().expect("no panic");
}

#[test]
fn orders_come_in_their_order_and_without_what_was_answered() {
    let (wire, mut supervisor) = pair();
    supervisor.send(&ToPlane::Forget { id: 7 }, vec![]).expect("sent");
    supervisor.send(&ToPlane::Ask { id: 8, request: counters_of("edge") }, vec![]).expect("sent");
    supervisor.send(&ToPlane::Ask { id: 9, request: Request::Ps {} }, vec![]).expect("sent");
    supervisor.send(&ToPlane::Ping, vec![]).expect("sent");
    let next = || wire.next(None).expect("a good message").expect("an order").0;
    assert!(matches!(next(), ToPlane::Forget { id: 7 }));
    assert!(matches!(next(), ToPlane::Ask { id: 9, request: Request::Ps {} }));
    assert!(matches!(next(), ToPlane::Ping));
    assert!(matches!(heard(&mut supervisor), ToSupervisor::Answer { id: 8, .. }));
}

#[test]
fn a_process_is_asked_for_and_other_messages_wait() {
    let (wire, mut supervisor) = pair();
    let asking = wire.clone();
    let asker = thread::spawn(move || asking.spawn("edge", Firmware::Plain));
    assert_eq!(is_asked(&mut supervisor), "edge");
    supervisor.send(&ToPlane::Forget { id: 7 }, vec![]).expect("sent");
    supervisor
        .send(&ToPlane::Spawned { router: "edge".to_owned(), pid: 4711 }, vec![null(), null()])
        .expect("sent");
    let spawned = asker.join().expect("no panic").expect("spawned");
    assert_eq!(spawned.pid, 4711);
    let next = wire.next(None).expect("a good message");
    assert!(matches!(next, Some((ToPlane::Forget { id: 7 }, _))), "{next:?}");
}

#[test]
fn a_thread_that_is_found_too_late_is_not_taken_for_the_next_one() {
    let (wire, mut supervisor) = pair();
    let asking = wire.clone();
    let asker = thread::spawn(move || asking.of_vhost(8));
    let asked = heard(&mut supervisor);
    assert!(matches!(asked, ToSupervisor::FindThread { owner: 8 }), "{asked:?}");
    for (owner, found) in [(7, 70), (8, 80)] {
        let answer = ToPlane::FoundThread { owner, thread: Some(found) };
        supervisor.send(&answer, vec![]).expect("sent");
    }
    assert_eq!(asker.join().expect("no panic"), Some(80));
}

#[test]
fn a_supervisor_that_does_not_answer_in_time_is_not_waited_for() {
    let none = Patience { spawning: Duration::ZERO, finding: Duration::ZERO };
    let (wire, mut supervisor) = served(|link| LinkEndpoint::with_patience(link, none).expect("descriptors"));
    let error = wire.spawn("edge", Firmware::Plain).expect_err("nobody has answered");
    let expected = "the supervisor does not start a process: the supervisor does not answer";
    assert_eq!(format!("{error:#}"), expected);
    assert_eq!(is_asked(&mut supervisor), "edge");
    assert_eq!(wire.of_vhost(8), None);
    let asked = heard(&mut supervisor);
    assert!(matches!(asked, ToSupervisor::FindThread { owner: 8 }), "{asked:?}");
    // What it says too late is no answer to the next question.
    supervisor
        .send(&ToPlane::Spawned { router: "edge".to_owned(), pid: 4711 }, vec![null(), null()])
        .expect("sent");
    supervisor.send(&ToPlane::FoundThread { owner: 8, thread: Some(80) }, vec![]).expect("sent");
    supervisor.send(&ToPlane::Ping, vec![]).expect("sent");
    assert!(matches!(wire.next(None), Ok(Some((ToPlane::Ping, _)))), "both have come before");
    assert!(wire.spawn("edge", Firmware::Plain).is_err());
    assert_eq!(wire.of_vhost(8), None);
}

#[test]
fn a_refusal_and_bad_answers_are_errors() {
    let no = ToPlane::NotSpawned { router: "edge".to_owned(), why: "no namespaces here".to_owned() };
    for (answer, descriptors, expected) in [
        (no, 0, "no namespaces here"),
        (ToPlane::Spawned { router: "edge".to_owned(), pid: 1 }, 1, "the supervisor sent no descriptors"),
        (ToPlane::Spawned { router: "edge".to_owned(), pid: u32::MAX }, 2, "a process number that is none"),
    ] {
        let (wire, mut supervisor) = pair();
        let asking = wire.clone();
        let asker = thread::spawn(move || asking.spawn("edge", Firmware::Plain));
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
    assert!(wire.spawn("edge", Firmware::Plain).is_err());
}

#[test]
fn a_supervisor_that_breaks_the_rules_is_told_of() {
    let (ours, theirs) = Link::pair().expect("descriptors");
    let wire = LinkEndpoint::new(Link::new(theirs)).expect("descriptors");
    rustix::io::write(ours.as_fd(), &[0xff; 8]).expect("written");
    wire.attend(count);
    let error = wire.next(None).expect_err("no such message");
    assert!(error.to_string().starts_with("a message of 4294967295 octets"), "{error:#}");
    assert!(wire.is_ended());
}

#[test]
fn nothing_comes_within_the_time() {
    let (wire, _supervisor) = pair();
    let start = Instant::now();
    assert!(matches!(wire.next(Some(start + Duration::from_millis(30))), Ok(None)));
    assert!(start.elapsed() >= Duration::from_millis(30) && !wire.is_ended());
}

#[test]
fn what_does_not_fit_into_the_socket_leaves_when_there_is_room() {
    let (wire, mut supervisor) = pair();
    // More than any socket buffers.
    let message = "x".repeat(1 << 20);
    for _ in 0..8 {
        let (kind, message) = ("notice".to_owned(), message.clone());
        wire.say(&ToSupervisor::Event { kind, router: None, of_peer: false, process: None, message })
            .expect("kept or sent");
    }
    let mut came = 0;
    while came < 8 {
        poll(&mut [PollFd::from_borrowed_fd(supervisor.as_fd(), PollFlags::IN)], None).expect("readable");
        came += supervisor.receive::<ToSupervisor>().expect("good messages").len();
    }
    assert_eq!(came, 8);
}
