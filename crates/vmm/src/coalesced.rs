//! Stores to a device register that the kernel collects instead of exiting for each (coalesced MMIO).
//!
//! ```text
//!   driver: store TDT --> kernel: ring page of the VM --> I/O thread, in each pass
//!                                                    \--> any vCPU, before any other access is carried out
//! ```
//!
//! A collected store wakes no thread. So the kernel collects only while an I/O thread polls: before the
//! thread sleeps it unregisters the zone, drains the ring, and then goes to sleep as if there were no zone.
//! Unregistering costs as much as many exits (it waits for the readers of KVM's bus tables), so a thread
//! keeps polling for [`PATIENCE`] first. Stores and other accesses keep their order, because a thread that
//! carries an access out drains the ring before; the stores of one thread are in order by themselves. A full
//! ring makes a store an exit again.

use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kvm_bindings::{KVM_COALESCED_MMIO_PAGE_OFFSET, kvm_coalesced_mmio, kvm_coalesced_mmio_ring};
use kvm_ioctls::{IoEventAddress, VcpuFd, VmFd};
use ledger::E1000Registers;
use nic_port::StoreCoalescing;
use port::Clock;
use ring::e1000::HeadTail;

/// Time for which a thread polls without work before it unregisters its zone.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);
/// Octets of the ring's page on this architecture.
const PAGE: usize = 4096;
/// Entries of the ring.
const ENTRIES: u32 = ((PAGE - size_of::<kvm_coalesced_mmio_ring>()) / size_of::<kvm_coalesced_mmio>()) as u32;
/// Octets of a register.
const REGISTER: u32 = 4;

/// Ring page of one VM, and the meaning of its entries.
#[derive(Default)]
pub(crate) struct CoalescedMmio {
    /// KVM's handle; `None` without KVM.
    vm: Option<Arc<VmFd>>,
    page: OnceLock<Option<Page>>,
    /// Locked while the ring is drained: entries take effect in order.
    zones: Mutex<Vec<Zone>>,
}

/// A register whose stores may be collected (KVM calls this a zone).
struct Zone {
    address: u64,
    tail: Tail,
    registers: Arc<E1000Registers>,
}

/// Tail of a transmit ring.
#[derive(Clone)]
pub(crate) struct Tail {
    pub(crate) ends: Arc<HeadTail>,
    /// Number of ring entries; a tail beyond them is ignored.
    pub(crate) entries: u16,
}

impl CoalescedMmio {
    pub(crate) fn new(vm: Option<Arc<VmFd>>) -> Self {
        Self { vm, ..Self::default() }
    }

    /// Maps the ring, once, with any vCPU's descriptor. If the host has no such ring, every store is an exit.
    pub(crate) fn map(&self, vcpu: &VcpuFd) {
        self.page.get_or_init(|| Page::map(vcpu));
    }

    fn page(&self) -> Option<&Page> {
        self.page.get()?.as_ref()
    }

    /// Applies the collected stores. Cheap if there are none.
    #[inline]
    pub(crate) fn drain(&self) {
        if let Some(page) = self.page()
            && !page.is_empty()
        {
            self.drain_page(page);
        }
    }

    #[cold]
    fn drain_page(&self, page: &Page) {
        let zones = self.zones();
        // At most as many as the ring holds: later ones may wait for the next call.
        for _ in 0..ENTRIES {
            let Some(entry) = page.first() else { return };
            carry_out(&zones, &entry);
            // Advance after the effect: a thread that finds the ring empty can rely on it.
            page.advance();
        }
    }

    fn zones(&self) -> MutexGuard<'_, Vec<Zone>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the kernel collect stores to this register; returns false if it does not.
    fn register(&self, address: u64) -> bool {
        let vm = self.vm.as_ref().filter(|_| self.page().is_some());
        vm.is_some_and(|vm| vm.register_coalesced_mmio(IoEventAddress::Mmio(address), REGISTER).is_ok())
    }

    /// Undoes [`Self::register`]; when it returns, all collected stores have taken effect.
    fn unregister(&self, address: u64) {
        if let Some(vm) = &self.vm {
            // It was registered with exactly these arguments.
            let _ = vm.unregister_coalesced_mmio(IoEventAddress::Mmio(address), REGISTER);
        }
        self.drain();
    }
}

/// Applies a store to TDT to a running ring.
fn carry_out(zones: &[Zone], entry: &kvm_coalesced_mmio) {
    let zone = zones.iter().find(|zone| zone.address == entry.phys_addr);
    if let Some(zone) = zone.filter(|_| entry.len == REGISTER) {
        let [a, b, ..] = entry.data;
        let position = u16::from_le_bytes([a, b]);
        if position < zone.tail.entries {
            zone.tail.ends.set_tail(position);
        }
        zone.registers.coalesced_tdt.add(1);
    }
}

