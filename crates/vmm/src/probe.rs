//! Measures the costs of KVM on this host: guest instructions in ring 0 and ring 3, an exit to user space, a
//! doorbell, a store that the kernel collects.
//!
//! Each figure is measured with a guest of a few instructions, a loop that ends with a store to `DONE`. All
//! of them together take some tens of milliseconds, even on a host that emulates ring 0.

mod clock;

use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs, kvm_segment, kvm_userspace_memory_region};
use kvm_ioctls::{IoEventAddress, Kvm, NoDatamatch, VcpuExit, VcpuFd, VmFd};
use ring::Region;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub use clock::tsc_khz;

use crate::memory::SharedMemory;
use crate::vm::open_kvm;

/// Guest RAM: page tables and code.
const RAM: usize = 2 << 20;
const PML4: u64 = 0x2000;
const PDPT: u64 = 0x3000;
const PAGE_DIRECTORY: u64 = 0x4000;
const CODE: u64 = 0x10_0000;
/// Stores here are exits, or signal a doorbell, or are collected.
const DOORBELL: u64 = 0x1000_0000;
/// A store here ends the guest.
const DONE: u64 = 0x1000_1000;
/// Present, writable, for ring 3.
const TABLE: u64 = 7;
/// Present, writable, for ring 3, and a page of 2 MiB.
const LARGE_PAGE: u64 = 0x87;
/// Iterations before the measurement, which may be slow because of page faults on the host's side.
const WARM_UP: u64 = 16;
/// Repetitions of each loop, of which the fastest counts: the others were disturbed.
const REPETITIONS: u32 = 5;

/// Threshold for emulation: a host that runs guest ring 0 in hardware needs about a nanosecond where an
/// emulating one needs a microsecond.
const EMULATED_NS: f64 = 100.0;
/// Threshold for emulation as a multiple of the cost in ring 3.
const EMULATED_RATIO: f64 = 20.0;

/// Measured costs.
#[derive(Clone, Copy, Debug)]
pub struct KvmCosts {
    /// One iteration (two instructions) of a loop in guest ring 0, in nanoseconds.
    pub ring0_ns: f64,
    /// One iteration of that loop in guest ring 3, in nanoseconds.
    pub ring3_ns: f64,
    /// A store that exits to user space, and back, in microseconds.
    pub mmio_us: f64,
    /// A store from guest ring 0 that exits to user space, and back, in microseconds: less where ring 0 is
    /// emulated, because the vCPU is in the host already.
    pub mmio_ring0_us: f64,
    /// A store that signals an eventfd in the kernel (ioeventfd), in microseconds.
    pub kick_us: f64,
    /// A store that the kernel collects (coalesced MMIO), in microseconds; costs an exit where the host does
    /// not support it.
    pub coalesced_us: f64,
}

impl KvmCosts {
    /// Returns true if this host emulates guest ring 0 instruction by instruction.
    pub fn ring0_is_emulated(&self) -> bool {
        self.ring0_ns > EMULATED_NS
    }
}

/// Measures all costs, on the calling thread.
///
/// # Errors
/// One line: KVM cannot be opened, or a guest did not end as it should.
pub fn kvm_costs() -> Result<KvmCosts> {
    let kvm = open_kvm()?;
    let run = |guest: &Guest| guest.measure(&kvm);
    Ok(KvmCosts {
        ring0_ns: run(&Guest { ring: 0, stores: None, iterations: 1_000 })?,
        ring3_ns: run(&Guest { ring: 3, stores: None, iterations: 1_000_000 })?,
        mmio_us: run(&Guest { ring: 3, stores: Some(Answer::Exit), iterations: 200 })? / 1000.0,
        mmio_ring0_us: run(&Guest { ring: 0, stores: Some(Answer::Exit), iterations: 200 })? / 1000.0,
        kick_us: run(&Guest { ring: 3, stores: Some(Answer::Doorbell), iterations: 400 })? / 1000.0,
        // Fewer than the kernel's ring holds: with a full ring a store is an exit.
        coalesced_us: run(&Guest { ring: 3, stores: Some(Answer::Collected), iterations: 128 })? / 1000.0,
    })
}

