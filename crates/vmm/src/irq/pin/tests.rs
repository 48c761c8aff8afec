//! Pins of a real virtual machine: I/O APIC, handlers in ring 0, and a program in ring 3 that counts causes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bootinfo::{BootInfo, Role};
use nic_port::irq::Pin as _;
use vm_memory::{Bytes as _, GuestAddress};
use vmm_sys_util::signal::{Killable, SIGRTMIN, register_signal_handler};

use super::*;
use crate::attach::{bar_of, nic_slot};
use crate::bus::BusDevice;
use crate::machine::MachineConfig;
use crate::vm::{Vm, open_kvm};

/// Counters of vCPU n's program: the sum of the low halves of the causes, for either NIC.
const COUNTS: u64 = map::POOL;
/// Offset of ICR.
const ICR: u64 = 0xc0;

/// Takes the causes of two NICs and adds them to the words of this vCPU, in an endless loop.
///
/// ```text
///     shl edi, 4; add edi, COUNTS
/// 1:  xor eax, eax; xchg [causes of one], eax; add [rdi], eax
///     xor eax, eax; xchg [causes of the other], eax; add [rdi + 4], eax
///     jmp 1b
/// ```
fn program(nics: [usize; 2]) -> Vec<u8> {
    let causes =
        |nic: u64| (map::SHARED + std::mem::offset_of!(bootinfo::Shared, causes) as u64 + 64 * nic) as u32;
    let mut code = vec![0xc1, 0xe7, 4, 0x81, 0xc7];
    code.extend((COUNTS as u32).to_le_bytes());
    for (place, nic) in (0..).zip(nics) {
        code.extend([0x31, 0xc0, 0x87, 0x04, 0x25]);
        code.extend(causes(nic as u64).to_le_bytes());
        code.extend([0x01, 0x47, 4 * place]);
    }
    code.extend([0xeb, 0u8.wrapping_sub(26)]);
    code
}

/// A device whose only register is ICR: a read takes the causes and lowers the line.
struct Fake {
    bar: u64,
    state: Arc<Fall>,
}

struct Fall {
    pin: Arc<Pin>,
    causes: AtomicU32,
    reads: AtomicU32,
    level: Mutex<()>,
}

impl Fall {
    fn raise(&self, causes: u32) {
        let _level = self.level.lock().expect("no panic");
        self.causes.fetch_or(causes, Ordering::SeqCst);
        self.pin.set(true);
    }
}

impl BusDevice for Fake {
    fn config_read(&mut self, _: u16, _: &mut [u8]) {}
    fn config_write(&mut self, _: u16, _: &[u8]) {}
    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool {
        if address != self.bar + ICR {
            return false;
        }
        let _level = self.state.level.lock().expect("no panic");
        self.state.reads.fetch_add(1, Ordering::SeqCst);
        data.copy_from_slice(&self.state.causes.swap(0, Ordering::SeqCst).to_le_bytes());
        self.state.pin.set(false);
        true
    }
    fn memory_write(&mut self, _: u64, _: &[u8]) -> bool {
        false
    }
}

/// NICs whose pins have inputs.
const INPUTS: [usize; 2] = [0, 1];

