//! A firmware guest: RAM, route table, interrupt router, bus and vCPUs.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use bootinfo::{BootInfo, MAX_VCPUS, Shared, map};
use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, KVM_MEM_READONLY, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VmFd};
use ledger::VcpuExits;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

use crate::boot;
use crate::bus::Bus;
use crate::irq::{IrqLine, IrqRouter, Message};
use crate::memory::{GuestRam, SharedMemory};
use crate::stubs::INTERRUPT_VECTOR;
use crate::vcpu::{self, Vcpu};

/// The firmware image that `build.rs` made.
static FIRMWARE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/firmware"));

/// What a guest is made of.
pub struct VmConfig {
    /// Name for its memory, as `/proc/PID/maps` shows it.
    pub name: String,
    /// Octets of RAM, a multiple of 2 MiB.
    pub ram: usize,
    /// The route table, mapped read-only; several guests may share one.
    pub fib: Option<Arc<SharedMemory>>,
    /// The firmware's orders; `magic`, `ram`, `fib` and `tsc_khz` are filled in here.
    pub info: BootInfo,
}

/// One guest. The NICs are put on [`Vm::bus`] before the vCPUs run.
pub struct Vm {
    fd: Arc<VmFd>,
    ram: GuestRam,
    fib: Option<Arc<SharedMemory>>,
    irqs: Arc<IrqRouter>,
    bus: Arc<Bus>,
    entry: u64,
    vcpus: usize,
    stop: Arc<AtomicBool>,
    exits: Vec<Arc<VcpuExits>>,
    /// Lines that interrupt a vCPU for no device's sake: alarms, and to let it see the stop word.
    wakers: Vec<Arc<IrqLine>>,
    cpuid: CpuId,
}

impl Vm {
    /// Makes a guest that is ready for its devices.
    pub fn new(mut config: VmConfig) -> Result<Arc<Self>> {
        let kvm = open_kvm()?;
        let fd = Arc::new(kvm.create_vm().context("KVM cannot make a virtual machine")?);
        let ram = GuestRam::new(&config.name, config.ram)?;
        map_ram(&fd, &ram)?;
        if let Some(fib) = &config.fib {
            map_read_only(&fd, fib)?;
        }
        // After the memory: each change of the memory map behind an interrupt controller waits for the readers of
        // KVM's bus tables, 4 to 7 ms (measured); before it, 0.1 ms.
        fd.set_tss_address(0xfffb_d000).context("KVM_SET_TSS_ADDR")?;
        fd.create_irq_chip().context("KVM cannot make an interrupt controller (KVM_CREATE_IRQCHIP)")?;
        config.info.magic = bootinfo::MAGIC;
        config.info.ram = ram.len() as u64;
        config.info.fib = config.fib.as_ref().map_or(0, |fib| fib.len() as u64);
        let vcpus = config.info.vcpus as usize;
        ensure!((1..=MAX_VCPUS).contains(&vcpus), "a router has 1 to {MAX_VCPUS} vCPUs, not {vcpus}");
        let entry = boot::load(&ram, FIRMWARE, &config.info)?;
        let irqs = Arc::new(IrqRouter::new(fd.clone(), mailboxes(&ram)?));
        let bus = Bus::new(ram.region());
        let exits = (0..vcpus).map(|_| Arc::default()).collect();
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).context("KVM_GET_SUPPORTED_CPUID")?;
        let stop = Arc::default();
        let wakers = (0..vcpus).map(|vcpu| waker(&irqs, vcpu)).collect::<Result<_>>()?;
        Ok(Arc::new(Self { wakers, fd, ram, fib: config.fib, irqs, bus, entry, vcpus, stop, exits, cpuid }))
    }

    /// Makes vCPU `index`; call it in the thread that will run it.
    pub fn vcpu(&self, index: usize) -> Result<Vcpu> {
        let fd =
            self.fd.create_vcpu(index as u64).with_context(|| format!("KVM cannot make vCPU {index}"))?;
        fd.set_cpuid2(&self.cpuid).context("KVM_SET_CPUID2")?;
        let khz = fd.get_tsc_khz().context("KVM does not tell the time-stamp counter's frequency")?;
        let place = map::BOOT_INFO + std::mem::offset_of!(BootInfo, tsc_khz) as u64;
        self.ram
            .memory
            .write_obj(u64::from(khz), GuestAddress(place))
            .context("cannot write to guest RAM")?;
        vcpu::enter_firmware(&fd, index, self.entry)?;
        Ok(Vcpu { fd, bus: self.bus.clone(), exits: self.exits[index].clone(), stop: self.stop.clone() })
    }

    /// The guest's RAM.
    pub fn ram(&self) -> &GuestRam {
        &self.ram
    }

    /// The route table it sees, if it has one.
    pub fn fib(&self) -> Option<&Arc<SharedMemory>> {
        self.fib.as_ref()
    }

    /// Its PCI bus.
    pub fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    /// Its interrupt lines.
    pub fn irqs(&self) -> &Arc<IrqRouter> {
        &self.irqs
    }

    /// The kernel's handle, for doorbells.
    pub fn fd(&self) -> &Arc<VmFd> {
        &self.fd
    }

    /// vCPUs.
    pub fn vcpus(&self) -> usize {
        self.vcpus
    }

    /// Why each vCPU left guest mode, and how often.
    pub fn exits(&self) -> &[Arc<VcpuExits>] {
        &self.exits
    }

    /// The words that the firmware shares with the host.
    pub fn shared(&self) -> &Shared {
        let len = size_of::<Shared>();
        // The RAM is at least 12 MiB (`boot::load`), so the place is always inside.
        let place =
            self.ram.host_address(map::SHARED, len).map_or(std::ptr::null(), |at| at.cast::<Shared>());
        // SAFETY: the address is in the mapping, page aligned, and `Shared` is nothing but atomics, for which every
        // bit pattern is valid and which the guest may change at any time.
        unsafe { &*place }
    }

    /// Tells all vCPUs to stop. A vCPU that is in the guest must also be kicked out of it by a signal.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.shared().stop.0.store(1, Ordering::Release);
        self.wakers.iter().for_each(|line| line.signal());
    }

    /// `ms` milliseconds have passed: wakes the vCPUs whose alarm is due.
    pub fn tick(&self, ms: u32) {
        for (vcpu, line) in self.shared().vcpus.iter().zip(&self.wakers) {
            let alarm = vcpu.alarm.0.load(Ordering::Acquire);
            if alarm == 0 {
                continue;
            }
            // If the vCPU has taken its alarm back meanwhile, it is awake and this tick means nothing to it.
            let left = alarm.saturating_sub(ms);
            let ours =
                vcpu.alarm.0.compare_exchange(alarm, left, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if ours && left == 0 {
                line.signal();
            }
        }
    }
}