/// Returns whether this host emulates guest ring 0 instruction by instruction; measures on the calling
/// thread.
///
/// # Errors
/// One line: KVM cannot be opened, or a guest did not end as it should.
pub fn ring0_is_emulated() -> Result<bool> {
    let kvm = open_kvm()?;
    let ring = |ring| Guest { ring, stores: None, iterations: 20_000 }.measure(&kvm);
    let (inner, outer) = (ring(0)?, ring(3)?);
    // In a host that is emulated itself both are equally slow.
    Ok(inner > EMULATED_NS && inner > EMULATED_RATIO * outer)
}

/// A guest that runs a loop.
struct Guest {
    /// Privilege level.
    ring: u8,
    /// Handling of the store to [`DOORBELL`] in each iteration; `None`: no store.
    stores: Option<Answer>,
    iterations: u64,
}

/// Handling of a store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// User space.
    Exit,
    /// An ioeventfd.
    Doorbell,
    /// The ring of coalesced MMIO.
    Collected,
}

impl Guest {
    /// Returns the nanoseconds per iteration of the fastest repetition.
    fn measure(&self, kvm: &Kvm) -> Result<f64> {
        let ram = SharedMemory::sparse("ringroad-probe", RAM)?;
        let vm = kvm.create_vm().context("KVM cannot make a virtual machine")?;
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: ram.len() as u64,
            userspace_addr: ram.as_ptr() as u64,
        };
        // SAFETY: the range is mapped by `ram`, which was made before `vm` and so is dropped after it, and after
        // the vCPU below, which alone runs the guest.
        unsafe { vm.set_user_memory_region(region) }.context("KVM_SET_USER_MEMORY_REGION")?;
        // SAFETY: the same mapping; no reference to its content is made here or anywhere else.
        let memory = unsafe { Region::new(ram.as_ptr(), 0, ram.len() as u64) };
        let _bell = if self.stores == Some(Answer::Doorbell) { Some(doorbell(&vm)?) } else { None };
        let mut vcpu = vm.create_vcpu(0).context("KVM cannot make a vCPU")?;
        let collected = self.stores == Some(Answer::Collected) && collect(&vm, &mut vcpu);
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).context("KVM_GET_SUPPORTED_CPUID")?;
        vcpu.set_cpuid2(&cpuid).context("KVM_SET_CPUID2")?;
        load(&memory, &self.code())?;
        enter(&vcpu, self.ring, WARM_UP)?;
        run_to_end(&mut vcpu)?;
        finish_exit(&mut vcpu)?;
        let mut best = f64::INFINITY;
        for _ in 0..REPETITIONS {
            if collected {
                throw_away(&mut vcpu)?;
            }
            enter(&vcpu, self.ring, self.iterations)?;
            let start = Instant::now();
            run_to_end(&mut vcpu)?;
            best = best.min(start.elapsed().as_nanos() as f64 / self.iterations as f64);
            finish_exit(&mut vcpu)?;
        }
        Ok(best)
    }

    /// The loop: `rcx` iterations, `rbx` holds [`DOORBELL`], `rdx` holds [`DONE`].
    fn code(&self) -> Vec<u8> {
        let store: &[u8] = if self.stores.is_some() { &[0x89, 0x03] } else { &[] }; // mov [rbx], eax
        let back = -(5 + store.len() as i8);
        let count = [0x48, 0xff, 0xc9, 0x75, back as u8]; // dec rcx; jnz
        let done = [0x89, 0x02, 0xeb, 0xfc]; // mov [rdx], eax; jmp to it again
        [store, &count, &done].concat()
    }
}

fn doorbell(vm: &VmFd) -> Result<EventFd> {
    let bell = EventFd::new(EFD_NONBLOCK).context("eventfd")?;
    // Four octets wide, like the store of the loop.
    vm.register_ioevent(&bell, &IoEventAddress::Mmio(DOORBELL), NoDatamatch).context("KVM_IOEVENTFD")?;
    Ok(bell)
}

