use std::io;
use std::sync::atomic::AtomicUsize;

use super::*;

/// A file whose contents others can read, with bounded room.
#[derive(Clone, Default)]
struct Disk {
    content: Arc<Mutex<Vec<u8>>>,
    room: Arc<AtomicUsize>,
}

impl Disk {
    fn with_room(room: usize) -> Self {
        Self { content: Arc::default(), room: Arc::new(room.into()) }
    }
}

impl Write for Disk {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let room = self.room.load(Ordering::Relaxed);
        if room == 0 && !octets.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let n = octets.len().min(room);
        self.room.store(room - n, Ordering::Relaxed);
        self.content.lock().unwrap().extend(&octets[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn show<W: Write + Send>(pcap: &Arc<Pcap<W>>, octets: &mut [Vec<u8>]) {
    let frames: Vec<_> = octets.iter_mut().map(|o| Frame::new(ring::Bytes::from_slice(o))).collect();
    pcap.clone().observe(&frames);
}

fn word(content: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(content[at..at + 4].try_into().unwrap())
}

#[test]
fn the_file_is_a_nanosecond_pcap_and_is_whole_when_it_was_written_out() {
    let disk = Disk::with_room(usize::MAX);
    let pcap = Pcap::new(disk.clone(), Limits { snaplen: 10, buffer: 1000, ..Limits::default() });
    show(&pcap, &mut [vec![1; 60], vec![2; 4]]);
    pcap.write_out();
    let content = disk.content.lock().unwrap();
    assert_eq!(content[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
    assert_eq!((word(&content, 16), word(&content, 20)), (10, 1));
    assert!(word(&content, 28) < 1_000_000_000);
    assert_eq!((word(&content, 32), word(&content, 36)), (10, 60));
    assert_eq!(content[40..50], [1; 10]);
    assert_eq!((word(&content, 58), word(&content, 62)), (4, 4));
    assert_eq!(content[66..], [2; 4]);
}

#[test]
fn what_the_buffer_cannot_hold_is_missed_and_counted() {
    let disk = Disk::with_room(usize::MAX);
    let pcap = Pcap::new(disk.clone(), Limits { snaplen: 100, buffer: 160, ..Limits::default() });
    show(&pcap, &mut vec![vec![0; 60]; 5]);
    pcap.write_out();
    assert_eq!((pcap.counters().captured.get(), pcap.counters().drop_full.get()), (2, 3));
    show(&pcap, &mut [vec![0; 60]]);
    pcap.write_out();
    assert_eq!(disk.content.lock().unwrap().len(), 24 + 3 * 76);
}

/// The thread that drops a capture may be one that must not wait for a file.
#[test]
fn what_is_dropped_is_not_written() {
    let disk = Disk::with_room(usize::MAX);
    let pcap = Pcap::new(disk.clone(), Limits::default());
    show(&pcap, &mut [vec![0; 60]]);
    drop(pcap);
    assert!(disk.content.lock().unwrap().is_empty());
}

#[test]
fn a_capture_of_so_many_frames_ends_by_itself() {
    let disk = Disk::with_room(usize::MAX);
    let pcap = Pcap::new(disk.clone(), Limits { most: 3, ..Limits::default() });
    show(&pcap, &mut vec![vec![0; 60]; 2]);
    assert!(!pcap.is_complete());
    show(&pcap, &mut vec![vec![0; 60]; 2]);
    assert!(pcap.is_complete());
    pcap.write_out();
    assert_eq!(pcap.counters().captured.get(), 3);
    assert_eq!(disk.content.lock().unwrap().len(), 24 + 3 * 76);
}

/// Returns all frames of a file, by their first octet; the file must be valid.
fn frames_in(content: &[u8]) -> Vec<u8> {
    let (mut at, mut frames) = (24, Vec::new());
    while at < content.len() {
        let kept = word(content, at + 8) as usize;
        frames.push(content[at + 16..at + 16 + kept][0]);
        at += 16 + kept;
    }
    assert_eq!(at, content.len());
    frames
}

/// Wherever in a record the disk becomes full: losses are counted, and the file continues without damage when there is
/// room.
#[test]
fn a_full_disk_loses_frames_by_name_and_the_file_goes_on_when_there_is_room() {
    for room in 0..24 + 4 * 76 {
        let disk = Disk::with_room(room);
        let pcap = Pcap::new(disk.clone(), Limits::default());
        let counted = || {
            let counters = pcap.counters();
            (counters.captured.get(), counters.drop_failed.get())
        };
        let number = |n: u8| vec![n; 60];
        show(&pcap, &mut [1, 2, 3, 4].map(number));
        assert!(!pcap.has_failed());
        pcap.write_out();
        assert!(pcap.has_failed(), "room for {room}");
        let whole = (room.saturating_sub(24) / 76) as u64;
        // The incomplete record waits. If that is the file header, all frames wait.
        let lost = if room < 24 { 0 } else { 3 - whole };
        assert_eq!(counted(), (whole, lost), "room for {room}");
        assert_eq!(pcap.waiting(), 4 - whole - lost, "room for {room}");
        show(&pcap, &mut [5, 6].map(number));
        assert_eq!(counted(), (whole, lost + 2), "room for {room}");
        pcap.write_out();
        // Some room, but not enough; if it completes the file header, frames no longer wait for that.
        disk.room.store(1, Ordering::Relaxed);
        pcap.write_out();
        let lost = if room == 23 { 3 } else { lost };
        assert_eq!(counted().1, lost + 2, "room for {room}");
        disk.room.store(usize::MAX, Ordering::Relaxed);
        pcap.write_out();
        assert!(!pcap.has_failed());
        show(&pcap, &mut [7, 8].map(number));
        pcap.write_out();
        let (captured, lost) = counted();
        assert_eq!((captured + lost, pcap.waiting()), (8, 0), "each frame is in one counter");
        let frames = frames_in(&disk.content.lock().unwrap());
        assert_eq!(frames.len() as u64, captured, "room for {room}");
        assert!(frames.is_sorted() && frames.ends_with(&[7, 8]), "{frames:?}");
    }
}

#[test]
fn a_full_disk_holds_up_no_frame() {
    let pcap = Pcap::new(Disk::with_room(100), Limits::default());
    let tap = crate::TapPoint::new(Arc::new(crate::Null::new()));
    tap.enable(Box::new(pcap.clone()));
    let deliver = || {
        let mut octets = [0; 200];
        crate::Sink::deliver(&tap, &[Frame::new(ring::Bytes::from_slice(&mut octets))])
    };
    for _ in 0..3 {
        assert_eq!(deliver(), 1);
        pcap.write_out();
        assert!(pcap.has_failed());
    }
    let counters = pcap.counters();
    assert_eq!((counters.write_errors.get(), counters.drop_failed.get()), (3, 2), "the first one waits");
}
