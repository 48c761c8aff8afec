//! The far side of a NIC: what it is plugged into. It stays while its router comes and goes, and when another router takes its place.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use config::{Attach, Nic, Plan, Router};
use switch::{Bell, Frame, Sink, Source, Switch};
use uplink::{Ownership, Tap, TapConfig};

use crate::capture::{self, Capture};
use crate::supplies::{Plug, Supplies};

/// What a NIC is plugged into.
pub(crate) struct Outlet {
    /// Which NIC: `router.nic`.
    label: String,
    attach: Attach,
    pub(crate) far: Far,
}

/// What lies beyond.
pub(crate) enum Far {
    /// Nothing.
    Nothing,
    /// A switch; each start of a router has a port of its own.
    Switch(Arc<Switch>),
    /// A TAP; each start of a router serves a duplicate.
    Tap(Tap),
    /// A capture file and the port that fills it.
    Capture {
        port: Arc<dyn Sink>,
        capture: Capture,
        /// Whether somebody was told that it has failed.
        told: AtomicBool,
    },
    /// A port that came from outside.
    Port { source: Home, sink: Arc<dyn Sink> },
    /// Somebody else serves the NIC.
    Later,
}

impl Outlet {
    /// Finds or makes what a NIC of a plan's router is plugged into: a plug that was supplied for it, what is held for
    /// one with the same attachment, what was supplied, and else something new.
    pub(crate) fn find(
        (plan, router, nic): (&Plan, &Router, &Nic),
        switches: &[Arc<Switch>],
        supplies: &mut Supplies,
        held: &[Arc<Self>],
    ) -> Result<Arc<Self>> {
        let label = format!("{}.{}", router.name, nic.name);
        let far = match supplies.plugs.remove(&label) {
            Some(Plug::Port { source, sink }) => Far::Port { source: Home::new(source), sink },
            Some(Plug::Later) => Far::Later,
            None => match held.iter().find(|outlet| outlet.serves(&label, nic)) {
                Some(outlet) => return outlet.check_queues(router, nic).map(|()| outlet.clone()),
                None => match supplied(&label, nic, supplies) {
                    Some(far) => far,
                    None => open((plan, router, nic), switches)?,
                },
            },
        };
        Ok(Arc::new(Self { label, attach: nic.attach.clone(), far }))
    }

    /// Whether it can go on for this NIC. A plug belongs to its NIC, whatever the file says; a TAP or a capture to
    /// whoever names it.
    fn serves(&self, label: &str, nic: &Nic) -> bool {
        match &self.far {
            Far::Port { .. } | Far::Later => self.label == label,
            Far::Tap(_) | Far::Capture { .. } => self.attach == nic.attach,
            Far::Nothing | Far::Switch(_) => false,
        }
    }

    /// A device has the number of queues that it was made with.
    fn check_queues(&self, router: &Router, nic: &Nic) -> Result<()> {
        let Far::Tap(tap) = &self.far else { return Ok(()) };
        let (has, wanted) = (tap.descriptors().len(), router.outer_queues(nic));
        ensure!(
            has == wanted,
            "the TAP `{}` has {has} queues while the run lasts, not {wanted}: choose another name, or start the run anew",
            tap.name()
        );
        Ok(())
    }

    /// The capture that has to be written out now and then, if it is one.
    pub(crate) fn capture(&self) -> Option<&Capture> {
        match &self.far {
            Far::Capture { capture, .. } => Some(capture),
            _ => None,
        }
    }

    /// Whether it is a capture that has failed since this was asked last.
    pub(crate) fn has_failed_since(&self) -> bool {
        match &self.far {
            Far::Capture { capture, told, .. } => capture.has_failed() && !told.swap(true, Ordering::Relaxed),
            _ => false,
        }
    }
}

fn supplied(label: &str, nic: &Nic, supplies: &mut Supplies) -> Option<Far> {
    match &nic.attach {
        Attach::Tap(_) => supplies.taps.remove(label).map(Far::Tap),
        Attach::Pcap(_) => supplies.captures.remove(label).map(captured),
        Attach::Switch(_) | Attach::Null => None,
    }
}

fn open((plan, router, nic): (&Plan, &Router, &Nic), switches: &[Arc<Switch>]) -> Result<Far> {
    Ok(match &nic.attach {
        Attach::Tap(interface) => Far::Tap(Tap::open(interface, &tap_config(router, nic))?),
        Attach::Pcap(path) => {
            captured(File::create(path).with_context(|| format!("cannot write {}", path.display()))?)
        }
        Attach::Switch(index) => {
            let name = plan.switches.get(*index).map(|switch| switch.name.as_str());
            let switch = switches.iter().find(|switch| Some(switch.name()) == name);
            Far::Switch(switch.context("a switch that is not there")?.clone())
        }
        Attach::Null => Far::Nothing,
    })
}

fn captured(file: File) -> Far {
    let (port, capture) = capture::into(file);
    Far::Capture { port, capture, told: AtomicBool::new(false) }
}

/// How the TAP of a NIC is to be.
pub fn tap_config(router: &Router, nic: &Nic) -> TapConfig<'static> {
    let (ownership, queues) = (Ownership::NewOrExisting, router.outer_queues(nic) as u16);
    TapConfig { queues, mtu: nic.mtu, queue_len: nic.queue_len, ownership, ..TapConfig::default() }
}

/// Where a source waits while nobody polls it.
#[derive(Clone)]
pub(crate) struct Home(Arc<Mutex<Option<Box<dyn Source>>>>);

impl Home {
    fn new(source: Box<dyn Source>) -> Self {
        Self(Arc::new(Mutex::new(Some(source))))
    }

    /// Lends the source to a thread; it comes back when that thread drops it. None while it is away.
    pub(crate) fn lend(&self) -> Option<Box<dyn Source>> {
        let source = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Box::new(Lent { source: Some(source), home: self.clone() }))
    }
}

/// A source that goes home when it is dropped.
struct Lent {
    /// None only while it is being dropped.
    source: Option<Box<dyn Source>>,
    home: Home,
}

impl Source for Lent {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.source.as_mut().map_or(0, |source| source.drain(budget, take))
    }

    fn waits(&self) -> bool {
        self.source.as_ref().is_none_or(|source| source.waits())
    }

    fn arm(&mut self) -> bool {
        self.source.as_mut().is_some_and(|source| source.arm())
    }

    fn disarm(&mut self) {
        if let Some(source) = &mut self.source {
            source.disarm();
        }
    }

    fn bell(&self) -> Bell<'_> {
        self.source.as_ref().map_or(Bell::None, |source| source.bell())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.home.0.lock().unwrap_or_else(PoisonError::into_inner) = self.source.take();
    }
}