/// Has the kernel collect the stores of the loop; returns false if this host does not support it.
fn collect(vm: &VmFd, vcpu: &mut VcpuFd) -> bool {
    vm.register_coalesced_mmio(IoEventAddress::Mmio(DOORBELL), 4).is_ok()
        && vcpu.map_coalesced_mmio_ring().is_ok()
}

/// Empties the kernel's ring.
fn throw_away(vcpu: &mut VcpuFd) -> Result<()> {
    while vcpu.coalesced_mmio_read().context("the ring of collected stores")?.is_some() {}
    Ok(())
}

/// Writes page tables that map the first GiB one to one, also for ring 3, and the code.
fn load(memory: &Region, code: &[u8]) -> Result<()> {
    let small = || anyhow!("the probe's guest memory is too small");
    let entry = |address: u64, value: u64| {
        let written = memory.bytes(address, 8).is_some_and(|word| word.write(0, value.to_le_bytes()));
        if written { Ok(()) } else { Err(small()) }
    };
    entry(PML4, PDPT | TABLE)?;
    entry(PDPT, PAGE_DIRECTORY | TABLE)?;
    for page in 0..512 {
        entry(PAGE_DIRECTORY + 8 * page, page << 21 | LARGE_PAGE)?;
    }
    memory.bytes(CODE, code.len() as u32).ok_or_else(small)?.copy_from_slice(code);
    Ok(())
}

/// Sets the vCPU to the start of the loop, in 64-bit mode.
fn enter(vcpu: &VcpuFd, ring: u8, iterations: u64) -> Result<()> {
    let mut sregs = vcpu.get_sregs().context("KVM_GET_SREGS")?;
    // Protected mode with paging, physical address extension and SSE, long mode (AMD64 manual, volume 2, 3.1).
    (sregs.cr0, sregs.cr3, sregs.cr4, sregs.efer) = (0x8005_0033, PML4, 0x620, 0x500);
    let selectors = if ring == 0 { (0x08, 0x10) } else { (0x1b, 0x23) };
    sregs.cs = segment(selectors.0, ring, 11);
    let data = segment(selectors.1, ring, 3);
    (sregs.ss, sregs.ds, sregs.es, sregs.fs, sregs.gs) = (data, data, data, data, data);
    vcpu.set_sregs(&sregs).context("KVM_SET_SREGS")?;
    let regs =
        kvm_regs { rip: CODE, rcx: iterations, rbx: DOORBELL, rdx: DONE, rflags: 2, ..kvm_regs::default() };
    vcpu.set_regs(&regs).context("KVM_SET_REGS")
}

fn segment(selector: u16, dpl: u8, type_: u8) -> kvm_segment {
    let code = u8::from(type_ & 8 != 0);
    kvm_segment {
        limit: u32::MAX,
        selector,
        type_,
        present: 1,
        dpl,
        db: 1 - code,
        s: 1,
        l: code,
        g: 1,
        ..kvm_segment::default()
    }
}

/// Has KVM complete the store that caused the exit, which it does on the next run; only then may registers be
/// set (KVM API, 5 "The kvm_run structure").
fn finish_exit(vcpu: &mut VcpuFd) -> Result<()> {
    vcpu.set_kvm_immediate_exit(1);
    let outcome = vcpu.run().map(|exit| format!("{exit:?}"));
    vcpu.set_kvm_immediate_exit(0);
    match outcome {
        Err(error) if error.errno() == libc::EINTR => Ok(()),
        Err(error) => Err(error).context("KVM_RUN"),
        Ok(exit) => bail!("KVM ran the probe's guest although it was told not to: {exit}"),
    }
}

fn run_to_end(vcpu: &mut VcpuFd) -> Result<()> {
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(DONE, _)) => return Ok(()),
            Ok(VcpuExit::MmioWrite(DOORBELL, _)) => {}
            Ok(exit) => bail!("the probe's guest left its loop: {exit:?}"),
            Err(error) if error.errno() == libc::EINTR || error.errno() == libc::EAGAIN => {}
            Err(error) => return Err(error).context("KVM_RUN"),
        }
    }
}

#[cfg(test)]
mod tests;
