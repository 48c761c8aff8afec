//! What the routers of an instance are put on, opened once: a confined process could not open it later.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{Engine, Router};
use vmm::{Kvm, Spawn};

use crate::guest::{Ground, Images};

/// KVM and the one who starts processes, as far as they were needed yet.
pub(crate) struct Grounds {
    kvm: Option<Arc<Kvm>>,
    spawner: Option<Arc<dyn Spawn>>,
    /// What Linux guests are made of, by router.
    images: HashMap<String, Arc<Images>>,
}

impl Grounds {
    pub(crate) fn new(kvm: Option<Arc<Kvm>>, spawner: Option<Arc<dyn Spawn>>) -> Self {
        Self { kvm, spawner, images: HashMap::new() }
    }

    /// Takes over what Linux guests are made of.
    pub(crate) fn add_images(&mut self, images: HashMap<String, Images>) {
        self.images.extend(images.into_iter().map(|(router, images)| (router, Arc::new(images))));
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

    /// What this router needs.
    ///
    /// # Errors
    /// One line: why there is no KVM, nothing that starts processes, or no kernel.
    pub(crate) fn of(&mut self, router: &Router) -> Result<Ground> {
        let engine = router.engine.unwrap_or_else(|| self.choose());
        let Some(linux) = &router.linux else { return self.get(engine) };
        let Ground::Kvm(kvm) = self.get(Engine::Kvm)? else { return self.get(engine) };
        let images = match self.images.get(&router.name) {
            Some(images) if images.are_of(linux) => images.clone(),
            _ => {
                let images = Images::open(linux).with_context(|| format!("router {}", router.name))?;
                let images = Arc::new(images);
                self.images.insert(router.name.clone(), images.clone());
                images
            }
        };
        Ok(Ground::Linux(kvm, images))
    }

    /// What this engine needs of the host.
    ///
    /// # Errors
    /// One line: why there is no KVM, or nothing that starts processes.
    pub(crate) fn get(&mut self, engine: Engine) -> Result<Ground> {
        let ground = match (engine, &self.kvm, &self.spawner) {
            (Engine::Kvm | Engine::Linux, Some(kvm), _) => Ground::Kvm(kvm.clone()),
            (Engine::Process, _, Some(spawner)) => Ground::Process(spawner.clone()),
            (Engine::Kvm | Engine::Process | Engine::Linux, ..) => Ground::open(engine)?,
        };
        match &ground {
            Ground::Kvm(kvm) | Ground::Linux(kvm, _) => self.kvm = Some(kvm.clone()),
            Ground::Process(spawner) => self.spawner = Some(spawner.clone()),
        }
        Ok(ground)
    }
}
