use std::io::Read;

use frame::Mac;
use port::{Frame, Null, Sink};

use super::*;
use crate::tracing::{Place, Spot};

/// A board with one NIC, and the sinks of its two directions.
fn board() -> (TapBoard, [Arc<dyn Sink>; 2]) {
    let board = TapBoard::default();
    let place = |spot| Place { router: "edge".into(), nic: "wan".into(), spot, mac: Mac([2, 0, 0, 0, 0, 1]) };
    let ends =
        [Spot::Rx, Spot::Tx { to_switch: false }].map(|spot| board.point(place(spot), Arc::new(Null::new())));
    (board, ends)
}

fn order() -> RecordingOrder {
    RecordingOrder { router: "edge".into(), nic: "wan".into(), count: None, time: None, snap: 65_535 }
}

fn start(board: &TapBoard, order: RecordingOrder, file: File) -> Result<Recording> {
    Recording::start(board, order, file, Confinement::Off)
}

fn deliver(sink: &Arc<dyn Sink>, count: usize) {
    for _ in 0..count {
        let mut octets = [7; 60];
        sink.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
    }
}

fn to_the_end(recording: &mut Recording) -> CaptureEnd {
    let since = Instant::now();
    loop {
        if let Some(end) = recording.look_after() {
            return end;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn both_directions_until_there_are_enough() {
    let (board, [rx, tx]) = board();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let order = RecordingOrder { count: Some(5), ..order() };
    let mut recording = start(&board, order, file.reopen().expect("again")).expect("it starts");
    deliver(&rx, 3);
    deliver(&tx, 3);
    let end = to_the_end(&mut recording);
    assert_eq!((end.captured, end.missed, end.complete), (5, 0, true));
    assert_eq!(file.path().metadata().expect("there").len(), 24 + 5 * 76);
}

#[test]
fn a_nic_is_captured_once_at_a_time_and_by_name() {
    let (board, _ends) = board();
    let file = || tempfile::tempfile().expect("a file");
    let first = start(&board, order(), file()).expect("it starts");
    let second = start(&board, order(), file()).err().expect("one at a time").to_string();
    assert!(second.contains("edge.wan is being captured already"), "{second}");
    drop(first);
    drop(start(&board, order(), file()).expect("the seat is free again"));
    let unknown = start(&board, RecordingOrder { nic: "lan".into(), ..order() }, file());
    assert!(unknown.err().expect("no such NIC").to_string().contains("nothing passes edge.lan"));
    assert!(start(&board, RecordingOrder { snap: 13, ..order() }, file()).is_err());
    assert!(start(&board, RecordingOrder { count: Some(0), ..order() }, file()).is_err());
}

#[test]
fn a_file_is_emptied_when_the_recording_begins_and_not_when_it_is_refused() {
    let (board, [rx, _tx]) = board();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let opened = || std::fs::OpenOptions::new().write(true).open(file.path()).expect("it is there");
    let before = [7_u8; 4000];
    std::fs::write(file.path(), before).expect("written");
    let first = start(&board, order(), tempfile::tempfile().expect("a file")).expect("it starts");
    for refused in [order(), RecordingOrder { nic: "lan".into(), ..order() }] {
        assert!(start(&board, refused, opened()).is_err());
        assert_eq!(std::fs::read(file.path()).expect("there"), before);
    }
    drop(first);
    let order = RecordingOrder { count: Some(1), ..order() };
    let mut recording = start(&board, order, opened()).expect("it starts");
    deliver(&rx, 1);
    assert!(to_the_end(&mut recording).complete);
    assert_eq!(file.path().metadata().expect("there").len(), 24 + 76);
}

#[test]
fn what_is_appended_to_a_file_leaves_what_is_there() {
    let (board, [rx, _tx]) = board();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), [7_u8; 100]).expect("written");
    let opened = std::fs::OpenOptions::new().append(true).open(file.path()).expect("it is there");
    let order = RecordingOrder { count: Some(1), ..order() };
    let mut recording = start(&board, order, opened).expect("it starts");
    deliver(&rx, 1);
    assert!(to_the_end(&mut recording).complete);
    assert_eq!(file.path().metadata().expect("there").len(), 100 + 24 + 76);
}

#[test]
fn a_reader_that_does_not_read_costs_frames_in_the_file_only() {
    let (board, [rx, _tx]) = board();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let order = RecordingOrder { time: Some(Duration::from_millis(300)), ..order() };
    let mut recording =
        start(&board, order, File::from(std::os::fd::OwnedFd::from(writer))).expect("it starts");
    // More than the buffer and the pipe hold, and nothing is read before all are delivered.
    deliver(&rx, 150_000);
    let end = to_the_end(&mut recording);
    assert!(end.missed > 0 && !end.complete, "{end:?}");
    assert_eq!(end.captured + end.missed, 150_000);
    drop(recording);
    let mut octets = Vec::new();
    reader.read_to_end(&mut octets).expect("it was closed");
    assert!(octets.len() > 24);
}

#[test]
fn a_reader_that_leaves_ends_it() {
    let (board, [rx, _tx]) = board();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut recording =
        start(&board, order(), File::from(std::os::fd::OwnedFd::from(writer))).expect("it starts");
    drop(reader);
    deliver(&rx, 1);
    assert!(!to_the_end(&mut recording).complete);
}
