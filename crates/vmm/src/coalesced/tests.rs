//! A program in ring 3 that stores to TDT continuously, and reads another register after every eighth store.

use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Instant;

use bootinfo::{BootInfo, Role, TransmitMode};
use port::ClockHandle;
use vm_memory::{Bytes as _, GuestAddress};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

use super::*;
use crate::attach::tests::driver::{Driver, attach_to};
use crate::attach::{bar_of, nic_slot};
use crate::bus::BusDevice;
use crate::machine::MachineConfig;
use crate::vm::{Vm, open_kvm};

const TDT: u64 = nic::e1000::register::TDT;
const STATUS: u64 = nic::e1000::register::STATUS;
/// Entries of the ring.
const RING: u32 = 1024;
/// Stores between two reads.
const STORES: u32 = 8;

/// ```text
///     mov ebx, TDT; mov ecx, STATUS; xor edx, edx
/// 1:  inc edx; and edx, 1023; mov [rbx], edx; test dl, 7; jnz 1b; mov eax, [rcx]; jmp 1b
/// ```
fn program(bar: u64) -> Vec<u8> {
    let mut code = vec![0xbb];
    code.extend(((bar + TDT) as u32).to_le_bytes());
    code.push(0xb9);
    code.extend(((bar + STATUS) as u32).to_le_bytes());
    code.extend([0x31, 0xd2]);
    code.extend([
        0xff,
        0xc2,
        0x81,
        0xe2,
        0xff,
        3,
        0,
        0,
        0x89,
        0x13,
        0xf6,
        0xc2,
        7,
        0x75,
        0u8.wrapping_sub(15),
    ]);
    code.extend([0x8b, 0x01, 0xeb, 0u8.wrapping_sub(19)]);
    code
}

/// Accesses recorded by the device.
#[derive(Default)]
struct Seen {
    ends: Arc<HeadTail>,
    exits: AtomicU32,
    reads: AtomicU32,
    /// Reads that arrived before the preceding stores had taken effect.
    early: AtomicU32,
}

struct Fake(u64, Arc<Seen>);

impl BusDevice for Fake {
    fn config_read(&mut self, _: u16, _: &mut [u8]) {}
    fn config_write(&mut self, _: u16, _: &[u8]) {}
    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool {
        let reads = self.1.reads.fetch_add(1, Ordering::SeqCst) + 1;
        if u32::from(self.1.ends.tail()) != reads * STORES % RING {
            self.1.early.fetch_add(1, Ordering::SeqCst);
        }
        data.fill(0);
        address == self.0 + STATUS
    }
    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool {
        self.1.exits.fetch_add(1, Ordering::SeqCst);
        self.1.ends.set_tail(u16::from_le_bytes([data[0], data[1]]));
        address == self.0 + TDT
    }
}

struct World {
    seen: Arc<Seen>,
    registers: Arc<E1000Registers>,
    collector: Collector,
    /// Advances the collector's clock.
    hand: ClockHandle,
    address: u64,
}

impl World {
    fn stores(&self) -> u64 {
        self.registers.coalesced_tdt.get() + u64::from(self.seen.exits.load(Ordering::SeqCst))
    }

    fn place(&self, entries: u16) {
        let tail = Tail { ends: self.seen.ends.clone(), entries };
        self.collector.place(Some((self.address, tail)));
    }

    /// Polls until a condition holds.
    fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !done(self) {
            assert!(start.elapsed().as_secs() < 60, "polled in vain for {what}");
            self.collector.look();
            thread::yield_now();
        }
    }
}

