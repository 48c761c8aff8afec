//! The far side of a NIC: what it is plugged into. It stays while its router comes and goes, and when another router takes its place.

use std::sync::Arc;

use anyhow::Result;
use attach::{Attachment, Link, News, Opened, Ports, Site, Wanted};
use config::{Nic, Router};
use nic_port::Receiver;
use switch::Switch;

use crate::kernel_vhost::KernelNic;
use crate::supplies::Supplies;

/// What a NIC is plugged into.
#[derive(Clone)]
pub(crate) struct Outlet {
    /// What the NIC wants of it.
    wanted: Wanted,
    at: Arc<dyn Attachment>,
    /// It was supplied for this NIC, whatever the file says.
    is_plug: bool,
    /// Where the kernel serves the NIC, that.
    kernel: Option<Arc<KernelNic>>,
}

impl Outlet {
    /// Finds or makes what a NIC of a router is plugged into: a plug that was supplied for it, what is held for one with the same
    /// attachment, what was supplied, and else something new.
    pub(crate) fn find(
        (router, nic): (&Router, &Nic),
        switches: &[Arc<Switch>],
        supplies: &mut Supplies,
        held: &[Arc<Self>],
    ) -> Result<Arc<Self>> {
        let wanted = router.wanted(nic);
        let label = wanted.label();
        if let Some(at) = supplies.plugs.remove(&label) {
            return Ok(Arc::new(Self { wanted, at, is_plug: true, kernel: None }));
        }
        if let Some(held) = held.iter().find(|held| held.serves(&wanted)) {
            wanted.check_queues(&held.wanted)?;
            return Ok(Arc::new(Self { wanted, ..Self::clone(held) }));
        }
        let opened = match supplies.opened.remove(&label) {
            Some(opened) => Some(opened),
            None => wanted.open()?,
        };
        let (at, kernel): (Arc<dyn Attachment>, _) = match opened {
            None => (wanted.inside(switches)?, None),
            Some(opened) if wanted.by_kernel => {
                let kernel = KernelNic::new((router, nic), *opened.into_kind::<Link>()?, supplies)?;
                (kernel.clone(), Some(kernel))
            }
            Some(opened) => (opened.serve(&wanted, supplies.confinement)?, None),
        };
        Ok(Arc::new(Self { wanted, at, is_plug: false, kernel }))
    }

    /// Whether it can go on for a NIC that wants this. A plug belongs to its NIC, whatever the file says.
    fn serves(&self, wanted: &Wanted) -> bool {
        if self.is_plug { self.is_of(&wanted.label()) } else { wanted.is_served_by(&self.wanted) }
    }

    /// Whether it is what the NIC `label` (`edge.wan`) is plugged into.
    pub(crate) fn is_of(&self, label: &str) -> bool {
        self.wanted.label() == label
    }

    /// Both ways, for one start of a router.
    pub(crate) fn ports(&self, site: &Site<'_>) -> Result<Ports> {
        self.at.ports(site)
    }

    /// Whether somebody is at the other end of its cable, where that comes and goes.
    pub(crate) fn link(&self) -> Option<bool> {
        self.at.link()
    }

    /// What has happened since this was asked last; to be asked about ten times a second.
    pub(crate) fn news(&self) -> Option<News> {
        self.at.news()
    }

    /// Whether a router that starts should wait a little, so that its driver is offered what the peer can do that is handed
    /// its rings.
    pub(crate) fn awaits_peer(&self) -> bool {
        self.at.link() == Some(false) && self.at.consumer().is_some()
    }

    /// What the device model may offer, and who takes over what its driver sets up, where the NIC's rings are handed to somebody.
    pub(crate) fn consumer(&self) -> Option<(u64, Arc<dyn Receiver>)> {
        self.at.consumer()
    }

    /// How it is, in one line, and what that is called.
    pub(crate) fn state(&self) -> Option<(&'static str, String)> {
        self.at.state()
    }

    /// Where the kernel serves the NIC, that.
    pub(crate) fn kernel(&self) -> Option<&Arc<KernelNic>> {
        self.kernel.as_ref()
    }

    /// Puts a link in the place of one that was deleted, under whoever serves that.
    pub(crate) fn replace(&self, by: Box<dyn Opened>) -> Result<()> {
        self.at.replace(by)
    }
}
