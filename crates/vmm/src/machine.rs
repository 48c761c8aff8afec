//! What a firmware runs on, whatever runs it: RAM, route table, bus, interrupt lines and the words that it shares
//! with the host. A [`crate::Vm`] or a [`crate::Process`] stands behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use bootinfo::{BootInfo, Ground, MAX_VCPUS, Shared, map};
use kvm_ioctls::VmFd;
use ledger::VcpuExits;
use nic_port::irq::Line;
use vm_memory::{Bytes, GuestAddress};

use crate::bus::Bus;
use crate::coalesced::Coalesced;
use crate::doorbells::Doorbells;
use crate::irq::{IrqLine, IrqRouter, Message};
use crate::memory::{GuestRam, SharedMemory};
use crate::stubs::INTERRUPT_VECTOR;

/// What a machine is made of.
pub struct MachineConfig {
    /// Name for its memory, as `/proc/PID/maps` shows it.
    pub name: String,
    /// Octets of RAM, a multiple of 2 MiB.
    pub ram: usize,
    /// The route table, mapped read-only; several machines may share one.
    pub fib: Option<Arc<SharedMemory>>,
    /// The firmware's orders; `magic`, `ground`, `ram`, `fib` and `tsc_khz` are filled in on the way.
    pub info: BootInfo,
}

/// One machine. Its NICs are put on [`Machine::bus`] before the firmware runs.
pub struct Machine {
    ram: Arc<GuestRam>,
    fib: Option<Arc<SharedMemory>>,
    irqs: Arc<IrqRouter>,
    bus: Arc<Bus>,
    doorbells: Arc<Doorbells>,
    coalesced: Arc<Coalesced>,
    vcpus: usize,
    stop: Arc<AtomicBool>,
    exits: Vec<Arc<VcpuExits>>,
    /// Lines that interrupt a vCPU for no device's sake: alarms, and to let it see the stop word.
    wakers: Vec<Arc<IrqLine>>,
}

/// RAM and route table, before anything stands on them.
pub(crate) struct Memory {
    pub(crate) ram: Arc<GuestRam>,
    pub(crate) fib: Option<Arc<SharedMemory>>,
    pub(crate) vcpus: usize,
    /// Whether it is for a guest that knows a PC, and nothing of the words that a firmware shares with us.
    pub(crate) pc: bool,
}

impl Memory {
    /// Makes the RAM and writes the firmware's orders into it.
    pub(crate) fn new(mut config: MachineConfig, ground: Ground) -> Result<Self> {
        let vcpus = config.info.vcpus as usize;
        ensure!((1..=MAX_VCPUS).contains(&vcpus), "a router has 1 to {MAX_VCPUS} vCPUs, not {vcpus}");
        ensure!(
            config.ram as u64 >= map::POOL + (4 << 20) && (config.ram as u64).is_multiple_of(map::PAGE),
            "a router needs at least 12 MiB of memory, in steps of 2 MiB"
        );
        ensure!(
            config.ram as u64 <= map::MAX_RAM,
            "a router has at most {} MiB of memory: device registers lie behind it",
            map::MAX_RAM >> 20
        );
        let ram = Arc::new(GuestRam::new(&config.name, config.ram)?);
        config.info.magic = bootinfo::MAGIC;
        config.info.ground = ground as u32;
        config.info.ram = ram.len() as u64;
        config.info.fib = config.fib.as_ref().map_or(0, |fib| fib.len() as u64);
        write_orders(&ram, &config.info)?;
        Ok(Self { ram, fib: config.fib, vcpus, pc: false })
    }
}

impl Machine {
    /// Puts the rest on this memory. `vm` is KVM's handle where KVM runs the firmware.
    pub(crate) fn new(memory: Memory, vm: Option<Arc<VmFd>>) -> Result<Arc<Self>> {
        let Memory { ram, fib, vcpus, pc } = memory;
        let make = if pc { IrqRouter::of_pc } else { IrqRouter::new };
        let irqs = Arc::new(make(vm.clone(), ram.clone()));
        let wakers = if pc { 0 } else { vcpus };
        let wakers = (0..wakers).map(|vcpu| waker(&irqs, vcpu)).collect::<Result<_>>()?;
        Ok(Arc::new(Self {
            bus: Bus::new(ram.region()),
            coalesced: Arc::new(Coalesced::new(vm.clone())),
            doorbells: Arc::new(Doorbells::new(vm)),
            exits: (0..vcpus).map(|_| Arc::default()).collect(),
            stop: Arc::default(),
            ram,
            fib,
            irqs,
            vcpus,
            wakers,
        }))
    }

    /// Its RAM.
    pub fn ram(&self) -> &Arc<GuestRam> {
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

    /// How its doorbells ring.
    pub(crate) fn doorbells(&self) -> &Arc<Doorbells> {
        &self.doorbells
    }

    /// What the kernel collects of its register accesses.
    pub(crate) fn coalesced(&self) -> &Arc<Coalesced> {
        &self.coalesced
    }

    /// Set once it is to stop.
    pub(crate) fn stop_sign(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// vCPUs.
    pub fn vcpus(&self) -> usize {
        self.vcpus
    }

    /// Why each vCPU left guest mode, and how often. For a process: its register accesses.
    pub fn exits(&self) -> &[Arc<VcpuExits>] {
        &self.exits
    }

    /// The words that the firmware shares with the host.
    pub fn shared(&self) -> &Shared {
        self.ram.shared()
    }

    /// Tells all vCPUs to stop and wakes those that sleep.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.shared().stop.0.store(1, Ordering::Release);
        self.wakers.iter().for_each(|line| line.signal());
    }

    /// Asks every vCPU for a sign of life: it is to show `number` as its answer.
    pub fn challenge(&self, number: u32) {
        self.shared().challenge.0.store(number, Ordering::Release);
        self.wakers.iter().for_each(|line| line.signal());
    }

    /// The cable of a NIC was plugged anew: the firmware forgets whoever was at its other end, and says there who it is.
    pub fn plugged(&self, nic: usize) {
        if let Some(word) = self.shared().plugged.get(nic) {
            word.0.fetch_add(1, Ordering::Release);
            self.wakers.iter().for_each(|line| line.signal());
        }
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

/// Tells the firmware how fast the time-stamp counter runs.
pub(crate) fn write_tsc_khz(ram: &GuestRam, khz: u64) -> Result<()> {
    let place = map::BOOT_INFO + std::mem::offset_of!(BootInfo, tsc_khz) as u64;
    ram.memory.write_obj(khz, GuestAddress(place)).context("cannot write to guest RAM")
}

fn write_orders(ram: &GuestRam, info: &BootInfo) -> Result<()> {
    // SAFETY: BootInfo is a repr(C) structure of integers; its padding, if any, may hold anything.
    let octets =
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(info).cast::<u8>(), size_of::<BootInfo>()) };
    ram.memory.write_slice(octets, GuestAddress(map::BOOT_INFO)).context("cannot write the boot information")
}

fn waker(irqs: &IrqRouter, vcpu: usize) -> Result<Arc<IrqLine>> {
    let line = irqs.line()?;
    let message = Message { address: map::APIC | (vcpu as u64) << 12, data: u32::from(INTERRUPT_VECTOR) };
    irqs.route(&line, Some(message))?;
    Ok(line)
}