fn waker(irqs: &IrqRouter, vcpu: usize) -> Result<Arc<IrqLine>> {
    let line = irqs.line()?;
    let message = Message { address: map::APIC | (vcpu as u64) << 12, data: u32::from(INTERRUPT_VECTOR) };
    irqs.route(&line, Some(message))?;
    Ok(line)
}

/// Opens KVM or says in one line why not.
pub fn open_kvm() -> Result<Kvm> {
    let kvm = Kvm::new().map_err(|error| match error.errno() {
        libc::ENOENT => anyhow::anyhow!("there is no /dev/kvm: this host offers no hardware virtualisation"),
        libc::EACCES | libc::EPERM => {
            anyhow::anyhow!("no permission to open /dev/kvm: run as root or join group kvm")
        }
        _ => anyhow::anyhow!("cannot open /dev/kvm: {error}"),
    })?;
    let version = kvm.get_api_version();
    ensure!(version == 12, "/dev/kvm speaks API version {version}, this program needs 12");
    Ok(kvm)
}

fn mailboxes(ram: &GuestRam) -> Result<[*mut AtomicU32; MAX_VCPUS]> {
    let base = ram.host_address(map::SHARED, size_of::<Shared>()).context("the guest's RAM is too small")?;
    // SAFETY: the address is valid for `Shared` (checked above) and the array is its first field.
    let shared = unsafe { &*base.cast::<Shared>() };
    Ok(std::array::from_fn(|index| std::ptr::from_ref(&shared.mailbox[index].0).cast_mut()))
}

fn map_ram(fd: &VmFd, ram: &GuestRam) -> Result<()> {
    for (slot, region) in (0..).zip(ram.memory.iter()) {
        let address = ram.memory.get_host_address(region.start_addr()).context("guest RAM is not mapped")?;
        set_region(fd, (slot, 0), region.start_addr().0, (address, region.len()))?;
    }
    Ok(())
}

fn map_read_only(fd: &VmFd, fib: &SharedMemory) -> Result<()> {
    set_region(fd, (1, KVM_MEM_READONLY), map::FIB, (fib.as_ptr(), fib.len() as u64))
}

fn set_region(fd: &VmFd, (slot, flags): (u32, u32), guest: u64, (host, len): (*mut u8, u64)) -> Result<()> {
    let region = kvm_userspace_memory_region {
        slot,
        flags,
        guest_phys_addr: guest,
        memory_size: len,
        userspace_addr: host as u64,
    };
    // SAFETY: the range is mapped, and `Vm` keeps RAM and route table for as long as the descriptor.
    unsafe { fd.set_user_memory_region(region) }.with_context(|| {
        format!("KVM does not take {len} octets of memory at {guest:#x} (vm {})", fd.as_raw_fd())
    })
}
