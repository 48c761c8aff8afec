//! Replays of real files in the conformance suite that every port passes.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Instant;

use conformance::{Pattern, SourceBench, check_ending_source, check_recorded_source};
use port::ClockHandle;

use super::*;

/// Time limit of every wait, even on a busy host. Each wait ends as soon as its condition holds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two frames of a file, with a manually advanced clock.
const STEP: Duration = Duration::from_secs(1);

/// Creates a file of these frames, this far apart.
fn recording(frames: &[Vec<u8>], apart: Duration) -> tempfile::NamedTempFile {
    let mut octets = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
    octets.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0, 1, 0, 0, 0]);
    for (frame, number) in frames.iter().zip(0_u32..) {
        let (at, len) = (Duration::from_secs(100) + number * apart, frame.len() as u32);
        for word in [at.as_secs() as u32, at.subsec_nanos(), len, len] {
            octets.extend(word.to_le_bytes());
        }
        octets.extend(frame);
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&octets).expect("written");
    file
}

/// A replay with a manually advanced clock, which lets frames arrive.
struct Paced {
    source: Box<dyn Source>,
    rest: VecDeque<Vec<u8>>,
    hand: ClockHandle,
    _player: Player,
}

impl Paced {
    fn new(frames: &[Vec<u8>]) -> Self {
        // The first frame of a file is due at once; it is not part of the suite, and is drained before that
        // begins.
        let all: Vec<_> = [vec![0; 60]].into_iter().chain(frames.iter().cloned()).collect();
        let (file, (clock, hand)) = (recording(&all, STEP), Clock::by_hand());
        let opened = open(file.path()).expect("a good file");
        let player = Player::start(clock, ("edge.wan", opened), true, Confinement::Off).expect("it starts");
        let (mut source, _) = player.lend().expect("it is at home");
        let since = Instant::now();
        while source.drain(1, &mut |_| {}) == 0 {
            assert!(since.elapsed() < PATIENCE, "the first frame does not come");
            std::thread::yield_now();
        }
        Self { source, rest: frames.to_vec().into(), hand, _player: player }
    }
}

impl SourceBench for Paced {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        for frame in frames {
            assert_eq!(self.rest.pop_front().as_ref(), Some(frame), "the file has other frames");
            self.hand.advance(STEP);
        }
        frames.len()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

#[test]
fn a_replay_by_its_times_is_a_source() {
    check_recorded_source(&Pattern::default(), Paced::new);
}

/// A replay in real time, or at full speed.
struct Played {
    source: Box<dyn Source>,
    _player: Player,
}

impl Played {
    fn new(frames: &[Vec<u8>], recorded: bool) -> Self {
        let file = recording(frames, Duration::from_micros(20));
        let opened = open(file.path()).expect("a good file");
        let player = Player::start(Clock::default(), ("edge.wan", opened), recorded, Confinement::Off)
            .expect("it starts");
        let (source, _) = player.lend().expect("it is at home");
        Self { source, _player: player }
    }
}

impl SourceBench for Played {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, _frames: &[Vec<u8>]) -> usize {
        0
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

#[test]
fn a_replay_shows_all_of_its_file_and_ends() {
    for recorded in [false, true] {
        check_ending_source(&Pattern::default(), |frames| Played::new(frames, recorded));
    }
}
