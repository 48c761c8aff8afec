use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use frame::Mac;
use port::{Frame, Null, Sink};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

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
fn a_file_that_cannot_be_emptied_ends_it() {
    let (board, [rx, _tx]) = board();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let unwritable = File::open(file.path()).expect("it is there");
    let mut recording = start(&board, order(), unwritable).expect("it starts");
    deliver(&rx, 1);
    let end = to_the_end(&mut recording);
    assert_eq!((end.captured, end.complete), (0, false));
}

/// Two requests of FUSE, and the octets of the header of an answer (include/uapi/linux/fuse.h).
const OPEN: u32 = 14;
const INIT: u32 = 26;
const ANSWER: usize = 16;

/// Answers the requests of FUSE until a file is opened.
fn serve_until_open(mut server: &File) {
    let mut request = vec![0; 1 << 17];
    loop {
        assert!(server.read(&mut request).expect("a request") >= 16);
        let word = |at: usize| request[at..].first_chunk::<4>().map_or(0, |word| u32::from_ne_bytes(*word));
        let opcode = word(4);
        // Version 7.31, and writes of 4096 octets; an open that is not implemented succeeds.
        let (error, body) = match opcode {
            INIT => (0, [7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0].map(u32::to_ne_bytes).concat()),
            _ => (-libc::ENOSYS, Vec::new()),
        };
        let mut answer = ((ANSWER + body.len()) as u32).to_ne_bytes().to_vec();
        answer.extend(error.to_ne_bytes());
        answer.extend(&request[8..16]);
        answer.extend(body);
        server.write_all(&answer).expect("it is asked for");
        if opcode == OPEN {
            return;
        }
    }
}

/// Opens a file whose server answers nothing from then on; returns it with the server, without which no thread
/// waits for it any more.
fn unanswered(place: &Path) -> Option<(File, File)> {
    let server = File::options().read(true).write(true).open("/dev/fuse").ok()?;
    let options = format!("fd={},rootmode=100000,user_id=0,group_id=0", server.as_raw_fd());
    let options = CString::new(options).expect("text");
    mount("none", place, "fuse", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str()).ok()?;
    let file = thread::scope(|scope| {
        scope.spawn(|| serve_until_open(&server));
        File::options().write(true).open(place).expect("it is served")
    });
    Some((file, server))
}

#[test]
fn neither_a_file_that_does_not_answer_nor_its_end_is_waited_for() {
    let place = tempfile::NamedTempFile::new().expect("a file");
    let Some((file, server)) = unanswered(place.path()) else {
        println!("SKIPPED: this user may not mount a file system of FUSE");
        return;
    };
    let (board, _ends) = board();
    let (tell, told) = mpsc::channel();
    let again = file.try_clone().expect("a descriptor");
    let starter = thread::spawn(move || {
        for (order, file) in [(RecordingOrder { nic: "lan".into(), ..order() }, again), (order(), file)] {
            let _ = tell.send(start(&board, order, file).is_ok());
        }
    });
    let next = || told.recv_timeout(Duration::from_secs(30));
    let seen = (next(), next());
    drop(server);
    unmount(place.path(), UnmountFlags::DETACH).expect("it was mounted");
    starter.join().expect("no panic");
    assert_eq!(seen, (Ok(false), Ok(true)));
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
