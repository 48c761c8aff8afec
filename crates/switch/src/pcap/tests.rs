use std::io;
use std::sync::atomic::AtomicUsize;

use super::*;

/// A file that others can read, with room for so many octets.
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
fn the_file_is_a_nanosecond_pcap_and_is_whole_after_the_last_drop() {
    let disk = Disk::with_room(usize::MAX);
    let pcap = Pcap::new(disk.clone(), Limits { snaplen: 10, buffer: 1000, ..Limits::default() });
    show(&pcap, &mut [vec![1; 60], vec![2; 4]]);
    drop(pcap);
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
    assert_eq!((pcap.counters().captured.get(), pcap.counters().missed_full.get()), (2, 3));
    pcap.write_out();
    show(&pcap, &mut [vec![0; 60]]);
    drop(pcap);
    assert_eq!(disk.content.lock().unwrap().len(), 24 + 3 * 76);
}

#[test]
fn a_capture_of_so_many_frames_ends_by_itself() {
    let disk = Disk::with_room(usize::MAX);
    let pcap = Pcap::new(disk.clone(), Limits { most: 3, ..Limits::default() });
    show(&pcap, &mut vec![vec![0; 60]; 2]);
    assert!(!pcap.is_complete());
    show(&pcap, &mut vec![vec![0; 60]; 2]);
    assert!(pcap.is_complete());
    assert_eq!(pcap.counters().captured.get(), 3);
    drop(pcap);
    assert_eq!(disk.content.lock().unwrap().len(), 24 + 3 * 76);
}

#[test]
fn a_full_disk_ends_the_capture_and_nothing_else() {
    let pcap = Pcap::new(Disk::with_room(100), Limits::default());
    let tap = crate::TapPoint::new(Arc::new(crate::Null::new()));
    tap.enable(Box::new(pcap.clone()));
    let deliver = || {
        let mut octets = [0; 200];
        crate::Sink::deliver(&tap, &[Frame::new(ring::Bytes::from_slice(&mut octets))])
    };
    assert_eq!(deliver(), 1);
    assert!(!pcap.has_failed());
    pcap.write_out();
    assert!(pcap.has_failed());
    assert_eq!(deliver(), 1);
    pcap.write_out();
    let counters = pcap.counters();
    assert_eq!((counters.write_errors.get(), counters.missed_failed.get()), (1, 1));
}
