//! The firmware as a process of the host: services that a virtual machine has by nature are requested from the
//! kernel here.
//!
//! The process starts with nothing but a socket ([`start`]), through which it receives the RAM and the route
//! table, which are mapped at the same addresses as in a virtual machine, and the bells (eventfds). From then on
//! it makes only the system calls that [`filter`] allows: a register access is left in shared memory for the
//! host, a doorbell is an eventfd, sleeping is a futex wait on the mailbox.

mod calls;
mod filter;
mod messages;
mod start;

use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};

use bootinfo::process::Step;
use bootinfo::{MAX_VCPUS, RegisterAccess, map};

use crate::boot;
use calls::Errno;

pub(crate) use calls::exit_thread;
pub(crate) use start::begin;

/// Queues of a NIC that have doorbells: one pair per vCPU.
const QUEUES: usize = 2 * MAX_VCPUS;
/// PCI slots, in each of which a NIC may be.
const SLOTS: usize = map::SLOTS;
/// Polls of a register access before this vCPU sleeps until it is done: the host takes longer unless it is
/// already working on it.
const LOOKS: u32 = 64;

/// True if this firmware is a process.
static PROCESS: AtomicBool = AtomicBool::new(false);
/// Eventfd that notifies the host of a register access.
static BUS_BELL: AtomicI32 = AtomicI32::new(0);
/// Doorbells, stored as descriptor plus one, so that 0 means none.
static DOORBELLS: [[AtomicI32; QUEUES]; SLOTS] = [const { [const { AtomicI32::new(0) }; QUEUES] }; SLOTS];

/// Step that the process could not perform, and the reason.
#[derive(Clone, Copy)]
struct Failed(Step, Errno);

/// Returns true if this firmware is a process.
#[inline]
pub(crate) fn is_running() -> bool {
    PROCESS.load(Relaxed)
}

/// Eventfd that the host waits for.
#[derive(Clone, Copy)]
pub(crate) struct Bell(i32);

impl Bell {
    /// Signals the eventfd. If its counter is full, it is already signalled.
    pub(crate) fn ring(self) {
        let _ = calls::write(self.0, &1u64.to_ne_bytes());
    }
}

/// Returns the doorbell of a queue, if it is an eventfd.
pub(crate) fn doorbell(slot: u32, queue: u16) -> Option<Bell> {
    let number = DOORBELLS.get(slot as usize)?.get(usize::from(queue))?.load(Relaxed);
    (number > 0).then_some(Bell(number - 1))
}

/// Sleeps until `word` differs from `seen`; it may also wake spuriously.
pub(crate) fn sleep(word: &AtomicU32, seen: u32) {
    calls::wait(word, seen);
}

/// Wakes all threads that sleep on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    calls::wake(word);
}

/// Reads `octets` (1, 2, 4 or 8) from the register at a guest-physical address.
pub(crate) fn read(address: u64, octets: usize) -> u64 {
    access(address, 0, octets as u32)
}

/// Writes `octets` (1, 2, 4 or 8) to the register at a guest-physical address.
pub(crate) fn write(address: u64, value: u64, octets: usize) {
    access(address, value, octets as u32 | RegisterAccess::WRITE);
}

fn access(address: u64, value: u64, shape: u32) -> u64 {
    let access = &boot::shared().vcpus[vcpu()].access;
    access.address.store(address, Relaxed);
    access.value.store(value, Relaxed);
    access.shape.store(shape, Relaxed);
    access.turn.store(RegisterAccess::ASKED, SeqCst);
    Bell(BUS_BELL.load(Relaxed)).ring();
    let mut looks = 0;
    while access.turn.load(Acquire) == RegisterAccess::ASKED {
        looks += 1;
        if looks > LOOKS {
            calls::wait(&access.turn, RegisterAccess::ASKED);
        } else {
            core::hint::spin_loop();
        }
    }
    access.value.load(Relaxed)
}

/// Number of the vCPU that runs this code, derived from its stack.
fn vcpu() -> usize {
    let stack: u64;
    // SAFETY: copies a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack, preserves_flags)) };
    ((map::STACK_TOP.saturating_sub(stack) / map::STACK) as usize).min(MAX_VCPUS - 1)
}

fn set_doorbell(slot: u32, queue: u32, descriptor: i32) -> Result<(), Failed> {
    let place = DOORBELLS.get(slot as usize).and_then(|queues| queues.get(queue as usize));
    place.ok_or(messages::NONSENSE)?.store(descriptor + 1, Release);
    Ok(())
}
