use std::sync::{Mutex, Weak, mpsc};

use super::*;

/// Accesses of a device: kind, address or offset, octets.
type Log = Arc<Mutex<Vec<(&'static str, u64, Vec<u8>)>>>;

/// A device with one BAR of 256 octets.
struct Fake {
    bar: u64,
    log: Log,
}

impl Fake {
    fn has(&self, address: u64) -> bool {
        (self.bar..self.bar + 256).contains(&address)
    }

    fn note(&self, what: &'static str, at: u64, octets: &[u8]) {
        self.log.lock().expect("no panic").push((what, at, octets.to_vec()));
    }
}

impl BusDevice for Fake {
    fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        data.fill(offset as u8);
    }
    fn config_write(&mut self, offset: u16, data: &[u8]) {
        self.note("config", offset.into(), data);
    }
    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool {
        if self.has(address) {
            data.fill(0x11);
        }
        self.has(address)
    }
    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool {
        if self.has(address) {
            self.note("memory", address, data);
        }
        self.has(address)
    }
}

fn bus() -> (Arc<Bus>, [Log; 2]) {
    let bus = Bus::new(Region::from_static(Box::leak(Box::new([7; 64])), 0x100));
    let logs = [Log::default(), Log::default()];
    for (slot, log) in [(1, &logs[0]), (3, &logs[1])] {
        bus.insert(slot, Box::new(Fake { bar: map::BARS + 0x1000 * slot as u64, log: log.clone() }));
    }
    (bus, logs)
}

fn read<const N: usize>(bus: &Bus, address: u64) -> [u8; N] {
    let mut data = [0; N];
    bus.read(address, &mut data, &VcpuExits::default());
    data
}

/// Returns the address of a function's register in configuration space.
fn config(slot: u64, function: u64, register: u64) -> u64 {
    map::ECAM + (slot << 15) + (function << 12) + register
}

#[test]
fn a_device_answers_in_its_slot_and_at_its_bar() {
    let (bus, _) = bus();
    assert_eq!(read(&bus, config(1, 0, 0x24)), [0x24; 4]);
    assert_eq!(read(&bus, config(3, 0, 0xfff)), [0xff]);
    assert_eq!(read(&bus, map::BARS + 0x3000), [0x11; 8]);
}

#[test]
fn what_is_absent_reads_as_all_ones() {
    let (bus, _) = bus();
    let absent = [
        config(0, 0, 0),
        config(2, 0, 0),
        config(31, 0, 0),
        config(1, 1, 0),
        config(1, 7, 0x24),
        map::ECAM - 4,
        map::BARS,
        map::BARS + 0x1100,
        map::BARS + map::BARS_LEN,
        0,
        u64::MAX - 8,
    ];
    for address in absent {
        assert_eq!(read(&bus, address), [0xff; 4], "{address:#x}");
    }
}

#[test]
fn a_write_reaches_one_device_or_none() {
    let (bus, logs) = bus();
    let exits = VcpuExits::default();
    bus.write(config(3, 0, 4), &[6, 0], &exits);
    bus.write(config(3, 1, 4), &[1], &exits);
    bus.write(config(0, 0, 4), &[2], &exits);
    bus.write(map::BARS + 0x10ff, &[9], &exits);
    bus.write(map::BARS + 0x8000, &[3], &exits);
    assert_eq!(*logs[0].lock().expect("no panic"), [("memory", map::BARS + 0x10ff, vec![9])]);
    assert_eq!(*logs[1].lock().expect("no panic"), [("config", 4, vec![6, 0])]);
    assert_eq!((exits.pci_config_write.get(), exits.register_write.get()), (3, 2));
}

#[test]
fn a_slot_beyond_the_bus_and_a_cleared_bus_hold_nothing() {
    let (bus, logs) = bus();
    bus.insert(SLOTS, Box::new(Fake { bar: map::BARS, log: Log::default() }));
    assert_eq!(read(&bus, map::BARS), [0xff; 4]);
    bus.clear();
    assert_eq!(read(&bus, config(1, 0, 0)), [0xff; 4]);
    bus.write(config(1, 0, 0), &[1], &VcpuExits::default());
    assert!(logs[0].lock().expect("no panic").is_empty());
}

#[test]
fn diagnostics_read_ram_and_nothing_else() {
    let (bus, _) = bus();
    assert_eq!(bus.read_ram(0x100), u64::from_le_bytes([7; 8]));
    assert_eq!((bus.read_ram(0xff), bus.read_ram(0x13c), bus.read_ram(u64::MAX)), (0, 0, 0));
}

/// A device with writes that are costly to the host.
struct Costly(Duration);

