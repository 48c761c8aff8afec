//! What the routers of an instance are put on, opened once: a confined process could not open it later.

use std::sync::Arc;

use anyhow::Result;
use config::Engine;
use vmm::{Kvm, Spawn};

use crate::guest::Ground;

/// KVM and the one who starts processes, as far as they were needed yet.
pub(crate) struct Grounds {
    kvm: Option<Arc<Kvm>>,
    spawner: Option<Arc<dyn Spawn>>,
}

impl Grounds {
    pub(crate) fn new(kvm: Option<Arc<Kvm>>, spawner: Option<Arc<dyn Spawn>>) -> Self {
        Self { kvm, spawner }
    }

    /// Takes over what came with a change.
    pub(crate) fn add(&mut self, kvm: Option<Arc<Kvm>>, spawner: Option<Arc<dyn Spawn>>) {
        self.kvm = self.kvm.take().or(kvm);
        self.spawner = self.spawner.take().or(spawner);
    }

    /// The engine for a router whose file names none: KVM where it can be had, else a process.
    pub(crate) fn choose(&mut self) -> Engine {
        if self.get(Engine::Kvm).is_ok() { Engine::Kvm } else { Engine::Process }
    }

    /// What this engine needs.
    ///
    /// # Errors
    /// One line: why there is no KVM, or nothing that starts processes.
    pub(crate) fn get(&mut self, engine: Engine) -> Result<Ground> {
        let ground = match (engine, &self.kvm, &self.spawner) {
            (Engine::Kvm, Some(kvm), _) => Ground::Kvm(kvm.clone()),
            (Engine::Process, _, Some(spawner)) => Ground::Process(spawner.clone()),
            (Engine::Kvm | Engine::Process, ..) => Ground::open(engine)?,
        };
        match &ground {
            Ground::Kvm(kvm) => self.kvm = Some(kvm.clone()),
            Ground::Process(spawner) => self.spawner = Some(spawner.clone()),
        }
        Ok(ground)
    }
}
