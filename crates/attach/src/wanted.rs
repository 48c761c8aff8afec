//! What a NIC wants of what it is plugged into: everything that whoever opens, checks or serves it has to know of its file.

use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use port::steer::Hash;
use sandbox::Confinement;
use switch::Switch;
use uplink::{Mac, Undo};

use crate::{Attach, Attachment, Finding, Handed, Lack, Opened, Place};

/// The longest name of an interface, in octets.
const LONGEST: usize = 15;

/// What a NIC wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the router.
    pub router: String,
    /// Name of the NIC.
    pub nic: String,
    /// What it is plugged into.
    pub attach: Attach,
    /// Queues outside, each with a thread that empties it.
    pub queues: usize,
    /// Pairs of queues that frames towards the router are spread over.
    pub pairs: usize,
    /// Entries of each of its rings.
    pub ring: u32,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// Frames that wait for it at most.
    pub queue_len: u32,
    /// Whether as many wait as the router can take, found while it runs.
    pub is_tuned: bool,
    /// Whether checksums and the cutting of large frames may be left to who can do it.
    pub offload: bool,
    /// How frames are spread over its pairs.
    pub hash: Hash,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Whether the sender's thread copies frames from a switch into its ring.
    pub is_direct: bool,
    /// Whether the threads that serve it never sleep.
    pub is_polled: bool,
    /// Whether the kernel's vhost-net serves it.
    pub by_kernel: bool,
    /// Octets of memory that another program's virtual machine may share.
    pub memory_max: u64,
}

impl Wanted {
    /// The NIC: `edge.wan`.
    pub fn label(&self) -> String {
        format!("{}.{}", self.router, self.nic)
    }

    /// The name of its link where its file gives none: `edge.wan`, and the beginning of that with a number where it is longer than a
    /// name of an interface may be. No other NIC of this host has it, as no other router has its name.
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

    /// What is to be taken away after it, if anything, should whoever opens it be killed. To be told to somebody before it is opened.
    pub fn undo(&self) -> Option<Undo> {
        (self.attach.spec().undo)(self)
    }

    /// What is to be said of it on this host before anything is built; none where nothing outside is needed.
    ///
    /// # Errors
    /// What cannot be had, by key.
    pub fn look(&self) -> Result<Option<Finding>, Vec<Lack>> {
        match self.attach.spec().place {
            Place::Inside(_) => Ok(None),
            Place::Outside { look, .. } => look(self).map(Some),
        }
    }

    /// Opens what is outside; none where it is plugged into nothing, or into something of this program.
    ///
    /// # Errors
    /// One line that says what the host does not give.
    pub fn open(&self) -> Result<Option<Box<dyn Opened>>> {
        match self.attach.spec().place {
            Place::Inside(_) => Ok(None),
            Place::Outside { open, .. } => open(self).map(Some),
        }
    }

    /// What serves it: what is within this program, which has these switches, or by what was opened and handed over, in this process or
    /// another one.
    ///
    /// # Errors
    /// There is no such switch, or what was opened; that is something else; no thread or descriptor can be had.
    pub fn serve(
        &self,
        handed: Option<Handed>,
        switches: &[Arc<Switch>],
        confinement: Confinement,
    ) -> Result<Arc<dyn Attachment>> {
        match (self.attach.spec().place, handed) {
            (Place::Inside(inside), _) => inside(self, switches),
            (Place::Outside { serve, .. }, Some(handed)) => serve(handed, self, confinement),
            (Place::Outside { .. }, None) => bail!("{} is outside, and was not opened", self.attach),
        }
    }

    /// Whether what is there for a NIC that wanted `held` can go on for this one: by its name for one that shares it with others, and
    /// else for whoever names the same. What a virtual machine was offered it keeps.
    pub fn is_served_by(&self, held: &Self) -> bool {
        let traits = self.attach.traits();
        let offered = |wanted: &Self| (wanted.pairs, wanted.mtu, wanted.offload, wanted.memory_max);
        self.attach == held.attach
            && (!traits.is_common || self.label() == held.label())
            && self.by_kernel == held.by_kernel
            && (!traits.shares_memory || offered(self) == offered(held))
    }

    /// Whether what was opened for `held` has as many queues as this NIC needs: a link has those that it was made with.
    ///
    /// # Errors
    /// It has not.
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
