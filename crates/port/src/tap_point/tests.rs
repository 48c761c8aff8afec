use super::*;
use crate::Null;

struct Lengths(Arc<Mutex<Vec<usize>>>);

impl Observer for Lengths {
    fn observe(&mut self, frames: &[Frame<'_>]) {
        self.0.lock().unwrap().extend(frames.iter().map(Frame::len));
    }
}

fn deliver(tap: &TapPoint, lengths: &[usize]) -> usize {
    let mut octets: Vec<_> = lengths.iter().map(|&n| vec![0; n]).collect();
    let frames: Vec<_> = octets.iter_mut().map(|o| Frame::new(ring::Bytes::from_slice(o))).collect();
    tap.deliver(&frames)
}

#[test]
fn shows_frames_only_while_somebody_looks() {
    let tap = TapPoint::new(Arc::new(Null::new()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    deliver(&tap, &[60]);
    assert!(tap.enable(Box::new(Lengths(seen.clone()))).is_none());
    assert!(tap.is_enabled());
    deliver(&tap, &[61, 62]);
    assert!(tap.disable().is_some());
    deliver(&tap, &[63]);
    assert_eq!(*seen.lock().unwrap(), [61, 62]);
}

#[test]
fn shows_only_what_was_taken() {
    let (near, _far) = crate::pair(2).unwrap();
    let tap = TapPoint::new(near.sink);
    let seen = Arc::new(Mutex::new(Vec::new()));
    tap.enable(Box::new(Lengths(seen.clone())));
    assert_eq!(deliver(&tap, &[60, 61, 62]), 2);
    assert_eq!(*seen.lock().unwrap(), [60, 61]);
}

/// Event reported for a burst, and the lengths of its frames.
type Told = (&'static str, Vec<usize>);

#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<Told>>>);

impl Story {
    fn note(&self, what: &'static str, frames: &[Frame<'_>]) {
        self.0.lock().unwrap().push((what, frames.iter().map(Frame::len).collect()));
    }
}

impl Observer for Story {
    fn observe(&mut self, frames: &[Frame<'_>]) {
        self.note("delivered", frames);
    }
    fn expect(&mut self, frames: &[Frame<'_>]) {
        self.note("expected", frames);
    }
    fn lose(&mut self, frames: &[Frame<'_>]) {
        self.note("lost", frames);
    }
}

#[test]
fn tells_what_was_expected_and_what_became_of_it() {
    let (near, _far) = crate::pair(2).unwrap();
    let tap = TapPoint::new(near.sink);
    let story = Story::default();
    tap.enable(Box::new(story.clone()));
    assert_eq!(deliver(&tap, &[60, 61, 62]), 2);
    assert_eq!(deliver(&tap, &[63]), 0);
    let wanted = [
        ("expected", vec![60, 61, 62]),
        ("delivered", vec![60, 61]),
        ("lost", vec![62]),
        ("expected", vec![63]),
        ("lost", vec![63]),
    ];
    assert_eq!(*story.0.lock().unwrap(), wanted);
}

#[test]
fn who_looks_may_be_sent_away_while_a_burst_is_delivered() {
    struct Away(std::sync::OnceLock<Arc<TapPoint>>);
    impl Sink for Away {
        fn deliver(&self, frames: &[Frame<'_>]) -> usize {
            assert!(self.0.get().expect("wrapped").disable().is_some());
            frames.len()
        }
    }
    let away = Arc::new(Away(std::sync::OnceLock::new()));
    let tap = Arc::new(TapPoint::new(away.clone()));
    assert!(away.0.set(tap.clone()).is_ok());
    let story = Story::default();
    tap.enable(Box::new(story.clone()));
    assert_eq!(deliver(&tap, &[60]), 1);
    assert_eq!(*story.0.lock().unwrap(), [("expected", vec![60])]);
}

#[test]
fn who_follows_and_who_records_do_not_know_of_each_other() {
    let tap = TapPoint::new(Arc::new(Null::new()));
    let (followed, recorded) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    assert!(tap.record(Box::new(Lengths(recorded.clone()))));
    assert!(!tap.record(Box::new(Lengths(followed.clone()))), "the seat is taken");
    assert!(!tap.is_enabled());
    deliver(&tap, &[60]);
    tap.enable(Box::new(Lengths(followed.clone())));
    deliver(&tap, &[61]);
    assert!(tap.stop_recording().is_some());
    assert!(tap.is_enabled());
    deliver(&tap, &[62]);
    assert!(tap.disable().is_some());
    deliver(&tap, &[63]);
    assert_eq!(
        (&followed.lock().unwrap()[..], &recorded.lock().unwrap()[..]),
        (&[61, 62][..], &[60, 61][..])
    );
}
