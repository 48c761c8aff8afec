//! Requirements of a NIC for its attachment: everything in its configuration that opening, checking or
//! serving it depends on.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use kernel_router::Origin;
use port::steer::Hash;
use sandbox::Confinement;
use switch::Switch;
use uplink::{Mac, Undo};

use crate::{Attach, Attachment, Finding, HandedOver, HostResource, MissingRequirement, Place};

/// Maximum octets of an interface name.
const LONGEST: usize = 15;

/// Requirements of a NIC for its attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicRequirements {
    /// Name of the router.
    pub router: String,
    /// Name of the NIC.
    pub nic: String,
    /// The attachment.
    pub attach: Attach,
    /// Number of outside queues, each drained by a thread of its own.
    pub queues: usize,
    /// Number of queue pairs over which frames towards the router are spread.
    pub pairs: usize,
    /// Entries of each of the NIC's rings.
    pub ring: u32,
    /// MTU in octets.
    pub mtu: u32,
    /// Maximum number of frames that wait for it.
    pub queue_len: u32,
    /// True if that limit is adapted at run time to what the router can take.
    pub is_tuned: bool,
    /// True if checksum and segmentation offloads may be left to the consumer.
    pub offload: bool,
    /// Hash by which frames are spread over its queue pairs.
    pub hash: Hash,
    /// True if frames are dealt out one by one over its outside queues, whatever flows they are of.
    pub in_turn: bool,
    /// Its MAC address.
    pub mac: Mac,
    /// True if senders copy frames from a switch directly into its ring.
    pub is_direct: bool,
    /// True if the threads that serve it never sleep.
    pub is_polled: bool,
    /// True if the kernel's vhost-net serves it.
    pub by_kernel: bool,
    /// Maximum octets of memory that another program's virtual machine may share.
    pub memory_max: u64,
    /// True if the NIC belongs to a kernel router.
    pub in_kernel: bool,
    /// True if its router has a control plane, whose frames are not to wait behind others.
    pub has_control: bool,
}

impl NicRequirements {
    /// Returns the name of the NIC: `edge.wan`.
    pub fn label(&self) -> String {
        format!("{}.{}", self.router, self.nic)
    }

    /// Returns the name of its link if its file gives none: `edge.wan`, or its beginning with a hash if it is
    /// longer than an interface name may be. It is unique on this host, because router names are.
    pub(crate) fn link_name(&self) -> String {
        let whole = self.label();
        if whole.len() <= LONGEST {
            return whole;
        }
        // FNV-1a, folded.
        let hash = whole
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
        let number = format!(".{:04x}", (hash >> 16 ^ hash) & 0xffff);
        let begin: String = whole.chars().take(LONGEST - number.len()).collect();
        begin + &number
    }

    /// Returns the undo action for the case that the process that opens it is killed, if one is needed. To be
    /// registered before it is opened.
    pub fn undo(&self) -> Option<Undo> {
        let spec = self.attach.spec();
        // The interfaces of kernel routers are recorded where they are created, or before they are opened.
        let is_opened = !self.in_kernel || spec.kernel.is_some_and(|kernel| kernel.open.is_some());
        if is_opened { (spec.undo)(self) } else { None }
    }

    /// Returns the origin of the interface of a kernel router's NIC.
    ///
    /// # Errors
    /// Kernel routers cannot use this attachment.
    pub fn origin(&self) -> Result<Origin> {
        let kernel = self.attach.spec().kernel;
        let kernel =
            kernel.with_context(|| format!("no interface of the kernel can stand on {}", self.attach))?;
        Ok((kernel.origin)(self))
    }

    /// Checks it on this host before anything is built; returns `None` if it needs nothing outside.
    ///
    /// # Errors
    /// The missing prerequisites, by key.
    pub fn look(&self) -> Result<Option<Finding>, Vec<MissingRequirement>> {
        match (self.attach.spec().place, self.attach.spec().kernel) {
            (_, Some(kernel)) if self.in_kernel => (kernel.look)(self).map(Some),
            (Place::Inside(_) | Place::Kernel, _) => Ok(None),
            (Place::Outside { look, .. }, _) => look(self).map(Some),
        }
    }

    /// Returns true if the TUN driver creates it.
    pub fn needs_tun(&self) -> bool {
        let kernel = self.attach.spec().kernel;
        if self.in_kernel {
            kernel.is_some_and(|kernel| kernel.needs_tun)
        } else {
            self.attach.traits().needs_tun
        }
    }

    /// Opens the outside part; returns `None` if the NIC is plugged into nothing, or into a part of this program, or if only the
    /// kernel uses the attachment and makes its interface in the router.
    ///
    /// # Errors
    /// One line that says what the host refuses.
    pub fn open(&self) -> Result<Option<Box<dyn HostResource>>> {
        let kind = self.attach.spec();
        let outside = match kind.place {
            Place::Outside { open, .. } => Some(open),
            Place::Inside(_) | Place::Kernel => None,
        };
        let of_kernel = kind.kernel.and_then(|kernel| kernel.open);
        let open = if self.in_kernel { of_kernel } else { outside };
        open.map(|open| open(self)).transpose()
    }

    /// Returns the attachment that serves it: one inside this program, which has these switches, or one made
    /// from what was opened and handed over by this process or another one.
    ///
    /// # Errors
    /// There is no such switch, or nothing was opened; what was opened is of another kind; no thread or
    /// descriptor is available.
    pub fn serve(
        &self,
        handed: Option<HandedOver>,
        switches: &[Arc<Switch>],
        confinement: Confinement,
    ) -> Result<Arc<dyn Attachment>> {
        match (self.attach.spec().place, handed) {
            (Place::Inside(inside), _) => inside(self, switches),
            (Place::Outside { serve, .. }, Some(handed)) => serve(handed, self, confinement),
            (Place::Outside { .. }, None) => bail!("{} is outside, and was not opened", self.attach),
            (Place::Kernel, _) => bail!("{} is for the host's kernel alone", self.attach),
        }
    }

    /// Returns true if the attachment of a NIC with requirements `held` can be kept for this one: if several
    /// NICs can share the target, only for the same NIC; otherwise for any NIC with the same attachment. The
    /// features offered to a virtual machine cannot be changed.
    pub fn is_served_by(&self, held: &Self) -> bool {
        let traits = self.attach.traits();
        let offered = |wanted: &Self| (wanted.pairs, wanted.mtu, wanted.offload, wanted.memory_max);
        self.attach == held.attach
            && (!traits.is_common || self.label() == held.label())
            && self.by_kernel == held.by_kernel
            && (!traits.shares_memory || offered(self) == offered(held))
    }

    /// Checks that what was opened for `held` has as many queues as this NIC needs: a link keeps the queues
    /// that it was created with.
    ///
    /// # Errors
    /// It has another number of queues.
    pub fn check_queues(&self, held: &Self) -> Result<()> {
        let traits = self.attach.traits();
        if !traits.is_link {
            return Ok(());
        }
        let is_named = !traits.is_common && !traits.is_on_interface;
        let name = if is_named { self.attach.name().to_owned() } else { held.link_name() };
        ensure!(
            held.queues == self.queues,
            "the TAP `{name}` has {} queues while the run lasts, not {}: choose another name, or start the run anew",
            held.queues,
            self.queues
        );
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
