use std::sync::{Arc, Mutex};

use bootinfo::map;

use super::*;
use crate::bus::BusDevice;
use crate::memory::GuestRam;

/// Address of the fake device's registers.
const BAR: u64 = map::BARS;

/// A device that records what was written to it, and reads as 0x88 77 66 55 44 33 22 11.
struct Fake(Arc<Mutex<Vec<Vec<u8>>>>);

impl BusDevice for Fake {
    fn config_read(&mut self, _: u16, data: &mut [u8]) {
        data.fill(0xcc);
    }
    fn config_write(&mut self, _: u16, _: &[u8]) {}
    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool {
        if address == BAR {
            data.iter_mut().zip(0x11..).for_each(|(octet, n)| *octet = n);
        }
        address == BAR
    }
    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool {
        if address == BAR {
            self.0.lock().expect("no panic").push(data.to_vec());
        }
        address == BAR
    }
}

struct Bench {
    bus: Arc<Bus>,
    written: Arc<Mutex<Vec<Vec<u8>>>>,
    exits: VcpuExits,
    access: RegisterAccess,
}

impl Bench {
    fn new() -> Self {
        let ram = GuestRam::new("serve-tests", 12 << 20).expect("memory");
        let (bus, written) = (Bus::new(ram.region()), Arc::default());
        bus.insert(1, Box::new(Fake(Arc::clone(&written))));
        Self { bus, written, exits: VcpuExits::default(), access: RegisterAccess::default() }
    }

    /// Requests an access as a process would; returns the resulting value.
    fn ask(&self, address: u64, value: u64, shape: u32) -> u64 {
        self.access.address.store(address, Ordering::Relaxed);
        self.access.value.store(value, Ordering::Relaxed);
        self.access.shape.store(shape, Ordering::Relaxed);
        self.access.turn.store(RegisterAccess::ASKED, Ordering::Release);
        answer(&self.access, &self.bus, &self.exits);
        assert_eq!(self.access.turn.load(Ordering::Acquire), RegisterAccess::DONE);
        self.access.value.load(Ordering::Relaxed)
    }
}

#[test]
fn a_read_leaves_its_octets_and_nothing_of_what_was_there() {
    let bench = Bench::new();
    for (octets, value) in [(1, 0x11), (2, 0x1211), (4, 0x1413_1211), (8, 0x1817_1615_1413_1211)] {
        assert_eq!(bench.ask(BAR, u64::MAX, octets), value, "{octets} octets");
    }
    assert_eq!(bench.exits.register_read.get(), 4);
    assert_eq!(bench.ask(map::ECAM + (1 << 15), 0, 2), 0xcccc, "configuration space");
    assert_eq!(bench.exits.pci_config_read.get(), 1);
}

#[test]
fn a_write_is_as_long_as_it_says() {
    let bench = Bench::new();
    for octets in [1, 2, 4, 8] {
        bench.ask(BAR, 0x0807_0605_0403_0201, octets | RegisterAccess::WRITE);
    }
    let written = bench.written.lock().expect("no panic");
    let lengths: Vec<usize> = written.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1, 2, 4, 8]);
    assert!(written.iter().all(|octets| (1..).zip(octets).all(|(n, octet)| *octet == n)));
}

#[test]
fn where_nobody_is_all_ones_are_read() {
    let bench = Bench::new();
    assert_eq!(bench.ask(map::ECAM + (7 << 15), 0, 4), 0xffff_ffff);
    assert_eq!(bench.ask(u64::MAX, 0, 1), 0xff, "no address is too high");
}

#[test]
fn a_shape_that_there_is_none_of_reaches_no_device() {
    let bench = Bench::new();
    let shapes = [0, 3, 5, 7, 9, 16, 255, 0x200, 0x8000_0000, u32::MAX];
    for shape in shapes.into_iter().chain([RegisterAccess::WRITE, RegisterAccess::WRITE | 3]) {
        assert_eq!(bench.ask(BAR, 0, shape), u64::MAX, "{shape:#x}");
    }
    assert_eq!(bench.exits.other.get(), 12);
    assert!(bench.written.lock().expect("no panic").is_empty());
}

#[test]
fn who_does_not_ask_is_not_answered() {
    let bench = Bench::new();
    for turn in [RegisterAccess::DONE, 2, u32::MAX] {
        bench.access.turn.store(turn, Ordering::Release);
        bench.access.shape.store(1 | RegisterAccess::WRITE, Ordering::Relaxed);
        answer(&bench.access, &bench.bus, &bench.exits);
        assert_eq!(bench.access.turn.load(Ordering::Acquire), turn);
    }
    assert!(bench.written.lock().expect("no panic").is_empty());
}

#[test]
fn the_last_words_are_one_line_each() {
    for end in [End::Unknown, End::Exit(1), End::Signal(libc::SIGSYS), End::Signal(libc::SIGHUP)] {
        let line = describe_end(end);
        assert!(!line.is_empty() && !line.contains('\n'), "{line}");
    }
    assert_eq!(describe_end(End::Signal(libc::SIGHUP)), "the process was ended by signal 1");
}
