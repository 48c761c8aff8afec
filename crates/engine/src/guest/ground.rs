//! What a guest runs on: KVM, or a process of its own; and what it is.

use std::sync::Arc;

use anyhow::Result;
use config::{Engine, Router};
use vmm::{Forker, Kvm, Machine, MachineConfig, Process, Spawn, Vm, linux, open_kvm};

use super::images::Images;

/// What guests can be put on.
#[derive(Clone)]
pub enum Ground {
    /// Virtual machines.
    Kvm(Arc<Kvm>),
    /// Processes, and who starts them.
    Process(Arc<dyn Spawn>),
    /// Virtual machines, with a kernel that is no firmware of ours.
    Linux(Arc<Kvm>, Arc<Images>),
}

impl Ground {
    /// Opens what this engine needs of the host.
    ///
    /// # Errors
    /// One line: why there is no KVM, or no image for processes.
    pub fn open(engine: Engine) -> Result<Self> {
        Ok(match engine {
            Engine::Kvm | Engine::Linux => Self::Kvm(Arc::new(open_kvm()?)),
            Engine::Process => Self::Process(Arc::new(Forker::new()?)),
        })
    }

    /// The engine that it is for.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Kvm(_) => Engine::Kvm,
            Self::Process(_) => Engine::Process,
            Self::Linux(..) => Engine::Linux,
        }
    }

    /// Puts a router's machine on it: one for a firmware, or a PC.
    pub(super) fn build(&self, plan: &Router, firmware: impl FnOnce() -> MachineConfig) -> Result<Stage> {
        Ok(match self {
            Self::Kvm(kvm) => Stage::Vm(Arc::new(Vm::new(kvm, firmware())?)),
            Self::Process(spawner) => Stage::Process(Arc::new(Process::new(firmware())?), spawner.clone()),
            Self::Linux(kvm, images) => {
                let config = linux::Config { name: name(plan), ..images.config(plan)? };
                Stage::Linux(Arc::new(linux::Vm::new(kvm, config)?))
            }
        })
    }
}

/// The name of a router's memory.
pub(super) fn name(plan: &Router) -> String {
    format!("ringroad-{}", plan.name)
}

/// A machine together with what runs it.
#[derive(Clone)]
pub(super) enum Stage {
    Vm(Arc<Vm>),
    Process(Arc<Process>, Arc<dyn Spawn>),
    Linux(Arc<linux::Vm>),
}

impl Stage {
    pub(super) fn machine(&self) -> &Arc<Machine> {
        match self {
            Self::Vm(vm) => vm.machine(),
            Self::Process(process, _) => process.machine(),
            Self::Linux(vm) => vm.machine(),
        }
    }

    /// The process, where there is one.
    pub(super) fn process(&self) -> Option<&Arc<Process>> {
        match self {
            Self::Vm(_) | Self::Linux(_) => None,
            Self::Process(process, _) => Some(process),
        }
    }

    /// What a Linux guest says on its console.
    pub(super) fn console(&self) -> Option<&Arc<linux::ConsoleCounters>> {
        match self {
            Self::Vm(_) | Self::Process(..) => None,
            Self::Linux(vm) => Some(vm.console()),
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