/// Runs `act` with a machine with two vCPUs that run the program, and the pins of two NICs, one to each vCPU.
fn try_out(nics: [usize; 2], act: impl FnOnce(&Vm, &[Arc<Fall>; 2])) {
    let kvm = match open_kvm() {
        Ok(kvm) => kvm,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    let info = BootInfo::new(Role::Router, 2);
    let vm =
        Vm::new(&kvm, MachineConfig { name: "pins".into(), ram: 12 << 20, fib: None, group: None, info });
    let vm = Arc::new(vm.expect("a virtual machine"));
    vm.machine().ram().memory.write_slice(&program(nics), GuestAddress(vm.entry())).expect("inside RAM");
    let devices = [0, 1].map(|place: usize| {
        let nic = nics[place];
        let pin = vm.machine().irqs().pin(nic, 1 - place).expect("a pin");
        let (causes, reads) = (AtomicU32::new(0), AtomicU32::new(0));
        let state = Arc::new(Fall { pin, causes, reads, level: Mutex::default() });
        let device = Fake { bar: bar_of(nic_slot(nic)), state: state.clone() };
        vm.machine().bus().insert(nic_slot(nic), Box::new(device));
        state
    });
    let threads = [0, 1].map(|index| {
        let vm = vm.clone();
        thread::spawn(move || vm.vcpu(index).expect("a vCPU").run())
    });
    act(&vm, &devices);
    vm.machine().stop();
    take_out(threads.into());
    vm.machine().bus().clear();
}

/// Signals the threads until they have ended; their program never leaves the guest by itself.
fn take_out<T>(threads: Vec<thread::JoinHandle<T>>) {
    register_signal_handler(SIGRTMIN(), nothing).expect("a handler");
    for thread in threads {
        while !thread.is_finished() {
            thread.kill(SIGRTMIN()).expect("a thread");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(thread.join().is_ok());
    }
}

extern "C" fn nothing(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

fn count(vm: &Vm, vcpu: u64, nic: u64) -> u32 {
    let place = GuestAddress(COUNTS + 16 * vcpu + 4 * nic);
    vm.machine().ram().memory.read_obj(place).expect("inside RAM")
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 60, "waited in vain for {what}");
        thread::yield_now();
    }
}

#[test]
fn a_pin_that_rises_before_its_vcpu_is_there_interrupts_it_then() {
    for nics in [INPUTS, INPUTS, [1, map::PINS + 3]] {
        try_out(nics, |vm, [first, second]| {
            // Immediately: the threads of the vCPUs have only just started.
            first.raise(1);
            second.raise(1);
            for nic in [0, 1] {
                wait_for("the first interrupt", || count(vm, 0, nic) + count(vm, 1, nic) == 1);
            }
        });
    }
}

#[test]
fn a_rising_pin_reaches_its_vcpu_each_time_and_falls_when_icr_is_read() {
    try_out(INPUTS, |vm, [first, second]| {
        let mailbox = |vcpu: usize| vm.machine().shared().mailbox[vcpu].0.load(Ordering::Acquire);
        let before = [mailbox(0), mailbox(1)];
        for turn in 1..=100 {
            first.raise(1);
            second.raise(1);
            // The handler ORs causes into the NIC's own word, on whichever vCPU it runs; both programs check
            // both words.
            wait_for("the interrupt of NIC 0", || count(vm, 0, 0) + count(vm, 1, 0) == turn);
            wait_for("the interrupt of NIC 1", || count(vm, 0, 1) + count(vm, 1, 1) == turn);
        }
        for (device, vcpu) in [(first, 1), (second, 0)] {
            let reads = device.reads.load(Ordering::SeqCst);
            // A line that falls before it is acknowledged is delivered twice on some hosts, but never more
            // often.
            assert!((100..=200).contains(&reads), "{reads} reads of ICR for 100 interrupts");
            // Incremented before each rise, and by each run of the handler that finds causes, after it has
            // stored them.
            wait_for("the handler to end", || mailbox(vcpu) - before[vcpu] >= 200);
            assert_eq!(mailbox(vcpu) - before[vcpu], 200);
        }
    });
}

#[test]
fn a_pin_without_an_input_reaches_its_vcpu_each_time() {
    try_out([map::PINS, MAX_NICS - 1], |vm, [first, second]| {
        for turn in 1..=100 {
            first.raise(1);
            second.raise(1);
            for place in [0, 1] {
                wait_for("the interrupt", || count(vm, 0, place) + count(vm, 1, place) == turn);
            }
        }
        assert!([first, second].iter().all(|device| device.reads.load(Ordering::SeqCst) >= 100));
    });
}
