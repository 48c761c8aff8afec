//! Virtual machine run by KVM.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bootinfo::{Desk, Environment, Misdeed, Role, map};
use kvm_bindings::{CpuId, KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VmFd};
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion};

use crate::boot;
use crate::cpuid;
use crate::firmware::Firmware;
use crate::machine::{self, GroupMemory, Machine, MachineConfig, Memory};
use crate::memory::{GuestRam, SharedMemory};
use crate::steps::Steps;
use crate::vcpu::{self, Entry, Vcpu};

/// One virtual machine.
pub struct Vm {
    fd: Arc<VmFd>,
    machine: Arc<Machine>,
    entry: Entry,
    cpuid: CpuId,
    /// The steps in which it was made.
    steps: Steps,
    /// How long it took to create the first vCPU, once that is done.
    vcpu_took: OnceLock<Duration>,
}

impl Vm {
    /// Creates a virtual machine, ready for its devices. Opens nothing: everything comes from `kvm`.
    pub fn new(kvm: &Kvm, config: MachineConfig) -> Result<Self> {
        let mut steps = Steps::begin();
        let fd = Arc::new(kvm.create_vm().context("KVM cannot make a virtual machine")?);
        steps.end("create");
        let misdeed = (config.info.role, config.info.misdeed);
        let firmware = Firmware::of(&config.info);
        let memory = Memory::new(config, Environment::Kvm)?;
        map_ram(&fd, &memory.ram)?;
        if let Some(fib) = &memory.fib {
            map_read_only(&fd, (1, map::FIB), fib)?;
        }
        if let Some(GroupMemory { neighbours, desk }) = &memory.group {
            map_read_only(&fd, (2, map::NEIGHBOURS), neighbours)?;
            set_region(&fd, (3, 0), map::DESK, (desk.as_ptr(), Desk::LEN as u64))?;
        }
        steps.end("memory");
        // After the memory: each change of the memory map once there is an interrupt controller waits for the
        // readers of KVM's bus tables, which takes many times as long as before.
        fd.set_tss_address(0xfffb_d000).context("KVM_SET_TSS_ADDR")?;
        fd.create_irq_chip().context("KVM cannot make an interrupt controller (KVM_CREATE_IRQCHIP)")?;
        steps.end("irqchip");
        let fib = memory.fib.as_ref().map_or(0, |fib| fib.len() as u64);
        let group = memory.group.as_ref().map_or(0, |group| group.neighbours.len() as u64);
        let entry = Entry {
            address: boot::load(&memory.ram, firmware.image(), fib, group)?,
            handles_exceptions: misdeed != (Role::Hostile as u32, Misdeed::TripleFault as u32),
        };
        steps.end("image");
        let cpuid = cpuid::of_guests(kvm)?;
        let machine = Machine::new(memory, Some(fd.clone()))?;
        steps.end("lines");
        Ok(Self { fd, machine, entry, cpuid, steps, vcpu_took: OnceLock::new() })
    }

    /// Returns the steps in which it was made: creating it, its memory, the interrupt controller, the firmware's image, the
    /// interrupt lines.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// Returns how long it took to create the first vCPU, once that is done.
    pub fn vcpu_took(&self) -> Option<Duration> {
        self.vcpu_took.get().copied()
    }

    /// Creates vCPU `index`; to be called on the thread that will run it.
    pub fn vcpu(&self, index: usize) -> Result<Vcpu> {
        let begun = Instant::now();
        let exits = self.machine.exits().get(index).context("there is no such vCPU")?.clone();
        let fd =
            self.fd.create_vcpu(index as u64).with_context(|| format!("KVM cannot make vCPU {index}"))?;
        fd.set_cpuid2(&self.cpuid).context("KVM_SET_CPUID2")?;
        let khz = fd.get_tsc_khz().context("KVM does not tell the time-stamp counter's frequency")?;
        machine::write_tsc_khz(self.machine.ram(), u64::from(khz))?;
        vcpu::enter_firmware(&fd, index, &self.entry)?;
        self.machine.irqs().open(index);
        let coalesced = self.machine.coalesced().clone();
        coalesced.map(&fd);
        let (bus, stop) = (self.machine.bus().clone(), self.machine.stop_sign().clone());
        // Only that of the first one is kept.
        let _ = self.vcpu_took.set(begun.elapsed());
        let ram = self.machine.ram().clone();
        Ok(Vcpu { fd, index, ram, bus, coalesced, exits, stop })
    }

    /// Returns the firmware's entry point.
    #[cfg(test)]
    pub(crate) fn entry(&self) -> u64 {
        self.entry.address
    }

    /// Returns its machine.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }
}

/// Opens KVM, or returns the reason in one line.
pub fn open_kvm() -> Result<Kvm> {
    let kvm = Kvm::new().map_err(|error| match error.errno() {
        libc::ENOENT => anyhow::anyhow!("there is no /dev/kvm: this host offers no hardware virtualisation"),
        libc::EACCES | libc::EPERM => {
            anyhow::anyhow!("no permission to open /dev/kvm: run as root or join group kvm")
        }
        _ => anyhow::anyhow!("cannot open /dev/kvm: {error}"),
    })?;
    check_version(&kvm)?;
    Ok(kvm)
}

/// Adopts KVM by a descriptor of `/dev/kvm` that another process opened.
///
/// # Errors
/// It is not a descriptor of KVM.
pub fn adopt_kvm(device: OwnedFd) -> Result<Kvm> {
    // SAFETY: the descriptor is open and has no other owner. Whether it is KVM shows in the answer to the
    // first request, which any other device refuses.
    let kvm = unsafe { Kvm::from_raw_fd(device.into_raw_fd()) };
    check_version(&kvm)?;
    Ok(kvm)
}

fn check_version(kvm: &Kvm) -> Result<()> {
    let version = kvm.get_api_version();
    ensure!(version == 12, "/dev/kvm speaks API version {version}, this program needs 12");
    Ok(())
}

pub(crate) fn map_ram(fd: &VmFd, ram: &GuestRam) -> Result<()> {
    for (slot, region) in (0..).zip(ram.memory.iter()) {
        let address = ram.memory.get_host_address(region.start_addr()).context("guest RAM is not mapped")?;
        set_region(fd, (slot, 0), region.start_addr().0, (address, region.len()))?;
    }
    Ok(())
}

fn map_read_only(fd: &VmFd, (slot, guest): (u32, u64), memory: &SharedMemory) -> Result<()> {
    set_region(fd, (slot, KVM_MEM_READONLY), guest, (memory.as_ptr(), memory.len() as u64))
}

fn set_region(fd: &VmFd, (slot, flags): (u32, u32), guest: u64, (host, len): (*mut u8, u64)) -> Result<()> {
    let region = kvm_userspace_memory_region {
        slot,
        flags,
        guest_phys_addr: guest,
        memory_size: len,
        userspace_addr: host as u64,
    };
    // SAFETY: the range is mapped. `Vm` drops its descriptor before the machine that keeps RAM and
    // tables, and all other holders of the descriptor (lines, doorbells) are parts of that machine and run no
    // guest.
    unsafe { fd.set_user_memory_region(region) }.with_context(|| {
        format!("KVM does not take {len} octets of memory at {guest:#x} (vm {})", fd.as_raw_fd())
    })
}

#[cfg(test)]
mod tests;
