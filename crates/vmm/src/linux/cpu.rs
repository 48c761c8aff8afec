//! vCPU of a Linux guest: its initial state and its run loop. CPUs other than the first wait in KVM for their
//! start-up IPI.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire};

use anyhow::{Context, Result, anyhow};
use kvm_bindings::{Msrs, kvm_dtable, kvm_msr_entry, kvm_regs};
use kvm_ioctls::{VcpuExit, VcpuFd};
use ledger::VcpuExits;

use super::End;
use super::load::{GDT, GDT_ENTRIES, PML4, STACK_TOP, ZERO_PAGE};
use super::ports::Ports;
use crate::bus::Bus;
use crate::coalesced::CoalescedMmio;
use crate::vcpu::{CR0_PAGED_PROTECTED, Stopped, segment};

const CODE: u16 = 0x10;
const DATA: u16 = 0x18;
const CR4_PAE: u64 = 1 << 5;
const EFER_LONG: u64 = 1 << 8 | 1 << 10;
/// Only the bit that is always set; interrupts are disabled.
const RFLAGS: u64 = 2;
/// Entries of the local vector table, as firmware leaves them: the 8259s, and NMI.
const LVT_LINT0: (usize, u32) = (0x350, 0x700);
const LVT_LINT1: (usize, u32) = (0x360, 0x400);
/// Model-specific registers: default memory type is write-back; fast string instructions are on.
const MTRR_DEFAULT: (u32, u64) = (0x2ff, 1 << 11 | 6);
const MISC_ENABLE: (u32, u64) = (0x1a0, 1);

/// A vCPU that is ready to run.
pub struct Cpu {
    pub(super) fd: VcpuFd,
    pub(super) bus: Arc<Bus>,
    pub(super) ports: Arc<Ports>,
    pub(super) coalesced: Arc<CoalescedMmio>,
    pub(super) exits: Arc<VcpuExits>,
    pub(super) stop: Arc<AtomicBool>,
}

/// Sets the state in which a PC's firmware leaves every CPU.
pub(super) fn prepare(fd: &VcpuFd) -> Result<()> {
    for (index, data) in [MTRR_DEFAULT, MISC_ENABLE] {
        let entry = kvm_msr_entry { index, data, ..Default::default() };
        let msrs = Msrs::from_entries(&[entry]).context("too many registers")?;
        // A CPU that lacks one of these works without.
        fd.set_msrs(&msrs).context("KVM_SET_MSRS")?;
    }
    let mut apic = fd.get_lapic().context("KVM_GET_LAPIC")?;
    for (place, value) in [LVT_LINT0, LVT_LINT1] {
        for (octet, value) in apic.regs[place..].iter_mut().zip(value.to_le_bytes()) {
            *octet = value as i8;
        }
    }
    fd.set_lapic(&apic).context("KVM_SET_LAPIC")
}

/// Sets the first CPU to the kernel's 64-bit entry.
pub(super) fn enter_kernel(fd: &VcpuFd, entry: u64) -> Result<()> {
    let mut sregs = fd.get_sregs().context("KVM_GET_SREGS")?;
    (sregs.cr0, sregs.cr3, sregs.cr4) = (CR0_PAGED_PROTECTED, PML4, CR4_PAE);
    sregs.efer = EFER_LONG;
    sregs.cs = segment(CODE, 11, 0, true);
    let data = segment(DATA, 3, 0, false);
    (sregs.ss, sregs.ds, sregs.es, sregs.fs, sregs.gs) = (data, data, data, data, data);
    let limit = size_of_val(&GDT_ENTRIES) as u16 - 1;
    sregs.gdt = kvm_dtable { base: GDT, limit, ..Default::default() };
    sregs.idt = kvm_dtable::default();
    fd.set_sregs(&sregs).context("KVM_SET_SREGS")?;
    let regs = kvm_regs { rip: entry, rsp: STACK_TOP, rsi: ZERO_PAGE, rflags: RFLAGS, ..Default::default() };
    fd.set_regs(&regs).context("KVM_SET_REGS")
}

impl Cpu {
    /// Runs the guest until it is told to stop or ends by itself.
    pub fn run(&mut self) -> Stopped {
        while !self.stop.load(Acquire) {
            match self.step() {
                Ok(None) => {}
                Ok(Some(End::Off)) => return Stopped::Off,
                Ok(Some(End::Reset)) => return Stopped::Fault("the guest reset itself".to_owned()),
                Ok(Some(End::Panic(reason))) => {
                    return Stopped::Fault(format!("the guest's kernel panicked: {reason}"));
                }
                Err(fault) => return Stopped::Fault(format!("{fault:#}")),
            }
        }
        Stopped::Asked
    }

    fn step(&mut self) -> Result<Option<End>> {
        let exit = match self.fd.run() {
            Ok(exit) => exit,
            Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {
                self.exits.interrupted.add(1);
                return Ok(None);
            }
            Err(error) if error.errno() == libc::EFAULT => {
                return Err(anyhow!("a page of its memory is gone (KVM_RUN: {error})"));
            }
            Err(error) => return Err(anyhow!("KVM_RUN failed: {error}")),
        };
        // Collected stores take effect before any other access.
        self.coalesced.drain();
        match exit {
            VcpuExit::MmioRead(address, data) => self.bus.read(address, data, &self.exits),
            VcpuExit::MmioWrite(address, data) => self.bus.write(address, data, &self.exits),
            VcpuExit::IoIn(port, data) => self.ports.read(port, data, &self.exits),
            VcpuExit::IoOut(port, data) => return Ok(self.ports.write(port, data, &self.exits)),
            VcpuExit::Hlt => self.exits.halt.add(1),
            VcpuExit::Intr | VcpuExit::IrqWindowOpen => self.exits.interrupted.add(1),
            // A shutdown (triple fault) resets a PC, whose firmware would start it again.
            VcpuExit::Shutdown => return Ok(Some(self.ports.reset())),
            other => {
                let reason = format!("{other:?}");
                self.exits.other.add(1);
                return Err(anyhow!("the guest left with an exit that means nothing here: {reason}"));
            }
        }
        Ok(None)
    }
}
