//! Description of a kind of attachment. Each kind has a file in `kinds`, and a line in its table.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anyhow::Result;
use kernel_router::Origin;
use sandbox::Confinement;
use serde::Serialize;
use switch::Switch;
use uplink::Undo;

use crate::{Attach, Attachment, HandedOver, HostResource, Keywords, NicRequirements};

/// A kind of attachment.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its name in files, before the colon.
    pub(crate) word: &'static str,
    /// Placeholder for the name after the colon, for display; `None`: there is neither colon nor name.
    pub(crate) behind: Option<&'static str>,
    /// Keys of a NIC that only some kinds have.
    pub(crate) keys: &'static [Key],
    /// Checks the name after the colon; arguments: the whole text, and the name.
    pub(crate) read: fn(&str, &str) -> Result<(), String>,
    /// Returns the properties that the rest of a plan depends on.
    pub(crate) traits: fn(&Attach) -> AttachmentProperties,
    /// Returns the undo action for the case that the process that opens it is killed, if one is needed.
    pub(crate) undo: fn(&NicRequirements) -> Option<Undo>,
    /// Its counters: the name of each group in metrics, and its fields with their meaning.
    pub(crate) counts: &'static [(&'static str, Fields)],
    /// Use by NICs of kernel routers; `None`: they cannot use it.
    pub(crate) kernel: Option<KernelUse>,
    /// Its location.
    pub(crate) place: Place,
}

/// Use of a kind of attachment by NICs of kernel routers.
#[derive(Clone, Copy)]
pub(crate) struct KernelUse {
    /// Checks before anything is created whether this host meets its requirements.
    pub(crate) look: fn(&NicRequirements) -> Result<Finding, Vec<MissingRequirement>>,
    /// Origin of the interface in the router.
    pub(crate) origin: fn(&NicRequirements) -> Origin,
    /// Opens what the interface is made of, before it moves into the router; `None`: it is made there.
    pub(crate) open: Option<Open>,
    /// True if the interface has a NAPI instance of its own, so that kernel threads can do its receive work. A TAP and a
    /// macvlan have none.
    pub(crate) has_napi: bool,
    /// True if the TUN driver creates it.
    pub(crate) needs_tun: bool,
}

/// Counters of a group, each with its meaning.
pub type Fields = &'static [(&'static str, &'static str)];

/// Opens an attachment on the host.
type Open = fn(&NicRequirements) -> Result<Box<dyn HostResource>>;

/// Creates an attachment inside the process that runs the router, which has these switches.
type Make = fn(&NicRequirements, &[Arc<Switch>]) -> Result<Arc<dyn Attachment>>;

/// Location of an attachment.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// Inside the process that runs the router, which has these switches.
    Inside(Make),
    /// On the host.
    Outside {
        /// Checks it before anything is built.
        look: fn(&NicRequirements) -> Result<Finding, Vec<MissingRequirement>>,
        /// Opens it, in a process that may do so.
        open: fn(&NicRequirements) -> Result<Box<dyn HostResource>>,
        /// Serves a NIC with what was opened and handed over.
        serve: fn(HandedOver, &NicRequirements, Confinement) -> Result<Arc<dyn Attachment>>,
    },
    /// In the namespace of a kernel router; no other engine can use it.
    Kernel,
}

impl Kind {
    /// Returns a kind at this location that names nothing of the host and has no keys.
    pub(crate) const fn plain(word: &'static str, behind: Option<&'static str>, place: Place) -> Self {
        Self {
            word,
            behind,
            keys: &[],
            read: |_, _| Ok(()),
            traits: |_| AttachmentProperties::default(),
            undo: |_| None,
            counts: &[],
            kernel: None,
            place,
        }
    }

    /// Returns its form: `tap:INTERFACE`.
    pub(crate) fn form(&self) -> String {
        self.behind.map_or_else(|| self.word.to_owned(), |behind| format!("{}:{behind}", self.word))
    }
}

/// A key of a NIC that only some kinds have.
#[derive(Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// Type of its value.
    pub takes: Takes,
    /// Description of the value, and of the default.
    pub shown: (&'static str, &'static str),
    /// Description of its effect.
    pub does: &'static str,
    /// Another key that this one requires; and the error if it is missing.
    pub with: Option<(&'static str, &'static str)>,
    /// What is lost when `apply` changes its value, for which the interface stays; `None`: the interface is replaced.
    pub in_place: Option<&'static str>,
    /// Word before its value in the description of an attachment.
    pub(crate) verb: &'static str,
}

impl Key {
    /// Creates a key without a required key, whose value is described without a verb.
    pub(crate) const fn new(
        name: &'static str,
        takes: Takes,
        shown: (&'static str, &'static str),
        does: &'static str,
    ) -> Self {
        Self { name, takes, shown, does, with: None, in_place: None, verb: "" }
    }
}

/// Type of a key's value.
#[derive(Debug)]
pub enum Takes {
    /// One of these words.
    Word(Keywords<()>),
    /// Any text, such as this quoted example.
    Text(&'static str),
    /// A whole number in this range.
    Number(RangeInclusive<u32>),
    /// `true` or `false`.
    Flag,
    /// A field of [`NicRequirements`]: read by the reader of the NIC.
    Elsewhere,
}

/// Properties of an attachment that the rest of a plan depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachmentProperties {
    /// Several NICs may share the same target.
    pub is_common: bool,
    /// The kernel has a queue before it whose length can be changed, and vhost-net can serve it: a TAP or
    /// macvtap.
    pub is_link: bool,
    /// It is created by the TUN driver.
    pub needs_tun: bool,
    /// It requires CAP_NET_ADMIN, because interfaces are created or changed.
    pub changes_interfaces: bool,
    /// Its name is an interface of the host that it is based on.
    pub is_on_interface: bool,
    /// This interface is moved into the namespace of the router, so that nothing else can be based on it.
    pub is_moved: bool,
    /// It is created by us, and created again if it is deleted; otherwise an existing resource is used.
    pub is_made: bool,
    /// A frame costs a system call.
    pub is_by_calls: bool,
    /// Another program is handed the NIC's rings.
    pub is_handed: bool,
    /// Another program's virtual machine shares its memory with us.
    pub shares_memory: bool,
}

/// A missing prerequisite: the key that names it, and the problem with its remedy.
pub type MissingRequirement = (&'static str, String);

/// Reports that the target named by `attach` is not available.
pub(crate) fn lack(what: String) -> Vec<MissingRequirement> {
    vec![("attach", what)]
}

/// Result of a check on this host.
pub type Finding = (State, String);

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Missing: something will not work.
    No,
    /// Works, but costs something or changes the meaning of figures.
    Note,
}

impl State {
    /// Returns its name in a table.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::No => "no",
            Self::Note => "note",
        }
    }

    /// Returns `Ok` if the condition holds, else the other.
    pub const fn ok_or(holds: bool, other: Self) -> Self {
        if holds { Self::Ok } else { other }
    }
}
