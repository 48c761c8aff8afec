//! Arbitrary octets as a capture file that is replayed, read in pieces of any length. Finds panics, frames that are not in the file, and frames
//! that differ if the file is read in other pieces.
//!
//! The first octet of the input is the greatest length of a piece.

use std::io::{self, Read};
use std::time::Duration;

use port::replay::Reader;

/// Octets of the header of the file, and of that of a frame.
const HEAD: usize = 24;
const RECORD: usize = 16;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&longest, file)) = input.split_first() else { return };
    let played = play(file);
    assert_eq!(play(Pieces { rest: file, longest: usize::from(longest) + 1 }), played);
    let mut at = HEAD;
    for (_, octets, _) in &played.frames {
        let (start, kept) = (at + RECORD, kept(file, at));
        assert!(octets.len() <= kept, "{} octets of {kept}", octets.len());
        assert_eq!(file.get(start..start + octets.len()), Some(&octets[..]));
        at = start + kept;
    }
    match &played.fault {
        Some(fault) => assert_eq!(fault.lines().count(), 1, "{fault:?}"),
        None => assert_eq!(at, file.len(), "the rest is not played"),
    }
}

/// Octets that the file has of the frame whose header is here, with its FCS.
fn kept(file: &[u8], at: usize) -> usize {
    let octets: [u8; 4] = file[at + 8..at + 12].try_into().unwrap();
    // The magic number begins with this octet in a file of the other byte order.
    let kept = if file[0] == 0xa1 { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) };
    kept as usize
}

/// Frames of a file, with their times and whether they are whole, and the reason why there are no more.
#[derive(Debug, Default, PartialEq, Eq)]
struct Played {
    frames: Vec<(Duration, Vec<u8>, bool)>,
    fault: Option<String>,
}

fn play(file: impl Read) -> Played {
    let mut played = Played::default();
    match Reader::new(file) {
        Ok(mut reader) => {
            played.fault = loop {
                match reader.next_frame() {
                    Ok(Some(frame)) => played.frames.push((frame.at, frame.octets.to_vec(), frame.whole)),
                    Ok(None) => break None,
                    Err(fault) => break Some(fault.to_string()),
                }
            };
            assert_eq!(reader.count(), played.frames.len() as u64);
        }
        Err(fault) => played.fault = Some(fault.to_string()),
    }
    played
}

/// A file of which a call reads one piece.
struct Pieces<'f> {
    rest: &'f [u8],
    longest: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let most = room.len().min(self.longest);
        self.rest.read(&mut room[..most])
    }
}
