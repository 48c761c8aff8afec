//! One vCPU: its first registers and its run loop.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bootinfo::{Line, Shared, map};
use kvm_bindings::{KVM_MP_STATE_RUNNABLE, kvm_dtable, kvm_mp_state, kvm_regs, kvm_segment};
use kvm_ioctls::{VcpuExit, VcpuFd};
use ledger::VcpuExits;

use crate::boot;
use crate::bus::Bus;
use crate::coalesced::CoalescedMmio;
use crate::memory::GuestRam;
use crate::stubs::FAULT_PORT;

pub(crate) const CR0_PAGED_PROTECTED: u64 = 0x8005_0033;
pub(crate) const CR4_PAE_SSE: u64 = 1 << 5 | 1 << 9 | 1 << 10;
pub(crate) const EFER_LONG_NX: u64 = 1 << 8 | 1 << 10 | 1 << 11;
pub(crate) const RFLAGS_INTERRUPTS: u64 = 0x202;
/// The bit of RFLAGS that is always set.
const RFLAGS_NONE: u64 = 2;
const APIC_SPURIOUS: usize = 0xf0;
/// First and longest pause between two looks of the other vCPUs whether vCPU 0 has set up the devices; each is twice as long as
/// the one before.
const LOOKS: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(5)];

/// Reason why a vCPU stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It was told to stop.
    Asked,
    /// The guest has powered itself off.
    Off,
    /// The guest caused a fatal fault, described in one line.
    Fault(String),
}

/// A vCPU that is ready to run.
pub struct Vcpu {
    pub(crate) fd: VcpuFd,
    pub(crate) index: usize,
    /// RAM with the state of vCPU 0, for which the others wait.
    pub(crate) ram: Arc<GuestRam>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) coalesced: Arc<CoalescedMmio>,
    pub(crate) exits: Arc<VcpuExits>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Entry of a firmware.
pub(crate) struct Entry {
    /// Address of its first instruction.
    pub(crate) address: u64,
    /// True if it has handlers for exceptions and interrupts. Without them, which serves to show how that
    /// ends, it runs with interrupts disabled, and its first exception is a triple fault.
    pub(crate) handles_exceptions: bool,
}

/// Sets a vCPU to the firmware's entry, in ring 3, with its own stack and its number in `rdi`.
pub(crate) fn enter_firmware(fd: &VcpuFd, vcpu: usize, entry: &Entry) -> Result<()> {
    let mut sregs = fd.get_sregs().context("KVM_GET_SREGS")?;
    sregs.cr0 = CR0_PAGED_PROTECTED;
    sregs.cr3 = boot::PML4;
    sregs.cr4 = CR4_PAE_SSE;
    sregs.efer = EFER_LONG_NX;
    sregs.cs = segment(boot::USER_CODE, 11, 3, true);
    let data = segment(boot::USER_DATA, 3, 3, false);
    (sregs.ss, sregs.ds, sregs.es, sregs.fs) = (data, data, data, data);
    // Where ring 0 finds the mailbox of its vCPU.
    sregs.gs = kvm_segment { base: mailbox(vcpu), ..data };
    sregs.gdt = kvm_dtable { base: boot::GDT, limit: boot::GDT_LEN - 1, ..Default::default() };
    let limit = if entry.handles_exceptions { 0xfff } else { 0 };
    sregs.idt = kvm_dtable { base: boot::IDT, limit, ..Default::default() };
    sregs.tr = kvm_segment {
        base: boot::TSS + boot::TSS_STRIDE * vcpu as u64,
        limit: 0x67,
        selector: boot::tss_selector(vcpu),
        type_: 11,
        present: 1,
        ..Default::default()
    };
    fd.set_sregs(&sregs).context("KVM_SET_SREGS")?;
    let regs = kvm_regs {
        rip: entry.address,
        // The stack as a C function expects it: a return address was pushed on a 16-octet boundary.
        rsp: map::STACK_TOP - map::STACK * vcpu as u64 - 8,
        rdi: vcpu as u64,
        rsi: bootinfo::ENTERED_BY_KVM,
        rflags: if entry.handles_exceptions { RFLAGS_INTERRUPTS } else { RFLAGS_NONE },
        ..Default::default()
    };
    fd.set_regs(&regs).context("KVM_SET_REGS")?;
    enable_apic(fd)?;
    // Other vCPUs than 0 would wait for a start-up IPI.
    fd.set_mp_state(kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE }).context("KVM_SET_MP_STATE")
}

