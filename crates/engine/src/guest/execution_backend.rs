//! Execution backend of a guest: KVM (with the firmware or a Linux kernel), or a process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use config::{Engine, Router};
use vmm::{Forker, Kvm, Machine, MachineConfig, Process, Spawn, Steps, Vm, linux, open_kvm};

use super::images::Images;

/// Host resources that a guest runs on.
#[derive(Clone)]
pub enum ExecutionBackend {
    /// KVM, for virtual machines with the firmware.
    Kvm(Arc<Kvm>),
    /// Spawner of processes, for the engine `process`.
    Process(Arc<dyn Spawn>),
    /// KVM, for virtual machines with a Linux kernel.
    Linux(Arc<Kvm>, Arc<Images>),
}

impl ExecutionBackend {
    /// Opens the host resources that this engine needs.
    ///
    /// # Errors
    /// One line: why KVM, or the image for processes, is not available, or that this engine has no machines.
    pub fn open(engine: Engine) -> Result<Self> {
        Ok(match engine {
            Engine::Kvm | Engine::Linux => Self::Kvm(Arc::new(open_kvm()?)),
            Engine::Process => Self::Process(Arc::new(Forker::new()?)),
            Engine::Kernel | Engine::Lxc => bail!("a kernel router has no machine"),
        })
    }

    /// Returns the engine.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Kvm(_) => Engine::Kvm,
            Self::Process(_) => Engine::Process,
            Self::Linux(..) => Engine::Linux,
        }
    }

    /// Creates a router's machine: one for the firmware, or a PC for a Linux kernel.
    pub(super) fn build(
        &self,
        plan: &Router,
        firmware: impl FnOnce() -> MachineConfig,
    ) -> Result<GuestMachine> {
        Ok(match self {
            Self::Kvm(kvm) => GuestMachine::Vm(Arc::new(Vm::new(kvm, firmware())?)),
            Self::Process(spawner) => {
                GuestMachine::Process(Arc::new(Process::new(firmware())?), spawner.clone())
            }
            Self::Linux(kvm, images) => {
                let config = linux::Config { name: name(plan), ..images.config(plan)? };
                GuestMachine::Linux(Arc::new(linux::Vm::new(kvm, config)?))
            }
        })
    }
}

/// Returns the name of a router's memory (memfd).
pub(super) fn name(plan: &Router) -> String {
    format!("ringroad-{}", plan.name)
}

/// A machine together with the engine that runs it.
#[derive(Clone)]
pub(super) enum GuestMachine {
    Vm(Arc<Vm>),
    Process(Arc<Process>, Arc<dyn Spawn>),
    Linux(Arc<linux::Vm>),
}

impl GuestMachine {
    pub(super) fn machine(&self) -> &Arc<Machine> {
        match self {
            Self::Vm(vm) => vm.machine(),
            Self::Process(process, _) => process.machine(),
            Self::Linux(vm) => vm.machine(),
        }
    }

    /// Returns the process, if the machine has one.
    pub(super) fn process(&self) -> Option<&Arc<Process>> {
        match self {
            Self::Vm(_) | Self::Linux(_) => None,
            Self::Process(process, _) => Some(process),
        }
    }

    /// Returns the console counters of a Linux guest.
    pub(super) fn console(&self) -> Option<&Arc<linux::ConsoleCounters>> {
        match self {
            Self::Vm(_) | Self::Process(..) => None,
            Self::Linux(vm) => Some(vm.console()),
        }
    }

    /// Returns the steps in which it was made, if they are known one by one.
    pub(super) fn steps(&self) -> Option<&Steps> {
        match self {
            Self::Vm(vm) => Some(vm.steps()),
            Self::Process(..) | Self::Linux(_) => None,
        }
    }

    /// Returns how long it took to create the first vCPU, if that is known.
    pub(super) fn vcpu_took(&self) -> Option<Duration> {
        match self {
            Self::Vm(vm) => vm.vcpu_took(),
            Self::Process(..) | Self::Linux(_) => None,
        }
    }

    pub(super) fn stop(&self) {
        match self {
            Self::Vm(vm) => vm.machine().stop(),
            Self::Linux(vm) => vm.machine().stop(),
            Self::Process(process, _) => process.stop(),
        }
    }
}
