//! NICs as seen by their drivers and the I/O threads: registers on one side, ports on the other. Mostly an e1000; of a
//! virtio-net device, its interrupt vectors.

pub(crate) mod driver;
mod hostile;
mod interrupts;
mod vectors;

use std::sync::{Arc, Mutex};

use bootinfo::TransmitMode;
use conformance::{Pattern, SinkBench, SourceBench, check_sink, check_source};
use nic::e1000::register as r;
use nic_port::NicQueues;
use port::{Frame, Sink, Source};

use crate::machine::{Machine, MachineConfig};
use crate::vm::{Vm, open_kvm};
use driver::{Driver, Registers, machine};

/// Modes that work with interrupts and register writes, and one with a status block; none whose frames leave
/// within an access.
const BY_THREAD: [TransmitMode; 3] = [TransmitMode::Async, TransmitMode::Csb, TransmitMode::Coalesced];

struct Bench {
    queues: Arc<NicQueues>,
    driver: Driver,
    sink: Arc<dyn Sink>,
    source: Box<dyn Source>,
    machine: Arc<Machine>,
}

impl Bench {
    fn new(mode: TransmitMode, several_senders: bool) -> Self {
        let (machine, queues) = machine(&[mode], several_senders);
        let queues = queues.into_iter().next().expect("a NIC");
        let mut driver = Driver::start(&machine, mode);
        driver.post();
        let (sink, source) = (queues.sink(), queues.source());
        Self { queues, driver, sink, source, machine }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.machine.bus().clear();
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    /// A frame shorter than the Ethernet minimum is padded.
    fn pattern(&self) -> Pattern {
        Pattern { shortest: 60, ..Pattern::default() }
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        Some(self.driver.received())
    }

    fn lost(&self) -> u64 {
        let ledger = self.queues.rx_ledger();
        [&ledger.drop_no_buffer, &ledger.drop_too_long, &ledger.drop_not_running, &ledger.drop_bad_ring]
            .map(ledger::Counter::get)
            .iter()
            .sum()
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        self.driver.send(frames)
    }
}

/// A sink that keeps its frames.
#[derive(Default)]
struct Kept(Mutex<Vec<Vec<u8>>>);

impl Sink for Kept {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let mut kept = self.0.lock().expect("no panic");
        for frame in frames {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            kept.push(octets);
        }
        frames.len()
    }
}

fn frames(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| Pattern::default().octets(1, number, 60)).collect()
}

#[test]
fn the_receive_side_is_a_sink() {
    for mode in TransmitMode::ALL {
        for several_senders in [false, true] {
            check_sink(|| Bench::new(mode, several_senders));
        }
    }
}

#[test]
fn the_receive_side_as_a_part_and_in_common_is_a_sink() {
    for mode in [TransmitMode::Base, TransmitMode::Csb] {
        check_sink(|| {
            let mut bench = Bench::new(mode, true);
            bench.sink = bench.queues.common_sink();
            bench
        });
        check_sink(|| {
            let mut bench = Bench::new(mode, false);
            bench.sink = bench.queues.sink_of(0, 1);
            bench
        });
    }
}

#[test]
fn the_transmit_side_is_a_source() {
    for mode in BY_THREAD {
        check_source(|| Bench::new(mode, false));
        check_source(|| {
            let mut bench = Bench::new(mode, false);
            bench.source = bench.queues.source_of(0);
            bench
        });
    }
}

#[test]
fn frames_leave_within_the_access_that_tells_of_them() {
    for mode in [TransmitMode::Base, TransmitMode::SendCombining] {
        let mut bench = Bench::new(mode, false);
        let kept = Arc::<Kept>::default();
        assert!(bench.queues.transmits_in_access());
        // Frames sent before there is a sink wait.
        assert_eq!(bench.driver.send(&frames(3)), 3);
        bench.queues.transmit_in_access(kept.clone());
        assert_eq!(kept.0.lock().expect("no panic").len(), 3);
        assert_eq!(bench.driver.send(&frames(100)), 100);
        assert_eq!(*kept.0.lock().expect("no panic"), [frames(3), frames(100)].concat());
        assert_eq!(bench.source.drain(64, &mut |_| panic!("nothing is left for a thread")), 0);
        assert!(!bench.source.arm(), "and nothing keeps it awake");
        bench.source.disarm();
        // All buffers were returned within the access.
        assert_eq!(bench.driver.send(&frames(127)), 127);
    }
}

