//! What a guest runs on: KVM, or a process of its own.

use std::sync::Arc;

use anyhow::Result;
use config::Engine;
use vmm::{Forker, Kvm, Machine, MachineConfig, Process, Spawn, Vm, open_kvm};

/// What guests can be put on.
#[derive(Clone)]
pub enum Ground {
    /// Virtual machines.
    Kvm(Arc<Kvm>),
    /// Processes, and who starts them.
    Process(Arc<dyn Spawn>),
}

impl Ground {
    /// Opens what this engine needs.
    ///
    /// # Errors
    /// One line: why there is no KVM, or no image for processes.
    pub fn open(engine: Engine) -> Result<Self> {
        Ok(match engine {
            Engine::Kvm => Self::Kvm(Arc::new(open_kvm()?)),
            Engine::Process => Self::Process(Arc::new(Forker::new()?)),
        })
    }

    /// The engine that it is for.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Kvm(_) => Engine::Kvm,
            Self::Process(_) => Engine::Process,
        }
    }

    /// Puts a machine on it.
    pub(super) fn build(&self, config: MachineConfig) -> Result<Stage> {
        Ok(match self {
            Self::Kvm(kvm) => Stage::Vm(Arc::new(Vm::new(kvm, config)?)),
            Self::Process(spawner) => Stage::Process(Arc::new(Process::new(config)?), spawner.clone()),
        })
    }
}

/// A machine together with what runs it.
#[derive(Clone)]
pub(super) enum Stage {
    Vm(Arc<Vm>),
    Process(Arc<Process>, Arc<dyn Spawn>),
}

impl Stage {
    pub(super) fn machine(&self) -> &Arc<Machine> {
        match self {
            Self::Vm(vm) => vm.machine(),
            Self::Process(process, _) => process.machine(),
        }
    }

    /// The process, where there is one.
    pub(super) fn process(&self) -> Option<&Arc<Process>> {
        match self {
            Self::Vm(_) => None,
            Self::Process(process, _) => Some(process),
        }
    }

    pub(super) fn stop(&self) {
        match self {
            Self::Vm(vm) => vm.machine().stop(),
            Self::Process(process, _) => process.stop(),
        }
    }
}