extern "C" fn nothing(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// Returns a machine for the program; without KVM, `None`, after printing why.
fn vm() -> Option<Arc<Vm>> {
    let kvm = open_kvm().map_err(|error| println!("SKIPPED: {error:#}")).ok()?;
    let info = BootInfo::new(Role::Router, 1);
    let vm =
        Vm::new(&kvm, MachineConfig { name: "stores".into(), ram: 12 << 20, fib: None, group: None, info });
    let vm = Arc::new(vm.expect("a virtual machine"));
    let program = program(bar_of(nic_slot(0)));
    vm.machine().ram().memory.write_slice(&program, GuestAddress(vm.entry())).expect("inside RAM");
    Some(vm)
}

/// Runs the program while `act` is executed.
fn run(vm: &Arc<Vm>, act: impl FnOnce()) {
    register_signal_handler(SIGRTMIN(), nothing).expect("a handler");
    let runner = vm.clone();
    let runner = thread::spawn(move || runner.vcpu(0).expect("a vCPU").run());
    act();
    vm.machine().stop();
    while !runner.is_finished() {
        runner.kill(SIGRTMIN()).expect("a thread");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(runner.join().is_ok());
    vm.machine().bus().clear();
}

fn try_out(act: impl FnOnce(&World)) {
    let Some(vm) = vm() else { return };
    let bar = bar_of(nic_slot(0));
    let (seen, registers) = (Arc::<Seen>::default(), Arc::<E1000Registers>::default());
    vm.machine().bus().insert(nic_slot(0), Box::new(Fake(bar, seen.clone())));
    let (clock, hand) = Clock::by_hand();
    let collector = Collector::by(clock, vm.machine().coalesced().clone(), registers.clone());
    let world = World { seen, registers, collector, hand, address: bar + TDT };
    world.place(RING as u16);
    run(&vm, || {
        act(&world);
        world.collector.end();
    });
}

#[test]
fn stores_are_collected_while_a_thread_polls_and_leave_the_guest_otherwise() {
    try_out(|world| {
        let exits = || world.seen.exits.load(Ordering::SeqCst);
        let collected = || world.registers.coalesced_tdt.get();
        world.until("stores that leave the guest", |_| exits() > 50);
        assert_eq!(collected(), 0, "nobody has found work yet");
        world.collector.worked();
        assert!(world.collector.is_active());
        let before = exits();
        world.until("collected stores", |_| collected() > 500);
        // One may have been in progress; a full ring makes others.
        assert!(exits() - before < 50, "{} stores left the guest", exits() - before);
        world.hand.advance(PATIENCE);
        world.collector.worked();
        assert!(!world.collector.rest(), "too early to sleep");
        world.hand.advance(PATIENCE - Duration::from_nanos(1));
        assert!(!world.collector.rest(), "too early to sleep");
        world.hand.advance(Duration::from_nanos(1));
        assert!(world.collector.rest());
        let (collected_before, exits_before) = (collected(), exits());
        world.until("stores that leave the guest again", |_| exits() > exits_before + 50);
        assert_eq!(collected(), collected_before, "nothing waits in a ring that nobody looks at");
    });
}

#[test]
fn an_access_after_collected_stores_finds_them_done() {
    try_out(|world| {
        world.until("a vCPU that runs", |world| world.seen.reads.load(Ordering::SeqCst) > 2);
        world.collector.worked();
        // No thread polls: only the reads themselves make the stores before them take effect.
        let start = Instant::now();
        while world.registers.coalesced_tdt.get() < 2000 {
            assert!(start.elapsed().as_secs() < 60, "nothing is collected");
            thread::sleep(Duration::from_millis(1));
        }
        // The result is the same while a thread polls, and the kernel stops and starts to collect meanwhile.
        for _ in 0..20 {
            let before = world.stores();
            world.until("more stores", |world| world.stores() > before + 200);
            world.place(RING as u16);
            world.collector.worked();
        }
        assert_eq!(world.seen.early.load(Ordering::SeqCst), 0);
        assert!(world.seen.reads.load(Ordering::SeqCst) > 500);
    });
}

#[test]
fn who_polls_sees_stores() {
    try_out(|world| {
        world.until("a vCPU that runs", |world| world.stores() > 10);
        world.collector.worked();
        for _ in 0..100 {
            let before = world.registers.coalesced_tdt.get();
            world.until("a collected store", |world| world.registers.coalesced_tdt.get() > before);
        }
    });
}

#[test]
fn a_tail_outside_the_ring_is_counted_and_not_taken_over() {
    try_out(|world| {
        world.until("a vCPU that runs", |world| world.stores() > 10);
        world.place(8);
        world.collector.worked();
        world.until("collected stores", |world| world.registers.coalesced_tdt.get() > 1000);
        world.collector.place(None);
        assert!(!world.collector.is_active());
        let collected = world.registers.coalesced_tdt.get();
        let before = world.stores();
        world.until("stores that leave the guest", |world| world.stores() > before + 50);
        assert_eq!(world.registers.coalesced_tdt.get(), collected, "the transmitter stands still");
    });
}

/// With a driver that resets its e1000 continuously, while another vCPU stores to TDT.
#[test]
fn a_reset_while_stores_are_collected_hangs_nobody() {
    let Some(vm) = vm() else { return };
    let queues = attach_to(vm.machine(), TransmitMode::Coalesced);
    let registers = queues.registers().expect("an e1000");
    run(&vm, || {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut source = queues.source();
                while !over.load(Ordering::Acquire) {
                    source.drain(64, &mut |_| {});
                    source.arm();
                    source.disarm();
                }
            });
            let (mut resets, mut collected, mut start) = (0, 0, Instant::now());
            while resets < 30 || registers.coalesced_tdt.get() < 200 {
                assert!(start.elapsed().as_secs() < 60, "{resets} resets, {registers:?}");
                // Each reset waits for the kernel, maybe for seconds. The last of them have to get on with the stores.
                if resets < 30 || registers.coalesced_tdt.get() > collected {
                    (collected, start) = (registers.coalesced_tdt.get(), Instant::now());
                }
                let mut driver = Driver::start(vm.machine(), TransmitMode::Coalesced);
                driver.send(&[vec![0; 60], vec![1; 60]]);
                thread::sleep(Duration::from_millis(3));
                driver.registers.write(nic::e1000::register::CTRL, nic::e1000::register::ctrl::RST);
                resets += 1;
            }
            over.store(true, Ordering::Release);
        });
        // While no thread serves the ring, the kernel collects no stores.
        let before = registers.coalesced_tdt.get();
        let writes = registers.tdt_write.get();
        let start = Instant::now();
        while registers.tdt_write.get() < writes + 50 {
            assert!(start.elapsed().as_secs() < 60, "stores do not arrive");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(registers.coalesced_tdt.get(), before);
    });
}

#[test]
fn whatever_the_page_holds_no_tail_leaves_its_ring() {
    crate::corpus::replay("coalesced", fuzzed::run);
}
