//! Machine of a firmware, independent of the engine: RAM, route table, bus, interrupt lines and the words
//! that the firmware shares with the host. It is run by a [`crate::Vm`] or a [`crate::Process`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use bootinfo::{BootInfo, Desk, Environment, GivenNeighbour, MAX_VCPUS, Shared, map};
use kvm_ioctls::VmFd;
use ledger::VcpuExits;
use nic_port::irq::Line;
use vm_memory::{Bytes, GuestAddress};

use crate::bus::Bus;
use crate::coalesced::CoalescedMmio;
use crate::doorbells::Doorbells;
use crate::irq::{IrqLine, IrqRouter, Message};
use crate::memory::{GuestRam, SharedMemory};
use crate::stubs::INTERRUPT_VECTOR;

/// Configuration of a machine.
pub struct MachineConfig {
    /// Name of its memory in `/proc/PID/maps`.
    pub name: String,
    /// Octets of RAM, a multiple of 2 MiB.
    pub ram: usize,
    /// The route table, mapped read-only; several machines may share one.
    pub fib: Option<Arc<SharedMemory>>,
    /// For a member of a group: what it has in common with the others.
    pub group: Option<GroupMemory>,
    /// Boot information for the firmware; `magic`, `environment`, `ram`, `fib`, `group_neighbours` and `tsc_khz` are filled in
    /// later.
    pub info: BootInfo,
}

/// Memory that a member of a group has beside its RAM and the group's routes.
#[derive(Clone)]
pub struct GroupMemory {
    /// The group's neighbour table, mapped read-only.
    pub neighbours: Arc<SharedMemory>,
    /// The member's own desk ([`bootinfo::Desk`]), which it writes.
    pub desk: Arc<SharedMemory>,
}

/// One machine. Its NICs are attached to [`Machine::bus`] before the firmware runs.
pub struct Machine {
    ram: Arc<GuestRam>,
    fib: Option<Arc<SharedMemory>>,
    group: Option<GroupMemory>,
    irqs: Arc<IrqRouter>,
    bus: Arc<Bus>,
    doorbells: Arc<Doorbells>,
    coalesced: Arc<CoalescedMmio>,
    vcpus: usize,
    stop: Arc<AtomicBool>,
    exits: Vec<Arc<VcpuExits>>,
    /// Lines that interrupt a vCPU on behalf of no device: for alarms, and to make it look at the stop word.
    wakers: Vec<Arc<IrqLine>>,
}

/// RAM and route table of a machine under construction.
pub(crate) struct Memory {
    pub(crate) ram: Arc<GuestRam>,
    pub(crate) fib: Option<Arc<SharedMemory>>,
    pub(crate) group: Option<GroupMemory>,
    pub(crate) vcpus: usize,
    /// True for a guest that expects a PC, and does not know the words that a firmware shares with the host.
    pub(crate) pc: bool,
}

impl Memory {
    /// Creates the RAM and writes the firmware's boot information into it.
    pub(crate) fn new(mut config: MachineConfig, environment: Environment) -> Result<Self> {
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
        config.info.environment = environment as u32;
        config.info.ram = ram.len() as u64;
        config.info.fib = config.fib.as_ref().map_or(0, |fib| fib.len() as u64);
        if let Some(GroupMemory { neighbours, desk }) = &config.group {
            let most = map::NEIGHBOURS_LEN as usize;
            ensure!(
                (1..=most).contains(&neighbours.len()) && desk.len() >= Desk::LEN,
                "the memory of a group has {} octets of neighbours and {} of a desk",
                neighbours.len(),
                desk.len()
            );
            config.info.group_neighbours = neighbours.len() as u64;
        }
        write_orders(&ram, &config.info)?;
        Ok(Self { ram, fib: config.fib, group: config.group, vcpus, pc: false })
    }
}

impl Machine {
    /// Builds a machine on this memory. `vm` is KVM's handle if KVM runs the firmware.
    pub(crate) fn new(memory: Memory, vm: Option<Arc<VmFd>>) -> Result<Arc<Self>> {
        let Memory { ram, fib, group, vcpus, pc } = memory;
        let make = if pc { IrqRouter::of_pc } else { IrqRouter::new };
        let irqs = Arc::new(make(vm.clone(), ram.clone()));
        let wakers = if pc { 0 } else { vcpus };
        let wakers = wakers_of(&irqs, wakers)?;
        Ok(Arc::new(Self {
            bus: Bus::new(ram.region()),
            coalesced: Arc::new(CoalescedMmio::new(vm.clone())),
            doorbells: Arc::new(Doorbells::new(vm)),
            exits: (0..vcpus).map(|_| Arc::default()).collect(),
            stop: Arc::default(),
            ram,
            fib,
            group,
            irqs,
            vcpus,
            wakers,
        }))
    }

