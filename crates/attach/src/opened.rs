//! What was opened of the host for a NIC: kept by whoever may open it, handed to whoever serves it, looked after and mended.
//!
//! ```text
//!  who may open                                              who serves
//!  Wanted::open --> Opened --------- hand_over: Handed ----> Wanted::serve --> Attachment
//!                   | watch --> Watched: look, restore (a thread)                 ^
//!                   | open anew, succeed ----- hand_over: Handed -----------> replace
//!                   | resize, bell + attend: Work (a thread); turn
//! ```

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uplink::{Cable, Door, LinkTable, Links};

use crate::Wanted;

/// Something that is to be done about what was opened: by a thread, as the kernel may take its time.
pub type Work = Box<dyn FnOnce() -> Result<()> + Send>;

/// Something of the host that was opened for a NIC. What keeps it as it should be has no default, so that no kind can forget it.
///
/// Whoever has it waits for nobody: what may have to wait is [`Work`] that it gives, or is for a thread to call, as its being dropped is.
pub trait Opened: Any + fmt::Debug + Send {
    /// What it is, for who serves it in another process, and its descriptors.
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>);

    /// What makes it what the NIC wants now, where that is more or less than it wanted before; none: it is that.
    fn resize(&self, before: &Wanted, now: &Wanted) -> Option<Work>;

    /// Takes over what belongs to the name and not to the thing from one that was deleted.
    fn succeed(&mut self, _old: &mut dyn Opened) {}

    /// Does what is to be done about a data plane that has served it and is dead, or that is about to: by a thread.
    ///
    /// # Errors
    /// It cannot be served now.
    fn turn(&mut self, turn: Turn) -> Result<()>;

    /// What is to be looked at from time to time; none where nothing of it comes and goes, or no descriptors are left.
    fn watch(&self) -> Option<Box<dyn Watched>>;

    /// Frames that the kernel has lost because the queue before us was full, by the table of a namespace. None: it does not count
    /// them, or it is not there.
    fn lost(&self, _: &LinkTable) -> Option<u64> {
        None
    }

    /// What the host did not give, where it can do without: one line.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Readable when whoever serves it wants something of us.
    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does what is wanted, if anything is; what of that may have to wait.
    fn attend(&self) -> Option<Work> {
        None
    }
}

/// Something that was opened, on its way to who serves it.
#[derive(Debug)]
pub struct Handed {
    /// What it is.
    pub what: Value,
    /// Its descriptors, in their order.
    pub descriptors: Vec<OwnedFd>,
}

impl Handed {
    /// Copies of what was opened.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn of((what, descriptors): (Value, Vec<BorrowedFd<'_>>)) -> io::Result<Self> {
        let copies = descriptors.into_iter().map(|fd| fd.try_clone_to_owned());
        Ok(Self { what, descriptors: copies.collect::<io::Result<_>>()? })
    }

    /// What it is, as whoever serves it knows it.
    pub(crate) fn parts<T: DeserializeOwned>(&self) -> Result<T> {
        T::deserialize(&self.what).context("what was handed over is of another kind")
    }

    /// The last of its descriptors that was not taken yet.
    ///
    /// # Errors
    /// There is none.
    pub fn last(&mut self) -> Result<OwnedFd> {
        self.descriptors.pop().context("a descriptor is missing of what was handed over for a NIC")
    }
}

/// What happens to those who serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The data plane is dead.
    Ended,
    /// A new one begins, for the so manieth time.
    Begins(u32),
}

/// Another handle on something that may be deleted, moved or pulled out: for a thread, as the kernel or another program may take
/// its time.
pub trait Watched: fmt::Debug + Send {
    /// How it is.
    fn look(&self, host: &View) -> Health;

    /// Puts it back where it belongs, if it is out.
    ///
    /// # Errors
    /// One line: why that cannot be done yet.
    fn restore(&self) -> Result<Restored>;
}

/// The interfaces of the namespace that everything was opened in, for as many looks as somebody likes.
#[derive(Debug)]
pub struct View {
    /// What the kernel has counted, if it tells.
    pub table: Option<LinkTable>,
    /// By what it is asked; none: there is no socket to ask by.
    pub links: Option<Links>,
}

impl View {
    /// Of the calling thread's namespace.
    pub fn here() -> Self {
        Self { table: LinkTable::here().ok(), links: Links::here().ok() }
    }
}

/// How something is that was opened.
#[derive(Clone, Copy, Debug)]
pub struct Health {
    /// Whether it is still there.
    pub is_there: bool,
    /// Whether nothing speaks for its being out of where it belongs.
    pub is_in_place: bool,
    /// What is seen of its cable; none: nothing.
    pub cable: Option<Cable>,
    /// Frames that the kernel has lost before us, where it was moved and its name does not tell any more.
    pub lost: Option<u64>,
}

/// What came of putting something back.
#[derive(Debug)]
pub struct Restored {
    /// Whether it was out.
    pub was_out: bool,
    /// Where it is now, in words.
    pub place: String,
}

/// Descriptors that neither come nor go: files, sockets.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// What they are.
    pub(crate) what: Value,
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Where peers come in, if they do.
    pub(crate) door: Option<Door>,
    /// What a file is called whose place another one takes when a new data plane begins, and what sees to that.
    pub(crate) renewed: Option<(PathBuf, Renew)>,
}

/// Puts another descriptor in the place of the first one, for a data plane that begins for the so manieth time.
pub(crate) type Renew = fn(&Path, &mut [OwnedFd], u32) -> Result<()>;

impl Opened for Kept {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (self.what.clone(), self.descriptors.iter().map(AsFd::as_fd).collect())
    }

    fn resize(&self, _: &Wanted, _: &Wanted) -> Option<Work> {
        None
    }

    fn turn(&mut self, turn: Turn) -> Result<()> {
        match (turn, &self.renewed) {
            (Turn::Begins(times), Some((path, renew))) => renew(path, &mut self.descriptors, times),
            _ => Ok(()),
        }
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.door.as_ref()?.asked()
    }

    fn attend(&self) -> Option<Work> {
        self.door.iter().for_each(Door::answer);
        None
    }
}
