//! Virtual machine with a Linux kernel, run by KVM.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, ensure};
use bootinfo::MAX_VCPUS;
use kvm_bindings::{CpuId, KVM_PIT_SPEAKER_DUMMY, kvm_pit_config};
use kvm_ioctls::{Cap, Kvm, VmFd};

use super::console::ConsoleCounters;
use super::cpu::{self, Cpu};
use super::load::{self, Images};
use super::ports::Ports;
use super::{MAX_RAM, MIN_RAM, cpuid, host_bridge};
use crate::machine::{Machine, Memory};
use crate::memory::GuestRam;
use crate::vm::map_ram;

/// Configuration of a Linux guest.
#[derive(Debug)]
pub struct Config {
    /// Name of its memory in `/proc/PID/maps`.
    pub name: String,
    /// Octets of RAM, a multiple of 2 MiB from [`MIN_RAM`] to [`MAX_RAM`].
    pub ram: usize,
    /// Number of CPUs.
    pub vcpus: usize,
    /// A bzImage, or an ELF `vmlinux`.
    pub kernel: File,
    /// The initramfs, if any.
    pub initrd: Option<File>,
    /// The kernel's command line.
    pub append: String,
    /// Output of its serial console.
    pub console: Option<File>,
}

/// One virtual machine.
pub struct Vm {
    fd: Arc<VmFd>,
    machine: Arc<Machine>,
    ports: Arc<Ports>,
    entry: u64,
    cpuid: CpuId,
    /// True if KVM's timers support TSC deadlines.
    deadline: bool,
}

impl Vm {
    /// Creates a virtual machine, ready for its devices. Opens nothing: everything comes from `kvm` and
    /// `config`.
    ///
    /// # Errors
    /// One line: what does not fit, what is wrong with a file, or what KVM refuses.
    pub fn new(kvm: &Kvm, mut config: Config) -> Result<Self> {
        let vcpus = config.vcpus;
        ensure!((1..=MAX_VCPUS).contains(&vcpus), "a guest has 1 to {MAX_VCPUS} vCPUs, not {vcpus}");
        ensure!(
            (MIN_RAM..=MAX_RAM).contains(&(config.ram as u64)),
            "a Linux guest has {} MiB to {} MiB of memory, not {} MiB",
            MIN_RAM >> 20,
            MAX_RAM >> 20,
            config.ram >> 20
        );
        let fd = Arc::new(kvm.create_vm().context("KVM cannot make a virtual machine")?);
        let ram = Arc::new(GuestRam::with_words_outside(&config.name, config.ram)?);
        let images =
            Images { kernel: &mut config.kernel, initrd: config.initrd.as_mut(), append: &config.append };
        let entry = load::load(&ram, images, vcpus as u8)?;
        map_ram(&fd, &ram)?;
        fd.set_tss_address(0xfffb_d000).context("KVM_SET_TSS_ADDR")?;
        fd.create_irq_chip().context("KVM cannot make an interrupt controller (KVM_CREATE_IRQCHIP)")?;
        let pit = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..Default::default() };
        fd.create_pit2(pit).context("KVM cannot make a timer (KVM_CREATE_PIT2)")?;
        let cpuid = crate::cpuid::of_guests(kvm)?;
        let deadline = kvm.check_extension(Cap::TscDeadlineTimer);
        let machine =
            Machine::new(Memory { ram, fib: None, group: None, vcpus, pc: true }, Some(fd.clone()))?;
        machine.bus().insert(0, Box::new(host_bridge::HostBridge::new()));
        let ports = Arc::new(Ports::new(Some(fd.clone()), machine.bus().clone(), config.console));
        Ok(Self { fd, machine, ports, entry, cpuid, deadline })
    }

    /// Creates vCPU `index`; to be called on the thread that will run it.
    ///
    /// # Errors
    /// One line: the request that KVM refuses.
    pub fn cpu(&self, index: usize) -> Result<Cpu> {
        let exits = self.machine.exits().get(index).context("there is no such vCPU")?.clone();
        let fd =
            self.fd.create_vcpu(index as u64).with_context(|| format!("KVM cannot make vCPU {index}"))?;
        let cpuid = cpuid::of_cpu(&self.cpuid, index as u8, self.machine.vcpus() as u8, self.deadline);
        fd.set_cpuid2(&cpuid).context("KVM_SET_CPUID2")?;
        cpu::prepare(&fd)?;
        if index == 0 {
            cpu::enter_kernel(&fd, self.entry)?;
        }
        self.machine.coalesced().map(&fd);
        // It counts as up as soon as it runs: only its own network services would tell more.
        if let Some(words) = self.machine.shared().vcpus.get(index) {
            words.state.0.store(1, Ordering::Release);
        }
        let (bus, stop) = (self.machine.bus().clone(), self.machine.stop_sign().clone());
        let (ports, coalesced) = (self.ports.clone(), self.machine.coalesced().clone());
        Ok(Cpu { fd, bus, ports, coalesced, exits, stop })
    }

    /// Returns its console counters.
    pub fn console(&self) -> &Arc<ConsoleCounters> {
        self.ports.console()
    }

    /// Returns its machine.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }
}

#[cfg(test)]
mod tests;