    /// Returns its RAM.
    pub fn ram(&self) -> &Arc<GuestRam> {
        &self.ram
    }

    /// Returns its route table, if it has one.
    pub fn fib(&self) -> Option<&Arc<SharedMemory>> {
        self.fib.as_ref()
    }

    /// Returns what it has in common with the members of its group, if it is one.
    pub fn group(&self) -> Option<&GroupMemory> {
        self.group.as_ref()
    }

    /// Returns its PCI bus.
    pub fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    /// Returns its interrupt lines.
    pub fn irqs(&self) -> &Arc<IrqRouter> {
        &self.irqs
    }

    /// Returns its doorbells.
    pub(crate) fn doorbells(&self) -> &Arc<Doorbells> {
        &self.doorbells
    }

    /// Returns the register stores that the kernel collects for it.
    pub(crate) fn coalesced(&self) -> &Arc<CoalescedMmio> {
        &self.coalesced
    }

    /// Returns the flag that is set once it is to stop.
    pub(crate) fn stop_sign(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Returns the number of vCPUs.
    pub fn vcpus(&self) -> usize {
        self.vcpus
    }

    /// Returns each vCPU's counts of exits by reason. For a process: of its register accesses.
    pub fn exits(&self) -> &[Arc<VcpuExits>] {
        &self.exits
    }

    /// Returns the words that the firmware shares with the host.
    pub fn shared(&self) -> &Shared {
        self.ram.shared()
    }

    /// Tells all vCPUs to stop and wakes sleeping ones.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.shared().stop.0.store(1, Ordering::Release);
        self.wakers.iter().for_each(|line| line.signal());
    }

    /// Challenges every vCPU for a sign of life: it is to publish `number` as its answer.
    pub fn challenge(&self, number: u32) {
        self.shared().challenge.0.store(number, Ordering::Release);
        self.wakers.iter().for_each(|line| line.signal());
    }

    /// Tells the firmware that the cable of a NIC was plugged in anew: it forgets its neighbours there and
    /// announces its own addresses.
    pub fn cable_changed(&self, nic: usize) {
        if let Some(word) = self.shared().plugged.get(nic) {
            word.0.fetch_add(1, Ordering::Release);
            self.wakers.iter().for_each(|line| line.signal());
        }
    }

    /// Gives the firmware these static neighbours, in place of those that it was given before. Only one thread may do so at a time.
    pub fn give_neighbours(&self, neighbours: &[GivenNeighbour]) {
        self.shared().given.set(neighbours);
        self.wakers.iter().for_each(|line| line.signal());
    }

    /// Advances time by `ms` milliseconds: wakes the vCPUs whose alarm is due.
    pub fn tick(&self, ms: u32) {
        for (vcpu, line) in self.shared().vcpus.iter().zip(&self.wakers) {
            let alarm = vcpu.alarm.0.load(Ordering::Acquire);
            if alarm == 0 {
                continue;
            }
            // If the vCPU has withdrawn its alarm meanwhile, it is awake and this tick does not concern it.
            let left = alarm.saturating_sub(ms);
            let ours =
                vcpu.alarm.0.compare_exchange(alarm, left, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if ours && left == 0 {
                line.signal();
            }
        }
    }
}

/// Tells the firmware the frequency of the time-stamp counter.
pub(crate) fn write_tsc_khz(ram: &GuestRam, khz: u64) -> Result<()> {
    let place = map::BOOT_INFO + std::mem::offset_of!(BootInfo, tsc_khz) as u64;
    ram.memory.write_obj(khz, GuestAddress(place)).context("cannot write to guest RAM")
}

// Its last field ends it: padding behind that would show the guest octets of this process.
const _: () =
    assert!(std::mem::offset_of!(BootInfo, shares_addresses) + size_of::<u32>() == size_of::<BootInfo>());

fn write_orders(ram: &GuestRam, info: &BootInfo) -> Result<()> {
    // SAFETY: `BootInfo` is a repr(C) structure of integers without padding: each field has the alignment of the place behind
    // the one before, and the last one ends it.
    let octets =
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(info).cast::<u8>(), size_of::<BootInfo>()) };
    ram.memory.write_slice(octets, GuestAddress(map::BOOT_INFO)).context("cannot write the boot information")
}

/// Creates the lines that wake the vCPUs.
fn wakers_of(irqs: &IrqRouter, vcpus: usize) -> Result<Vec<Arc<IrqLine>>> {
    let lines: Vec<_> = (0..vcpus).map(|_| irqs.line()).collect::<Result<_>>()?;
    let data = u32::from(INTERRUPT_VECTOR);
    let message = |vcpu: usize| Message { address: map::APIC | (vcpu as u64) << 12, data };
    let routes: Vec<_> = lines.iter().enumerate().map(|(vcpu, line)| (&**line, message(vcpu))).collect();
    irqs.route_all(&routes)?;
    Ok(lines)
}
