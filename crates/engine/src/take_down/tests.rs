use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Is down when somebody says so.
struct Held(Receiver<()>);

impl Drop for Held {
    fn drop(&mut self) {
        // An end of the test lets go of it as well.
        let _ = self.0.recv();
    }
}

fn held(now: Instant) -> (Sender<()>, TakeDown) {
    let (let_go, told) = channel();
    (let_go, TakeDown::begin("edge", Held(told), now))
}

#[test]
fn it_goes_on_by_itself_until_it_is_over() {
    let now = Instant::now();
    let (let_go, mut take_down) = held(now);
    assert_eq!((take_down.look(now), take_down.is_over()), (Progress::Going, false));
    let_go.send(()).expect("it waits for that");
    while !take_down.is_over() {
        std::thread::yield_now();
    }
    assert_eq!(take_down.look(now), Progress::Over);
}

#[test]
fn what_takes_too_long_is_stuck() {
    let mut now = Instant::now();
    let (let_go, mut take_down) = held(now);
    // Nobody has looked for an hour: that is no time that it was given.
    now += Duration::from_secs(3600);
    assert_eq!(take_down.look(now), Progress::Going);
    let looks = (LIMIT.as_millis() / LONGEST_STEP.as_millis()) as usize;
    let progress: Vec<_> = (1..looks)
        .map(|_| {
            now += LONGEST_STEP;
            take_down.look(now)
        })
        .collect();
    let (last, before) = progress.split_last().expect("some looks");
    assert!(before.iter().all(|progress| *progress == Progress::Going), "{progress:?}");
    assert_eq!(*last, Progress::Stuck);
    let_go.send(()).expect("it waits for that");
}