#[test]
fn in_loopback_frames_come_back_and_none_comes_from_outside() {
    for mode in TransmitMode::ALL {
        let mut bench = Bench::new(mode, false);
        let kept = Arc::<Kept>::default();
        bench.queues.transmit_in_access(kept.clone());
        let control = bench.driver.registers.read(r::RCTL);
        bench.driver.registers.write(r::RCTL, control | 1 << 6);
        assert_eq!(bench.driver.send(&frames(5)), 5);
        if !bench.queues.transmits_in_access() {
            assert_eq!(bench.source.drain(64, &mut |_| panic!("nothing goes out")), 5);
        }
        assert_eq!(bench.driver.received(), frames(5), "{mode:?}");
        let mut octets = Pattern::default().octets(1, 0, 60);
        bench.sink.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))]);
        assert_eq!(bench.driver.received(), Vec::<Vec<u8>>::new());
        bench.driver.registers.write(r::RCTL, control);
        assert_eq!(bench.driver.send(&frames(1)), 1);
        bench.source.drain(64, &mut |frames| {
            kept.deliver(frames);
        });
        assert_eq!(kept.0.lock().expect("no panic").len(), 1, "{mode:?}: out again");
        assert_eq!(bench.driver.received(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn who_waits_for_room_is_rung_when_buffers_are_posted() {
    for mode in TransmitMode::ALL {
        let mut bench = Bench::new(mode, false);
        let mut octets = Pattern::default().octets(1, 0, 60);
        let frame = [Frame::new(ring::Bytes::from_slice(&mut octets))];
        while bench.sink.deliver(&frame) == 1 {}
        assert!(!bench.sink.arm(), "{mode:?}: no room");
        assert!(!rings(&*bench.sink));
        assert!(!bench.driver.received().is_empty());
        assert!(rings(&*bench.sink), "{mode:?}: buffers were posted");
        bench.sink.disarm();
        assert!(!rings(&*bench.sink) && bench.sink.room() > 0, "{mode:?}");
        // An awake thread is not signalled.
        assert_eq!(bench.sink.deliver(&frame), 1);
        bench.driver.received();
        assert!(!rings(&*bench.sink), "{mode:?}");
    }
}

fn rings(sink: &dyn Sink) -> bool {
    use std::os::fd::AsRawFd as _;
    let port::Bell::Readable(bell) = sink.bell() else { panic!("a descriptor") };
    let mut bell = libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry with an open descriptor.
    unsafe { libc::poll(&raw mut bell, 1, 0) == 1 }
}

#[test]
fn who_sleeps_is_not_missed_whenever_frames_come() {
    for mode in BY_THREAD {
        const FRAMES: u32 = 5000;
        let mut bench = Bench::new(mode, false);
        let (driver, source) = (&mut bench.driver, &mut bench.source);
        std::thread::scope(|scope| {
            let sender = scope.spawn(move || {
                for number in 0..FRAMES {
                    // One after the other, each at another moment of the other thread's transition to sleep.
                    while driver.send(&frames(1)) == 0 {}
                    (0..number % 97 * 8).for_each(|_| std::hint::spin_loop());
                }
            });
            let mut came = 0;
            while came < FRAMES {
                came += source.drain(64, &mut |_| {}) as u32;
                if !source.arm() && came < FRAMES {
                    assert!(sleep(&**source), "{mode:?}: nothing rang after {came} of {FRAMES} frames");
                }
                source.disarm();
            }
            sender.join().expect("no panic");
        });
    }
}

/// Waits for the bell; returns false on timeout.
fn sleep(source: &dyn Source) -> bool {
    use std::os::fd::AsRawFd as _;
    let port::Bell::Readable(bell) = source.bell() else { panic!("a descriptor") };
    let mut bell = libc::pollfd { fd: bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry with an open descriptor.
    unsafe { libc::poll(&raw mut bell, 1, 10_000) == 1 }
}

#[test]
fn each_access_is_counted_under_its_register() {
    let bench = Bench::new(TransmitMode::Async, false);
    let count = bench.queues.registers().expect("an e1000");
    let before = (count.other_write.get(), count.tdt_write.get(), count.rdt_write.get());
    let registers = &bench.driver.registers;
    for register in [r::ICR, r::STATUS, r::STATUS, r::CTRL] {
        registers.read(register);
    }
    for (register, value) in [(r::IMC, 1), (r::IMS, 0), (r::IMS, 0), (r::TDT, 0), (r::RDT, 0), (r::ITR, 0)] {
        registers.write(register, value);
    }
    assert_eq!((count.icr_read.get(), count.status_read.get(), count.other_read.get()), (1, 2, 1));
    assert_eq!((count.imc_write.get(), count.ims_write.get()), (1, 2));
    let after = (count.other_write.get(), count.tdt_write.get(), count.rdt_write.get());
    assert_eq!(after, (before.0 + 1, before.1 + 1, before.2 + 1));
}

#[test]
fn registers_are_reached_by_ports_too() {
    let bench = Bench::new(TransmitMode::Base, false);
    let (bus, exits) = (bench.machine.bus(), ledger::VcpuExits::default());
    let port = 0xc000 + 64;
    // Unless the driver has enabled I/O, the ports are not claimed.
    let mut data = [0; 4];
    bus.port_read(port, &mut data, &exits);
    assert_eq!(data, [0xff; 4]);
    bus.write(bootinfo::map::ECAM + (1 << 15) + 4, &7u16.to_le_bytes(), &exits);
    bus.port_write(port, &(r::RDTR as u32).to_le_bytes(), &exits);
    bus.port_write(port + 4, &77u32.to_le_bytes(), &exits);
    assert_eq!(bench.driver.registers.read(r::RDTR), 77);
    bus.port_read(port + 4, &mut data, &exits);
    assert_eq!(u32::from_le_bytes(data), 77);
    assert_eq!(exits.port_io.get(), 4);
    // Half of the register is beyond the window.
    bus.port_read(port + 62, &mut data, &exits);
    assert_eq!(data, [0xff; 4]);
}

#[test]
fn what_makes_no_sense_is_counted() {
    let bench = Bench::new(TransmitMode::Async, false);
    let senseless = || bench.queues.registers().expect("an e1000").senseless.get();
    let before = senseless();
    bench.driver.registers.write(r::TDT, 5000);
    bench.driver.registers.write(0x1_fff0, 1);
    let (bus, exits) = (bench.machine.bus(), ledger::VcpuExits::default());
    bus.write(super::bar_of(1) + r::TDT + 1, &[0], &exits);
    assert_eq!(senseless() - before, 3);
    assert_eq!(bench.queues.tx_broken(), None);
}

#[test]
fn a_nic_sits_where_ring_0_knows_it() {
    let (machine, _) = machine(&[], false);
    let nic = |interrupt_vcpu| {
        let config = nic::e1000::Config::new([2, 0, 0, 0, 0, 1]);
        super::Model::E1000(super::E1000Nic { config, mode: TransmitMode::Base, interrupt_vcpu })
    };
    for (slot, vcpu) in [(32, 0), (1, 2)] {
        assert!(super::attach(&machine, slot, &nic(vcpu), false).is_err(), "slot {slot}, vCPU {vcpu}");
    }
    for slot in 1..=8 {
        assert!(super::attach(&machine, slot, &nic(1), false).is_ok());
    }
    let registers = Registers::new(&machine, 7);
    assert_eq!(registers.read(r::STATUS), u32::MAX, "its memory is not enabled");
    registers.enable();
    assert_ne!(registers.read(r::STATUS), u32::MAX);
    machine.bus().clear();
}

/// For each doorbell that is taken back KVM waits for a grace period of the kernel's, seconds on a busy host.
#[test]
fn doorbells_of_a_machine_that_ends_are_not_taken_back_one_by_one() {
    let Ok(kvm) = open_kvm().map_err(|error| println!("SKIPPED: {error:#}")) else { return };
    let info = bootinfo::BootInfo::new(bootinfo::Role::Router, 1);
    let config = MachineConfig { name: "bells".into(), ram: 12 << 20, fib: None, group: None, info };
    let vm = Vm::new(&kvm, config).expect("a virtual machine");
    let machine = vm.machine();
    let queues = driver::attach_to(machine, TransmitMode::Csb);
    let _driver = Driver::start(machine, TransmitMode::Csb);
    let (address, bell) =
        (super::bar_of(super::nic_slot(0)) + r::TDT, queues.tx.kick(0).expect("a doorbell"));
    let is_free = || machine.doorbells().connect(address, bell);
    assert!(!is_free(), "the driver's doorbell is connected");
    machine.bus().clear();
    assert!(!is_free(), "it was taken back");
}
