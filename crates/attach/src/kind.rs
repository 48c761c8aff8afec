//! What a kind of attachment says of itself. Each has a file in `kinds`, and a line in its table.

use std::sync::Arc;

use anyhow::Result;
use sandbox::Confinement;
use serde::Serialize;
use switch::Switch;
use uplink::Undo;

use crate::{Attach, Attachment, Handed, Opened, Wanted, Words};

/// A kind of attachment.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Its word in files, before the colon.
    pub(crate) word: &'static str,
    /// What stands behind the colon, as it is shown; none: nothing does, and there is no colon.
    pub(crate) behind: Option<&'static str>,
    /// Keys of a NIC that it has and not every kind.
    pub(crate) keys: &'static [Key],
    /// What is wrong with what stands behind the colon, if something is: first all of it, with the word.
    pub(crate) read: fn(&str, &str) -> Result<(), String>,
    /// What the rest of a plan has to know of it.
    pub(crate) traits: fn(&Attach) -> Traits,
    /// What is to be taken away after it, if anything, should whoever opens it be killed.
    pub(crate) undo: fn(&Wanted) -> Option<Undo>,
    /// What it counts: what metrics call each group, and what its fields mean.
    pub(crate) counts: &'static [(&'static str, Fields)],
    /// Where it is.
    pub(crate) place: Place,
}

/// Counters of a group, each with what it means.
pub type Fields = &'static [(&'static str, &'static str)];

/// Makes an attachment in the process that runs the router, which has these switches.
type Make = fn(&Wanted, &[Arc<Switch>]) -> Result<Arc<dyn Attachment>>;

/// Where what a NIC is plugged into is.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// In the process that runs the router, which has these switches.
    Inside(Make),
    /// On the host.
    Outside {
        /// What is to be said of it before anything is built, or what cannot be had.
        look: fn(&Wanted) -> Result<Finding, Vec<Lack>>,
        /// Opens it, for who may do so.
        open: fn(&Wanted) -> Result<Box<dyn Opened>>,
        /// Serves a NIC by what was opened and handed over.
        serve: fn(Handed, &Wanted, Confinement) -> Result<Arc<dyn Attachment>>,
    },
}

impl Kind {
    /// A kind of this place that names nothing of the host and has no keys.
    pub(crate) const fn plain(word: &'static str, behind: Option<&'static str>, place: Place) -> Self {
        Self {
            word,
            behind,
            keys: &[],
            read: |_, _| Ok(()),
            traits: |_| Traits::default(),
            undo: |_| None,
            counts: &[],
            place,
        }
    }

    /// How it is written: `tap:INTERFACE`.
    pub(crate) fn form(&self) -> String {
        self.behind.map_or_else(|| self.word.to_owned(), |behind| format!("{}:{behind}", self.word))
    }
}

/// A key of a NIC that only some kinds have.
#[derive(Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// That in words, and what is so where a file does not say it.
    pub shown: (&'static str, &'static str),
    /// What it does.
    pub does: &'static str,
    /// Another key, without which this one says nothing; and what is wrong then.
    pub with: Option<(&'static str, &'static str)>,
    /// What its value follows where an attachment is told in words.
    pub(crate) verb: &'static str,
}

impl Key {
    /// A key that stands alone, and whose value does, too.
    pub(crate) const fn new(
        name: &'static str,
        takes: Takes,
        shown: (&'static str, &'static str),
        does: &'static str,
    ) -> Self {
        Self { name, takes, shown, does, with: None, verb: "" }
    }
}

/// What a key takes.
#[derive(Debug)]
pub enum Takes {
    /// One of these words.
    Word(Words<()>),
    /// Any text, such as this one with its quotes.
    Text(&'static str),
    /// What [`Wanted`] has a field for: who reads the NIC reads it.
    Elsewhere,
}

/// What the rest of a plan has to know of an attachment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Several NICs may be plugged into the same.
    pub is_common: bool,
    /// The kernel has a queue before it whose length can be changed, and vhost-net can serve it: a TAP or macvtap.
    pub is_link: bool,
    /// The TUN driver makes it.
    pub needs_tun: bool,
    /// It takes CAP_NET_ADMIN, because interfaces are made or changed.
    pub changes_interfaces: bool,
    /// What it names is an interface of the host that it stands on.
    pub is_on_interface: bool,
    /// What is opened is made by us, and made again where somebody deletes it; otherwise it is only taken.
    pub is_made: bool,
    /// A frame costs a system call.
    pub is_by_calls: bool,
    /// Another program is handed the NIC's rings.
    pub is_handed: bool,
    /// Another program's virtual machine shares its memory with us.
    pub shares_memory: bool,
}

/// Something that cannot be had: the key that names it, and what is wrong and what would be right.
pub type Lack = (&'static str, String);

/// That what is named by `attach` cannot be had.
pub(crate) fn lack(what: String) -> Vec<Lack> {
    vec![("attach", what)]
}

/// What is to be said of something on this host.
pub type Finding = (State, String);

/// How a finding is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// Missing, and something will not work.
    No,
    /// Works, but costs something or changes what figures mean.
    Note,
}

impl State {
    /// The word for it in a table.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::No => "no",
            Self::Note => "note",
        }
    }

    /// Ok if it holds, else the other.
    pub const fn ok_or(holds: bool, other: Self) -> Self {
        if holds { Self::Ok } else { other }
    }
}
