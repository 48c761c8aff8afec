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