/// Returns the address of a vCPU's mailbox.
fn mailbox(vcpu: usize) -> u64 {
    map::SHARED + (offset_of!(Shared, mailbox) + size_of::<Line>() * vcpu) as u64
}

pub(crate) fn segment(selector: u16, type_: u8, dpl: u8, code: bool) -> kvm_segment {
    let (l, db) = if code { (1, 0) } else { (0, 1) };
    kvm_segment { limit: u32::MAX, selector, type_, present: 1, dpl, db, s: 1, l, g: 1, ..Default::default() }
}

/// Enables the local APIC (spurious vector 0xff), which a guest's ring 0 would do by a store.
fn enable_apic(fd: &VcpuFd) -> Result<()> {
    let mut apic = fd.get_lapic().context("KVM_GET_LAPIC")?;
    for (octet, value) in apic.regs[APIC_SPURIOUS..].iter_mut().zip(0x1ffu32.to_le_bytes()) {
        *octet = value as i8;
    }
    fd.set_lapic(&apic).context("KVM_SET_LAPIC")
}

/// Has vCPU `index`, unless it is the first one, wait until the state of the first one is set, or until the stop.
fn await_first(index: usize, first: &AtomicU32, stop: &AtomicBool) {
    let [mut pause, longest] = LOOKS;
    while index > 0 && first.load(Acquire) == 0 && !stop.load(Acquire) {
        thread::sleep(pause);
        pause = longest.min(2 * pause);
    }
}

impl Vcpu {
    /// Runs the guest until it is told to stop or causes a fatal fault.
    pub fn run(&mut self) -> Stopped {
        loop {
            if self.stop.load(Acquire) {
                return Stopped::Asked;
            }
            match self.step() {
                Ok(()) => {}
                Err(fault) => return Stopped::Fault(format!("{fault:#}")),
            }
        }
    }

    /// Waits until vCPU 0 serves or has given up: it sets up the devices for all vCPUs, which would spin in the guest until
    /// then and take CPU time from it.
    pub fn await_first(&self) {
        await_first(self.index, &self.ram.shared().vcpus[0].state.0, &self.stop);
    }

    fn step(&mut self) -> Result<()> {
        let exit = match self.fd.run() {
            Ok(exit) => exit,
            Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {
                self.exits.interrupted.add(1);
                return Ok(());
            }
            Err(error) if error.errno() == libc::EFAULT => {
                return Err(anyhow!("a page of its memory is gone (KVM_RUN: {error})"));
            }
            Err(error) => return Err(anyhow!("KVM_RUN failed: {error}")),
        };
        match exit {
            VcpuExit::MmioRead(address, data) => {
                self.coalesced.drain();
                self.bus.read(address, data, &self.exits);
            }
            VcpuExit::MmioWrite(FAULT_PORT, data) => {
                let vector = data.first().copied().unwrap_or(0);
                return Err(self.fault(vector));
            }
            VcpuExit::MmioWrite(address, data) => {
                self.coalesced.drain();
                self.bus.write(address, data, &self.exits);
            }
            VcpuExit::Hlt => self.exits.halt.add(1),
            VcpuExit::Intr => self.exits.interrupted.add(1),
            VcpuExit::IoIn(port, data) => {
                self.coalesced.drain();
                self.bus.port_read(port, data, &self.exits);
            }
            VcpuExit::IoOut(port, data) => {
                self.coalesced.drain();
                self.bus.port_write(port, data, &self.exits);
            }
            VcpuExit::Shutdown => return Err(anyhow!("the guest shut down (triple fault)")),
            other => {
                let reason = format!("{other:?}");
                self.exits.other.add(1);
                return Err(anyhow!("the guest left with an exit that means nothing here: {reason}"));
            }
        }
        Ok(())
    }

    /// Describes an exception in the guest; the interrupted address is on the ring-0 stack.
    fn fault(&self, vector: u8) -> anyhow::Error {
        let place = self.fd.get_regs().map_or(0, |regs| regs.rsp);
        let has_error_code = matches!(vector, 8 | 10..=14 | 17 | 21);
        let frame = self.bus.read_ram(place + if has_error_code { 8 } else { 0 });
        let address = self.fd.get_sregs().map_or(0, |sregs| sregs.cr2);
        anyhow!("the firmware stopped with exception {vector} at {frame:#x} (cr2 {address:#x})")
    }
}

#[cfg(test)]
mod tests;
