//! Resources of the host that the routers of an instance run on, opened once: a confined process could not
//! open them later.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{Engine, Linux, Plan, Router};
use vmm::{Kvm, Spawn};

use crate::guest::{ExecutionBackend, Images};

/// The KVM handle and the process spawner, as far as they were needed yet.
pub(crate) struct BackendPool {
    kvm: Option<Arc<Kvm>>,
    spawner: Option<Arc<dyn Spawn>>,
    /// Kernel and initial file system of Linux guests, by router: while its plan is being changed, those of both plans.
    images: HashMap<String, Vec<Arc<Images>>>,
}

impl BackendPool {
    pub(crate) fn new(kvm: Option<Arc<Kvm>>, spawner: Option<Arc<dyn Spawn>>) -> Self {
        Self { kvm, spawner, images: HashMap::new() }
    }

    /// Adds the images (kernel, initial file system) of Linux guests. Those of another configuration are kept: a change that comes
    /// with new ones may be undone.
    pub(crate) fn add_images(&mut self, images: HashMap<String, Images>) {
        for (router, images) in images {
            let known = self.images.entry(router).or_default();
            known.retain(|known| !known.are_of(images.linux()));
            known.push(Arc::new(images));
        }
    }

    /// Closes the images that no router of this plan starts from.
    pub(crate) fn keep_images(&mut self, plan: &Plan) {
        self.images.retain(|name, images| {
            let router = plan.routers.iter().find(|router| router.name == *name);
            let linux = router.and_then(|router| router.linux.as_ref());
            images.retain(|images| linux.is_some_and(|linux| images.are_of(linux)));
            !images.is_empty()
        });
    }

    /// Returns the images of a router for this configuration.
    ///
    /// # Errors
    /// They were not added, and cannot be opened.
    fn images_of(&mut self, router: &str, linux: &Linux) -> Result<Arc<Images>> {
        let known = self.images.get(router).and_then(|known| known.iter().find(|known| known.are_of(linux)));
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let images = Images::open(linux).with_context(|| format!("router {router}"))?;
        let images = Arc::new(images);
        self.images.entry(router.to_owned()).or_default().push(images.clone());
        Ok(images)
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
        Ok(ExecutionBackend::Linux(kvm, self.images_of(&router.name, linux)?))
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn images_of_the_former_plan_are_kept_until_the_new_one_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let linux = |name: &str| {
            let kernel = folder.path().join(name);
            fs::write(&kernel, "a kernel").expect("a file");
            Linux { kernel, ..Linux::default() }
        };
        let (old, new) = (linux("old"), linux("new"));
        let mut pool = BackendPool::new(None, None);
        for linux in [&old, &new, &new] {
            let images = Images::open(linux).expect("they are there");
            pool.add_images(HashMap::from([("tux".to_owned(), images)]));
        }
        // From now on nothing can be opened any more, as in a confined process.
        fs::remove_file(&old.kernel).and_then(|()| fs::remove_file(&new.kernel)).expect("they are there");
        assert_eq!(pool.images["tux"].len(), 2);
        for linux in [&old, &new] {
            assert!(pool.images_of("tux", linux).expect("they were opened").are_of(linux));
        }
        let text = "[[router]]\nname = 'tux'\n[[router.nic]]\nname = 'n'\nattach = 'null'\n";
        let mut plan = config::parse(text, "r.toml").expect("a good file");
        plan.routers[0].linux = Some(new.clone());
        pool.keep_images(&plan);
        assert!(pool.images_of("tux", &old).is_err());
        assert!(pool.images_of("tux", &new).is_ok());
        pool.keep_images(&Plan::default());
        assert!(pool.images.is_empty());
    }
}