impl BusDevice for Costly {
    fn config_read(&mut self, _: u16, _: &mut [u8]) {}
    fn config_write(&mut self, _: u16, _: &[u8]) {
        self.0 += Duration::from_millis(20);
    }
    fn memory_read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn memory_write(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn take_debt(&mut self) -> Option<Duration> {
        Some(std::mem::take(&mut self.0)).filter(|debt| !debt.is_zero())
    }
}

#[test]
fn who_makes_the_host_work_waits_and_nobody_else_does() {
    // A resting thread reports for how long, and continues when permitted.
    let ((rests, rested), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
    let gone = Mutex::new(gone);
    let rest = move |time| {
        rests.send(time).expect("somebody listens");
        gone.lock().expect("one at a time").recv().expect("somebody lets it go on");
    };
    let bus = Bus::resting(Region::from_static(Box::leak(Box::new([7; 64])), 0x100), Box::new(rest));
    bus.insert(5, Box::new(Costly(Duration::ZERO)));
    let exits = VcpuExits::default();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| bus.write(config(5, 0, 4), &[0], &exits)));
        for turn in 1..=3 {
            assert_eq!(rested.recv(), Ok(Duration::from_millis(20)));
            assert_eq!((exits.paced.get(), exits.pci_config_write.get()), (turn, turn));
            // The device is not locked while its guest rests.
            read::<4>(&bus, config(5, 0, 0));
            go.send(()).expect("it rests");
        }
    });
    assert_eq!((exits.paced.get(), exits.pci_config_write.get()), (3, 3));
}

/// A device that stays in an access until it is released.
struct Busy {
    entered: mpsc::Sender<()>,
    let_go: mpsc::Receiver<()>,
    links: Arc<Mutex<Vec<bool>>>,
}

impl BusDevice for Busy {
    fn config_read(&mut self, _: u16, _: &mut [u8]) {}
    fn config_write(&mut self, _: u16, _: &[u8]) {
        self.entered.send(()).expect("somebody waits");
        self.let_go.recv().expect("somebody lets it go");
        assert!(self.links.lock().expect("no panic").is_empty(), "within an access");
    }
    fn memory_read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn memory_write(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn set_link(&mut self, up: bool) {
        self.links.lock().expect("no panic").push(up);
    }
}

#[test]
fn a_cable_is_pulled_out_without_waiting_for_an_access_and_the_device_hears_of_it_after() {
    let (bus, _) = bus();
    let ((entered, has_entered), (let_go, wait)) = (mpsc::channel(), mpsc::channel());
    let links = Arc::<Mutex<Vec<bool>>>::default();
    bus.insert(2, Box::new(Busy { entered, let_go: wait, links: links.clone() }));
    let vcpu = std::thread::spawn({
        let bus = bus.clone();
        move || bus.write(config(2, 0, 4), &[0], &VcpuExits::default())
    });
    has_entered.recv().expect("the access has begun");
    // Returns at once, and the last call counts.
    bus.set_link(2, true);
    bus.set_link(2, false);
    let_go.send(()).expect("it waits");
    vcpu.join().expect("no panic");
    assert_eq!(*links.lock().expect("no panic"), [false]);
    bus.set_link(2, true);
    assert_eq!(*links.lock().expect("no panic"), [false, true], "nobody accesses it: at once");
    bus.set_link(31, true);
}

/// A device with work for several steps, in the first of which its cable is pulled out.
struct Long {
    bus: Weak<Bus>,
    left: u32,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Long {
    fn note(&self, what: &'static str) {
        self.log.lock().expect("no panic").push(what);
    }
}

impl BusDevice for Long {
    fn config_read(&mut self, _: u16, _: &mut [u8]) {}
    fn config_write(&mut self, _: u16, _: &[u8]) {
        self.left = 3;
        self.note("access");
    }
    fn memory_read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn memory_write(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn set_link(&mut self, _: bool) {
        self.note("link");
    }
    fn has_more(&self) -> bool {
        self.left > 0
    }
    fn go_on(&mut self) {
        self.note("turn");
        if self.left == 3 {
            self.bus.upgrade().expect("it is there").set_link(2, false);
        }
        self.left -= 1;
    }
}

#[test]
fn what_an_access_has_begun_is_done_in_turns_between_which_others_have_the_device() {
    let (bus, _) = bus();
    let log = Arc::<Mutex<Vec<_>>>::default();
    bus.insert(2, Box::new(Long { bus: Arc::downgrade(&bus), left: 0, log: log.clone() }));
    bus.write(config(2, 0, 4), &[0], &VcpuExits::default());
    assert_eq!(*log.lock().expect("no panic"), ["access", "turn", "link", "turn", "turn"]);
}

/// A device that records the calls at its end.
struct Leaving(Arc<Mutex<Vec<&'static str>>>);

impl Leaving {
    fn note(&self, what: &'static str) {
        self.0.lock().expect("no panic").push(what);
    }
}

impl BusDevice for Leaving {
    fn config_read(&mut self, _: u16, _: &mut [u8]) {}
    fn config_write(&mut self, _: u16, _: &[u8]) {}
    fn memory_read(&mut self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn memory_write(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
    fn recall(&mut self) {
        self.note("recalled");
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.note("dropped");
    }
}

/// A peer that has the rings of several devices returns all of them within the time limit of one.
#[test]
fn all_devices_ask_back_what_they_have_handed_on_before_one_waits_for_it() {
    let (bus, told) = (Bus::new(Region::from_static(Box::leak(Box::new([0; 64])), 0x100)), Arc::default());
    for slot in [1, 2] {
        bus.insert(slot, Box::new(Leaving(Arc::clone(&told))));
    }
    bus.clear();
    assert_eq!(*told.lock().expect("no panic"), ["recalled", "recalled", "dropped", "dropped"]);
}
