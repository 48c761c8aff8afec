//! A shelf of queues that several readers own: what is left of a link whose queues stay for its life while its readers come and go.
//!
//! Each reader has a source for each queue, and polls them all; those whose queue it does not own show nothing. The owner of a queue
//! holds it as it would hold one of its own: a burst costs one load more, and no lock. When another owner is named, the old one puts the queue on
//! the shelf, at the beginning of its next pass and so between two bursts, and the new one takes it from there:
//!
//! ```text
//!  reader 0:  holds --- sees that 1 is the owner: puts it back, rings 1
//!                                  |
//!  reader 1:  ---------------------+--> finds it on the shelf: holds
//! ```
//!
//! So two never read a queue at the same time, and a frame that the new owner reads was behind all that the old one read. A reader that is dropped puts
//! back what it holds. One that sleeps gives a queue back when a frame comes to it, at the latest: until then there is nothing to read.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use frame::offload::Offloads;
use ledger::Counter;
use rustix::event::{EventfdFlags, eventfd};

use crate::boundary::{Bell, Frame, Source};

/// As the owner of a queue: nobody. No reader has this number.
const NOBODY: u32 = u32::MAX;

/// The queues.
pub struct Shelf {
    places: Vec<Place>,
    /// What wakes each reader, by its number.
    bells: Mutex<BTreeMap<u16, Arc<OwnedFd>>>,
}

/// One queue.
struct Place {
    /// Number of the reader that is to hold it.
    owner: AtomicU32,
    /// The queue, while nobody holds it.
    source: Mutex<Option<Box<dyn Source>>>,
    /// Frames that were read from it. Only who holds it writes.
    frames: Counter,
    waits: bool,
}

/// A queue of the shelf as one reader has it.
pub struct ShelfQueue {
    shelf: Arc<Shelf>,
    reader: u16,
    queue: usize,
    bell: Arc<OwnedFd>,
    held: Option<Box<dyn Source>>,
    /// What the other end takes, for a queue that comes later.
    takes: Offloads,
}

impl Shelf {
    /// Puts queues on a shelf. Nobody owns them yet.
    pub fn new(queues: Vec<Box<dyn Source>>) -> Arc<Self> {
        let place = |source: Box<dyn Source>| Place {
            owner: AtomicU32::new(NOBODY),
            waits: source.waits(),
            source: Mutex::new(Some(source)),
            frames: Counter::new(),
        };
        Arc::new(Self { places: queues.into_iter().map(place).collect(), bells: Mutex::default() })
    }

    /// The sources of a reader, one for each queue. A reader of this number that was there before is to be dropped first.
    ///
    /// # Errors
    /// No event descriptor can be had.
    pub fn reader(self: &Arc<Self>, number: u16) -> io::Result<Vec<ShelfQueue>> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        self.bells().insert(number, bell.clone());
        let source = |queue| ShelfQueue {
            shelf: self.clone(),
            reader: number,
            queue,
            bell: bell.clone(),
            held: None,
            takes: Offloads::NONE,
        };
        Ok((0..self.places.len()).map(source).collect())
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.places.len()
    }

    /// Names the reader that is to have a queue; none: nobody. Frames wait where they are until it has it. Nothing where there is no such queue.
    pub fn assign(&self, queue: usize, owner: Option<u16>) {
        let Some(place) = self.places.get(queue) else { return };
        let owner = owner.map_or(NOBODY, u32::from);
        let before = place.owner.swap(owner, Ordering::AcqRel);
        if before != owner {
            self.ring(before);
            self.ring(owner);
        }
    }

    /// The reader that is to have a queue.
    pub fn owner(&self, queue: usize) -> Option<u16> {
        let owner = self.places.get(queue)?.owner.load(Ordering::Acquire);
        u16::try_from(owner).ok()
    }

    /// Whether nobody holds a queue: whoever held it has put it back.
    pub fn is_free(&self, queue: usize) -> bool {
        self.places.get(queue).is_some_and(|place| place.source().is_some())
    }

    /// Frames that were read from each queue since the shelf was made.
    pub fn loads(&self) -> Vec<u64> {
        self.places.iter().map(|place| place.frames.get()).collect()
    }

    /// Wakes a reader, if there is one.
    fn ring(&self, number: u32) {
        let bell = u16::try_from(number).ok().and_then(|number| self.bells().get(&number).cloned());
        if let Some(bell) = bell {
            // A full counter means that it is ringing already.
            let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
        }
    }

    fn bells(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<OwnedFd>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn source(&self) -> MutexGuard<'_, Option<Box<dyn Source>>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ShelfQueue {
    fn place(&self) -> &Place {
        // As many sources as places were made.
        &self.shelf.places[self.queue]
    }

    /// The queue, if it is this reader's and here. Gives it back, or takes it, where its owner has changed.
    #[inline]
    fn own(&mut self) -> Option<&mut Box<dyn Source>> {
        let is_own = self.place().owner.load(Ordering::Relaxed) == u32::from(self.reader);
        if is_own != self.held.is_some() {
            if is_own { self.take() } else { self.give_back() }
        }
        self.held.as_mut()
    }

    /// Takes the queue, if whoever had it has put it back.
    #[cold]
    fn take(&mut self) {
        let mut source = self.place().source().take();
        if let Some(source) = &mut source {
            source.set_sink_offloads(self.takes);
        }
        self.held = source;
    }

    #[cold]
    fn give_back(&mut self) {
        let Some(mut source) = self.held.take() else { return };
        source.disarm();
        *self.place().source() = Some(source);
        // Named before it was put back, or it will find it there.
        self.shelf.ring(self.place().owner.load(Ordering::Acquire));
    }
}

impl Source for ShelfQueue {
    #[inline]
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let Some(source) = self.own() else { return 0 };
        let shown = source.drain(budget, take);
        self.place().frames.add(shown as u64);
        shown
    }

    /// As the queue says at present, if it is here: some wait only while few frames do.
    fn waits(&self) -> bool {
        self.held.as_ref().map_or(self.place().waits, |source| source.waits())
    }

    fn arm(&mut self) -> bool {
        self.own().is_some_and(|source| source.arm())
    }

    fn disarm(&mut self) {
        self.own().into_iter().for_each(|source| source.disarm());
    }

    /// That of the queue, or what rings when this reader becomes the owner of any.
    fn bell(&self) -> Bell<'_> {
        self.held.as_ref().map_or(Bell::Event(self.bell.as_fd()), |source| source.bell())
    }

    fn tend(&mut self) {
        self.own().into_iter().for_each(|source| source.tend());
    }

    /// That of the queue, or what rings when this reader owns it no more: who waits for room at the other end would keep it.
    fn timer(&self) -> Bell<'_> {
        match self.held.as_ref().map(|source| source.timer()) {
            None => Bell::None,
            Some(Bell::None) => Bell::Event(self.bell.as_fd()),
            Some(timer) => timer,
        }
    }

    fn set_sink_offloads(&mut self, takes: Offloads) {
        self.takes = takes;
        self.own().into_iter().for_each(|source| source.set_sink_offloads(takes));
    }
}

impl Drop for ShelfQueue {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests;
