//! What was opened of the host for a NIC: kept by whoever may open it, handed to whoever serves it, looked after and mended.
//!
//! ```text
//!  who may open                                            who serves
//!  Wanted::open --> Opened --- hand_over: what, fds ---> adopt --> Opened --> serve --> Attachment
//!                   | watch --> Watched: look, restore (a thread)               ^
//!                   | open anew, succeed ------ hand_over --------------> replace
//!                   | resize, turn, bell + attend
//! ```

use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Context, Result};
use sandbox::Confinement;
use serde_json::{Value, json};
use uplink::{Cable, LinkTable, Links};

use crate::attachment::Attachment;
use crate::wanted::Wanted;

/// Something of the host that was opened for a NIC. Nothing here has a default, so that no kind can forget anything.
pub trait Opened: Any + fmt::Debug + Send {
    /// What it is, by the word of its kind, and its descriptors: for [`adopt`](crate::adopt) in another process.
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>);

    /// Serves a NIC by it, in this process.
    ///
    /// # Errors
    /// No thread or descriptor can be had.
    fn serve(self: Box<Self>, wanted: &Wanted, confinement: Confinement) -> Result<Arc<dyn Attachment>>;

    /// Makes it what the NIC wants now, where that is more or less than it wanted before.
    ///
    /// # Errors
    /// It cannot become that.
    fn resize(&mut self, before: &Wanted, now: &Wanted) -> Result<()>;

    /// Takes over what belongs to the name and not to the thing from one that was deleted, which is dropped.
    fn succeed(&mut self, old: Box<dyn Opened>);

    /// What is to be done about a data plane that has served it and is dead, or that is about to.
    ///
    /// # Errors
    /// It cannot be served now.
    fn turn(&mut self, turn: Turn) -> Result<()>;

    /// What is to be looked at from time to time; none where nothing of it comes and goes, or no descriptors are left.
    fn watch(&self) -> Option<Box<dyn Watched>>;

    /// The interface for which the kernel counts the frames that are lost before us, and how; none where it counts none.
    fn counted(&self) -> Option<Counted<'_>>;

    /// What the host did not give, where it can do without: one line.
    fn notice(&self) -> Option<String>;

    /// Readable when whoever serves it wants something of us.
    fn bell(&self) -> Option<BorrowedFd<'_>>;

    /// Does what is wanted, if anything is. It does not wait.
    fn attend(&self);
}

impl dyn Opened {
    /// What it is and copies of its descriptors, to be sent.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn copies(&self) -> io::Result<(Value, Vec<OwnedFd>)> {
        let (what, descriptors) = self.hand_over();
        let copies = descriptors.into_iter().map(|fd| fd.try_clone_to_owned()).collect::<io::Result<_>>()?;
        Ok((what, copies))
    }

    /// It, as what it is.
    ///
    /// # Errors
    /// It is something else.
    pub fn into_kind<T: Opened>(self: Box<Self>) -> Result<Box<T>> {
        let any: Box<dyn Any> = self;
        any.downcast().ok().context("what was opened is of another kind")
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

/// An interface by whose name the kernel counts.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether frames come to us from an interface below; otherwise the host sends them into this one.
    pub is_below: bool,
}

impl Counted<'_> {
    /// Frames lost because the queue before us was full, by the table of a namespace. None: it is not there.
    pub fn lost(&self, table: &LinkTable) -> Option<u64> {
        table.of(self.name).map(|counted| if self.is_below { counted.rx_drops } else { counted.tx_drops })
    }
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

/// One of the descriptors that were handed over.
pub(crate) fn one(descriptors: &mut dyn Iterator<Item = OwnedFd>) -> Result<OwnedFd> {
    descriptors.next().context("a descriptor is missing of what was opened for a NIC")
}

/// So many of them.
pub(crate) fn several(descriptors: &mut dyn Iterator<Item = OwnedFd>, count: usize) -> Result<Vec<OwnedFd>> {
    (0..count).map(|_| one(descriptors)).collect()
}

/// A descriptor that is all there is of something: it neither comes nor goes, and whoever serves it wants nothing of us.
#[derive(Debug)]
struct Sole {
    word: &'static str,
    descriptor: OwnedFd,
    serve: Serve,
}

/// What serves a NIC by a descriptor.
pub(crate) type Serve = fn(OwnedFd, &Wanted, Confinement) -> Result<Arc<dyn Attachment>>;

/// A descriptor of this kind that is all there is.
pub(crate) fn sole(word: &'static str, descriptor: OwnedFd, serve: Serve) -> Box<dyn Opened> {
    Box::new(Sole { word, descriptor, serve })
}

impl Opened for Sole {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (json!({ (self.word): null }), vec![self.descriptor.as_fd()])
    }

    fn serve(self: Box<Self>, wanted: &Wanted, confinement: Confinement) -> Result<Arc<dyn Attachment>> {
        (self.serve)(self.descriptor, wanted, confinement)
    }

    fn resize(&mut self, _: &Wanted, _: &Wanted) -> Result<()> {
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Opened>) {
        drop(old);
    }

    fn turn(&mut self, _: Turn) -> Result<()> {
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }

    fn counted(&self) -> Option<Counted<'_>> {
        None
    }

    fn notice(&self) -> Option<String> {
        None
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn attend(&self) {}
}
