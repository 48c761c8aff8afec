use std::sync::Mutex;

use port::{Backlog, Frame, pump_on};
use ring::Bytes;

use super::*;

/// A source of frames of this length, of which there are always some.
struct Flood(usize);

impl Source for Flood {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        assert!(budget > 0, "there is no room");
        let mut octets = vec![0; self.0];
        take(&[Frame::new(Bytes::from_slice(&mut octets))]);
        1
    }
}

/// A sink with room for one frame, which notes its length.
#[derive(Default)]
struct Narrow(Mutex<Option<usize>>);

impl Sink for Narrow {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        assert_eq!((frames.len(), self.room()), (1, 1), "frames that wait come when there is room");
        *self.0.lock().expect("no thread panicked") = Some(frames[0].len());
        1
    }

    fn room(&self) -> usize {
        usize::from(self.0.lock().expect("no thread panicked").is_none())
    }
}

#[test]
fn the_last_room_out_of_a_nic_is_for_its_control_plane() {
    let sink = Arc::new(Narrow::default());
    let pump = |len| Pump { source: Box::new(Flood(len)), sink: sink.clone() };
    let all = NicPumps {
        name: "wan".to_owned(),
        rx: Vec::new(),
        tx: vec![pump(60)],
        urgent: None,
        control: Some(pump(70)),
        farewell: None,
    };
    let moved = all.all().map(|mut pump| pump_on(&mut *pump.source, &*pump.sink, &mut Backlog::default()));
    assert_eq!(moved.collect::<Vec<_>>(), [1, 0]);
    assert_eq!(*sink.0.lock().expect("no thread panicked"), Some(70));
}
