//! Control namespaces, and the shadows of NICs in them. They are made before the data plane needs them, and live as long as the
//! file has their routers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use config::{Nic, Plan, Router};
use kernel_router::{Leftover, RouterConfig, Surroundings};
use netns::Namespace;
use uplink::{Netns, Tap, TapConfig};

use super::{settle, wanted};
use crate::kernels::backend::{Journal, Remains, start_patiently};

/// Records for the cleaner what a namespace would leave behind; `None`: nobody needs to know.
#[derive(Clone, Default)]
pub(crate) struct ControlJournal(Option<Arc<Mutex<Journal>>>);

impl ControlJournal {
    pub(crate) fn new(journal: Journal) -> Self {
        Self(Some(Arc::new(Mutex::new(journal))))
    }

    fn note(&self, leftover: &Leftover) {
        if let Some(journal) = &self.0 {
            let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal(Remains::Kernel(leftover));
        }
    }
}

impl fmt::Debug for ControlJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlJournal").finish_non_exhaustive()
    }
}

/// Namespace of a control plane. It ends with its last clone.
#[derive(Clone, Debug)]
pub(crate) struct ControlNamespace {
    namespace: Namespace,
    home: Namespace,
    /// What is in force there: like a router's, but it does not forward.
    inside: Arc<Mutex<kernel_router::Router>>,
}

impl ControlNamespace {
    /// Makes a namespace that `ip netns` shows under the name of its router.
    fn new(router: &str, journal: &ControlJournal) -> Result<Self> {
        let home = Namespace::current().context("where this program runs")?;
        let (others, empty) = (BTreeMap::new(), wanted::empty(router));
        let site = Surroundings { home: &home, others: &others };
        let inside = start_patiently(&empty, &site, &mut |leftover| journal.note(leftover))?;
        let namespace = inside.namespace().clone();
        Ok(Self { namespace, home, inside: Arc::new(Mutex::new(inside)) })
    }

    pub(crate) const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Brings this into force.
    ///
    /// # Errors
    /// One line: what the kernel refuses. Then the former state is in force.
    pub(super) fn apply(&self, wanted: RouterConfig) -> Result<()> {
        let others = BTreeMap::new();
        let site = Surroundings { home: &self.home, others: &others };
        self.inside().apply(wanted, &site, &mut |_| {})?;
        Ok(())
    }

    /// Makes the shadow of a NIC, down and without addresses.
    fn shadow(&self, nic: &Nic) -> Result<Tap> {
        let netns = Netns(self.namespace.clone());
        // What the kernel sends there is whole: the NIC's link may take less than the kernel could leave to it.
        let config = TapConfig {
            mtu: nic.mtu,
            mac: Some(nic.mac.0),
            up: false,
            offload: false,
            netns: Some(&netns),
            ..TapConfig::default()
        };
        Ok(Tap::open(&nic.name, &config)?)
    }

    fn inside(&self) -> MutexGuard<'_, kernel_router::Router> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What control planes need of the host.
#[derive(Debug, Default)]
pub(crate) struct ControlResources {
    /// By router.
    namespaces: BTreeMap<String, ControlNamespace>,
    /// Shadows, by NIC (`edge.wan`).
    shadows: BTreeMap<String, Tap>,
}

/// What is there already.
#[derive(Debug, Default)]
pub(crate) struct OpenControl {
    namespaces: BTreeMap<String, ControlNamespace>,
    shadows: BTreeSet<String>,
    pub(crate) journal: ControlJournal,
}

impl ControlResources {
    /// Makes what `plan` needs and is not there.
    ///
    /// # Errors
    /// One line that names the router.
    pub(crate) fn open(plan: &Plan, held: &OpenControl) -> Result<Self> {
        let mut opened = Self::default();
        for router in plan.shadowed() {
            opened.open_for(router, held).with_context(|| format!("control plane of {}", router.name))?;
        }
        Ok(opened)
    }

    fn open_for(&mut self, router: &Router, held: &OpenControl) -> Result<()> {
        let namespace = match held.namespaces.get(&router.name) {
            Some(namespace) => namespace.clone(),
            None => {
                let namespace = ControlNamespace::new(&router.name, &held.journal)?;
                self.namespaces.insert(router.name.clone(), namespace.clone());
                namespace
            }
        };
        if !router.forwarding.interfaces.is_empty() {
            settle::may_have_vlans(namespace.namespace())?;
        }
        for nic in &router.nics {
            let label = label(router, nic);
            if !held.shadows.contains(&label) {
                let shadow = namespace.shadow(nic).with_context(|| format!("NIC {}", nic.name))?;
                self.shadows.insert(label, shadow);
            }
        }
        Ok(())
    }

    /// What is there of what a plan needs.
    pub(crate) fn held(&self) -> OpenControl {
        OpenControl {
            namespaces: self.namespaces.clone(),
            shadows: self.shadows.keys().cloned().collect(),
            journal: ControlJournal::default(),
        }
    }

    /// Namespace of a router's control plane.
    pub(crate) fn namespace(&self, router: &str) -> Option<&ControlNamespace> {
        self.namespaces.get(router)
    }

    /// Shadow of a NIC (`edge.wan`).
    pub(crate) fn shadow(&self, nic: &str) -> Option<&Tap> {
        self.shadows.get(nic)
    }

    /// Handles for the shadows of a router, by NIC (`wan`); one that cannot be had is left out.
    pub(super) fn shadows_of(&self, router: &Router) -> BTreeMap<String, Tap> {
        let shadow =
            |nic: &Nic| Some((nic.name.clone(), self.shadow(&label(router, nic))?.try_clone().ok()?));
        router.nics.iter().filter_map(shadow).collect()
    }

    /// Keeps what was opened, and returns what `plan` does not need any more.
    pub(crate) fn adopt(&mut self, opened: Self, plan: &Plan) -> Self {
        self.namespaces.extend(opened.namespaces);
        self.shadows.extend(opened.shadows);
        let is_controlled = |name: &String| plan.shadowed().any(|router| router.name == *name);
        let is_shadowed = |held: &String| {
            plan.shadowed().any(|router| router.nics.iter().any(|nic| label(router, nic) == *held))
        };
        let (namespaces, gone) =
            std::mem::take(&mut self.namespaces).into_iter().partition(|(name, _)| is_controlled(name));
        let (shadows, pulled) =
            std::mem::take(&mut self.shadows).into_iter().partition(|(held, _)| is_shadowed(held));
        (self.namespaces, self.shadows) = (namespaces, shadows);
        Self { namespaces: gone, shadows: pulled }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.shadows.is_empty()
    }
}

fn label(router: &Router, nic: &Nic) -> String {
    format!("{}.{}", router.name, nic.name)
}
