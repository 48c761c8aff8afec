use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// An object whose drop blocks until it is released.
struct Held(Receiver<()>);

impl Drop for Held {
    fn drop(&mut self) {
        // The end of the test releases it as well.
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
    assert_eq!((take_down.look(now), take_down.is_over()), (None, false));
    let_go.send(()).expect("it waits for that");
    while !take_down.is_over() {
        std::thread::yield_now();
    }
    assert_eq!(take_down.look(now), None);
}

#[test]
fn what_takes_too_long_is_told_of_once_and_left_behind() {
    let mut now = Instant::now();
    let (let_go, mut take_down) = held(now);
    let mut told = Vec::new();
    while !take_down.is_over() {
        now += Duration::from_millis(100);
        told.extend(take_down.look(now));
    }
    assert_eq!(told, ["its take-down takes more than 45s, and is left behind with what it holds"]);
    assert_eq!(take_down.look(now), None);
    let_go.send(()).expect("it waits for that");
}
