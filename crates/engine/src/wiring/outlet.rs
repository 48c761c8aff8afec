//! The far side of a NIC: what it is plugged into. It stays while its router comes and goes, and when another router takes its place.

use std::ops::Deref;
use std::sync::Arc;

use anyhow::Result;
use attach::{Attachment, Wanted};
use config::{Nic, Router};
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
    pub(crate) kernel: Option<Arc<KernelNic>>,
}

impl Deref for Outlet {
    type Target = dyn Attachment;

    fn deref(&self) -> &Self::Target {
        &*self.at
    }
}

impl Outlet {
    /// Finds or makes what a NIC of a router is plugged into: a plug that was supplied for it, what is held for one with the same
    /// attachment, what was supplied, and else something within.
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
        let (at, kernel): (Arc<dyn Attachment>, _) = match supplies.opened.remove(&label) {
            Some(link) if wanted.by_kernel => {
                let kernel = KernelNic::new((router, nic), attach::tap(link)?, supplies)?;
                (kernel.clone(), Some(kernel))
            }
            handed => (wanted.serve(handed, switches, supplies.confinement)?, None),
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

    /// Whether a router that starts should wait a little, so that its driver is offered what the peer can do that is handed
    /// its rings.
    pub(crate) fn awaits_peer(&self) -> bool {
        self.link() == Some(false) && self.consumer().is_some()
    }
}
