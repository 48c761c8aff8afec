//! Outlet of a NIC: its attachment. It is kept while its router is restarted, and when another router
//! replaces it.

use std::ops::Deref;
use std::sync::Arc;

use anyhow::Result;
use attach::{Attachment, NicRequirements};
use config::{Nic, Router};
use switch::Switch;

use crate::control::Shadow;
use crate::ensemble::Ensembles;
use crate::kernel_vhost::KernelNic;
use crate::supplies::HostServices;

/// The attachment that a NIC is plugged into.
#[derive(Clone)]
pub(crate) struct Outlet {
    /// The requirements of the NIC.
    wanted: NicRequirements,
    /// The attachment as the router has it.
    at: Arc<dyn Attachment>,
    /// The attachment itself, which mostly is the same.
    link: Arc<dyn Attachment>,
    /// True if it was supplied for this NIC, overriding the file.
    is_plug: bool,
    /// The vhost-net side, if the kernel serves the NIC.
    pub(crate) kernel: Option<Arc<KernelNic>>,
    /// The NIC's shadow, if its router has a control plane.
    pub(crate) shadow: Option<Arc<Shadow>>,
}

impl Deref for Outlet {
    type Target = dyn Attachment;

    fn deref(&self) -> &Self::Target {
        &*self.at
    }
}

/// What a NIC has for itself: its link, whether that was supplied for it, and the vhost-net side.
type OwnLink = (Arc<dyn Attachment>, bool, Option<Arc<KernelNic>>);

impl Outlet {
    /// Finds or makes what a NIC of a router is plugged into: its part of what a group shares, a plug that was supplied for it, what is
    /// held for one with the same attachment, what was supplied, and else something within.
    pub(crate) fn find(
        (router, nic): (&Router, &Nic),
        switches: &[Arc<Switch>],
        supplies: &mut HostServices,
        (held, ensembles): (&[Arc<Self>], &Ensembles),
    ) -> Result<Arc<Self>> {
        let wanted = router.wanted(nic);
        let shadow = Shadow::find((router, nic), supplies, held)?;
        if let Some(at) = ensembles.seat((router, nic), switches, supplies)? {
            let link = at.clone();
            return Ok(Arc::new(Self { wanted, at, link, is_plug: false, kernel: None, shadow }));
        }
        let (link, is_plug, kernel) = Self::alone((router, nic), &wanted, (switches, &mut *supplies), held)?;
        let inside = ensembles.inside((router, nic), &link, (switches, supplies))?;
        let at = inside.unwrap_or_else(|| link.clone());
        Ok(Arc::new(Self { wanted, at, link, is_plug, kernel, shadow }))
    }

    /// Finds or makes what a NIC has for itself.
    fn alone(
        (router, nic): (&Router, &Nic),
        wanted: &NicRequirements,
        (switches, supplies): (&[Arc<Switch>], &mut HostServices),
        held: &[Arc<Self>],
    ) -> Result<OwnLink> {
        let label = wanted.label();
        if let Some(at) = supplies.plugs.remove(&label) {
            return Ok((at, true, None));
        }
        if let Some(held) = held.iter().find(|held| held.serves(wanted)) {
            wanted.check_queues(&held.wanted)?;
            return Ok((held.link.clone(), held.is_plug, held.kernel.clone()));
        }
        let (at, kernel): (Arc<dyn Attachment>, _) = match supplies.opened.remove(&label) {
            Some(link) if wanted.by_kernel => {
                let kernel = KernelNic::new((router, nic), attach::tap(link)?, supplies)?;
                (kernel.clone(), Some(kernel))
            }
            handed => (wanted.serve(handed, switches, supplies.confinement)?, None),
        };
        Ok((at, false, kernel))
    }

    /// Returns true if it can continue to serve a NIC with these requirements. A plug belongs to its NIC,
    /// whatever the file says.
    fn serves(&self, wanted: &NicRequirements) -> bool {
        if self.is_plug { self.is_of(&wanted.label()) } else { wanted.is_served_by(&self.wanted) }
    }

    /// Returns true if it is the outlet of the NIC `label` (`edge.wan`).
    pub(crate) fn is_of(&self, label: &str) -> bool {
        self.wanted.label() == label
    }

    /// How its router is in a group, in one line; none: it is no member of one.
    pub(crate) fn member_state(&self) -> Option<String> {
        self.state().filter(|(what, _)| *what == "member").map(|(_, state)| state)
    }

    /// Returns true if a starting router should wait a little, so that its driver is offered the features of
    /// the vhost-user peer that is handed its rings.
    pub(crate) fn awaits_peer(&self) -> bool {
        self.link() == Some(false) && self.consumer().is_some()
    }
}
