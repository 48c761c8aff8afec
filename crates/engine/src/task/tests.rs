use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

const LIMIT: Duration = Duration::from_secs(2);

/// A task that ends when it is sent its result.
fn held(now: Instant) -> (Sender<u32>, Task<u32>) {
    let (let_go, told): (_, Receiver<u32>) = channel();
    let work = move || told.recv().expect("it is told");
    (let_go, Task::begin("edge/test".to_owned(), LIMIT, work, now).expect("a thread"))
}

fn going(task: Task<u32>, now: Instant) -> Task<u32> {
    match task.look(now) {
        Progress::Going(task) => task,
        Progress::Done(outcome) => panic!("done: {outcome}"),
        Progress::Abandoned(why) => panic!("lost: {why}"),
    }
}

fn wait_for<T: Send + 'static>(task: &Task<T>) {
    while !task.is_over() {
        std::thread::yield_now();
    }
}

#[test]
fn it_goes_on_by_itself_until_it_is_done() {
    let now = Instant::now();
    let (let_go, task) = held(now);
    let task = going(task, now);
    let_go.send(7).expect("it waits for that");
    wait_for(&task);
    assert!(matches!(task.look(now), Progress::Done(7)));
}

/// The thread that begins the task is not blocked.
#[test]
fn where_no_thread_can_be_had_the_reserve_does_it() {
    keep_reserve().expect("a thread");
    let (now, by) = (Instant::now(), std::thread::current().id());
    let (let_go, told) = channel();
    let work = move || (told.recv_timeout(Duration::from_secs(60)), std::thread::current().id());
    let refused: fn(Job) -> Begun = |job| Err((io::Error::from_raw_os_error(libc::EAGAIN), Some(job)));
    let task = Task::begin_by(refused, LIMIT, work, now);
    assert!(!task.is_over());
    let_go.send(7).expect("it waits for that");
    // Dropping a task waits for its end.
    drop(Task::begin_by(refused, LIMIT, || panic!("on purpose"), now));
    match task.look(now) {
        Progress::Done((Ok(7), thread)) => assert_ne!(thread, by),
        _ => panic!("it was done before the one that panics"),
    }
    let last = Task::begin_by(refused, LIMIT, || 8, now);
    wait_for(&last);
    assert!(matches!(last.look(now), Progress::Done(8)));
}

#[test]
fn what_takes_too_long_is_left_behind() {
    let mut now = Instant::now();
    let (let_go, task) = held(now);
    // No look for an hour: that does not count as time given to the task.
    now += Duration::from_secs(3600);
    let mut task = going(task, now);
    for _ in 2..LIMIT.as_millis() / LONGEST_STEP.as_millis() {
        now += LONGEST_STEP;
        task = going(task, now);
    }
    let Progress::Abandoned(why) = task.look(now + LONGEST_STEP) else { panic!("it has no time left") };
    assert_eq!(why, "takes more than 2s, and is left behind with what it holds");
    let_go.send(7).expect("it goes on");
}

#[test]
fn one_that_panics_is_lost() {
    let now = Instant::now();
    let (let_go, task) = held(now);
    drop(let_go);
    wait_for(&task);
    assert!(matches!(task.look(now), Progress::Abandoned(why) if why == "has panicked"));
}

#[test]
fn whoever_has_begun_it_is_woken_at_its_end() {
    let (let_go, task) = held(Instant::now());
    let_go.send(7).expect("it waits for that");
    // Without the wake-up this would block indefinitely.
    while !task.is_over() {
        std::thread::park();
    }
}

#[test]
fn dropping_it_waits_for_its_end() {
    let (let_go, task) = held(Instant::now());
    let (dropped, end) = channel();
    let dropper = std::thread::spawn(move || {
        drop(task);
        dropped.send(()).expect("somebody listens");
    });
    assert!(end.try_recv().is_err(), "it goes on");
    let_go.send(7).expect("it waits for that");
    end.recv().expect("it is over");
    dropper.join().expect("no panic");
}