/// The ring page that the kernel fills.
struct Page(NonNull<kvm_coalesced_mmio_ring>);

// SAFETY: the page is mapped for as long as this exists; its words are only used as atomics, and an entry is
// read after the kernel has published it and before it is given back, under the lock of `CoalescedMmio`.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn map(vcpu: &VcpuFd) -> Option<Self> {
        let offset = i64::from(KVM_COALESCED_MMIO_PAGE_OFFSET) * PAGE as i64;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of a page of KVM's at an address that the kernel chooses; an error is
        // returned as such.
        let page =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, vcpu.as_raw_fd(), offset) };
        (page != libc::MAP_FAILED).then(|| NonNull::new(page.cast()).map(Self))?
    }

    /// Returns the indices of the first entry, and of the one after the last.
    fn ends(&self) -> [&AtomicU32; 2] {
        // SAFETY: the page is mapped, and these words are only used as atomics here and by the kernel.
        unsafe {
            [
                AtomicU32::from_ptr(&raw mut (*self.0.as_ptr()).first),
                AtomicU32::from_ptr(&raw mut (*self.0.as_ptr()).last),
            ]
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        let [first, last] = self.ends();
        first.load(Ordering::Acquire) == last.load(Ordering::Acquire)
    }

    /// Returns the first entry, if there is one.
    fn first(&self) -> Option<kvm_coalesced_mmio> {
        let [first, last] = self.ends().map(|end| end.load(Ordering::Acquire));
        if first == last || first >= ENTRIES {
            return None;
        }
        // SAFETY: the page has room for `ENTRIES` of them behind its header; the kernel does not touch this
        // one before `advance`. Every bit pattern is a valid entry.
        Some(unsafe { self.0.add(1).cast::<kvm_coalesced_mmio>().add(first as usize).read_volatile() })
    }

    /// Returns the first entry to the kernel.
    fn advance(&self) {
        let [first, _] = self.ends();
        first.store((first.load(Ordering::Relaxed) + 1) % ENTRIES, Ordering::Release);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and no references to it exist any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PAGE) };
    }
}

/// Collects the stores to TDT of one NIC, between its registers and the thread that sends its frames.
pub(crate) struct Collector {
    coalesced: Arc<CoalescedMmio>,
    registers: Arc<E1000Registers>,
    /// Locked by the thread that starts or stops the collection; the ring's lock is acquired after it.
    state: Mutex<State>,
    /// True while the kernel collects; for polling threads.
    active: AtomicBool,
    clock: Clock,
}

struct State {
    /// Address of the register, while the transmitter runs.
    address: Option<u64>,
    /// Time of the last work, by `clock`.
    worked: u64,
}

impl Collector {
    pub(crate) fn new(coalesced: Arc<CoalescedMmio>, registers: Arc<E1000Registers>) -> Self {
        Self::by(Clock::default(), coalesced, registers)
    }

    /// Creates a collector with this clock.
    fn by(clock: Clock, coalesced: Arc<CoalescedMmio>, registers: Arc<E1000Registers>) -> Self {
        let state = Mutex::new(State { address: None, worked: clock.now() });
        Self { coalesced, registers, state, active: AtomicBool::new(false), clock }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the address of TDT and the ring whose tail it moves: when the ring has started or the register
    /// has moved, or `None` when it has stopped. Stores collected before have taken effect when this returns.
    pub(crate) fn place(&self, place: Option<(u64, Tail)>) {
        let mut state = self.lock();
        self.stop(&state);
        let mut zones = self.coalesced.zones();
        if let Some(address) = state.address.take() {
            zones.retain(|zone| zone.address != address);
        }
        if let Some((address, tail)) = place {
            zones.push(Zone { address, tail, registers: self.registers.clone() });
            state.address = Some(address);
        }
    }

    /// Returns true while the kernel collects, so that stopping it would be costly.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    fn stop(&self, state: &State) {
        if self.is_active()
            && let Some(address) = state.address
        {
            self.coalesced.unregister(address);
            self.active.store(false, Ordering::Release);
        }
    }
}

impl StoreCoalescing for Collector {
    #[inline]
    fn look(&self) {
        if self.is_active() {
            self.coalesced.drain();
        }
    }

    #[inline]
    fn worked(&self) {
        let mut state = self.lock();
        state.worked = self.clock.now();
        if !self.is_active()
            && let Some(address) = state.address
        {
            self.active.store(self.coalesced.register(address), Ordering::Release);
        }
    }

    fn rest(&self) -> bool {
        let state = self.lock();
        let idle = Duration::from_nanos(self.clock.now().saturating_sub(state.worked));
        if self.is_active() && idle < PATIENCE {
            return false;
        }
        self.stop(&state);
        true
    }

    fn end(&self) {
        self.stop(&self.lock());
    }
}

#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../fuzz/bodies/coalesced.rs"]
pub(crate) mod fuzzed;
#[cfg(test)]
mod tests;
