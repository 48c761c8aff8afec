//! Resources of the host that the routers of an instance run on, opened once: a confined process could not
//! open them later.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{Engine, Router};
use vmm::{Kvm, Spawn};

use crate::guest::{ExecutionBackend, Images};

/// The KVM handle and the process spawner, as far as they were needed yet.
pub(crate) struct BackendPool {
    kvm: Option<Arc<Kvm>>,
    spawner: Option<Arc<dyn Spawn>>,
    /// Kernel and initial file system of Linux guests, by router.
    images: HashMap<String, Arc<Images>>,
}

impl BackendPool {
    pub(crate) fn new(kvm: Option<Arc<Kvm>>, spawner: Option<Arc<dyn Spawn>>) -> Self {
        Self { kvm, spawner, images: HashMap::new() }
    }

    /// Adds the images (kernel, initial file system) of Linux guests.
    pub(crate) fn add_images(&mut self, images: HashMap<String, Images>) {
        self.images.extend(images.into_iter().map(|(router, images)| (router, Arc::new(images))));
    }

    /// Adds the handles that came with a change; those held already are kept.
    pub(crate) fn add(&mut self, kvm: Option<Arc<Kvm>>, spawner: Option<Arc<dyn Spawn>>) {
        self.kvm = self.kvm.take().or(kvm);
        self.spawner = self.spawner.take().or(spawner);
    }

    /// Chooses the engine for a router whose file names none: KVM if available, else a process.
    pub(crate) fn choose(&mut self) -> Engine {
        if self.get(Engine::Kvm).is_ok() { Engine::Kvm } else { Engine::Process }
    }

    /// Returns the resources that this router runs on.
    ///
    /// # Errors
    /// One line: why KVM, the process spawner or the Linux kernel is not available.
    pub(crate) fn of(&mut self, router: &Router) -> Result<ExecutionBackend> {
        let engine = router.engine.unwrap_or_else(|| self.choose());
        let Some(linux) = &router.linux else { return self.get(engine) };
        let ExecutionBackend::Kvm(kvm) = self.get(Engine::Kvm)? else { return self.get(engine) };
        let images = match self.images.get(&router.name) {
            Some(images) if images.are_of(linux) => images.clone(),
            _ => {
                let images = Images::open(linux).with_context(|| format!("router {}", router.name))?;
                let images = Arc::new(images);
                self.images.insert(router.name.clone(), images.clone());
                images
            }
        };
        Ok(ExecutionBackend::Linux(kvm, images))
    }

    /// Returns the resources that this engine needs of the host.
    ///
    /// # Errors
    /// One line: why KVM or the process spawner is not available.
    pub(crate) fn get(&mut self, engine: Engine) -> Result<ExecutionBackend> {
        let backend = match (engine, &self.kvm, &self.spawner) {
            (Engine::Kvm | Engine::Linux, Some(kvm), _) => ExecutionBackend::Kvm(kvm.clone()),
            (Engine::Process, _, Some(spawner)) => ExecutionBackend::Process(spawner.clone()),
            (Engine::Kvm | Engine::Process | Engine::Linux | Engine::Kernel | Engine::Lxc, ..) => {
                ExecutionBackend::open(engine)?
            }
        };
        match &backend {
            ExecutionBackend::Kvm(kvm) | ExecutionBackend::Linux(kvm, _) => self.kvm = Some(kvm.clone()),
            ExecutionBackend::Process(spawner) => self.spawner = Some(spawner.clone()),
        }
        Ok(backend)
    }
}
