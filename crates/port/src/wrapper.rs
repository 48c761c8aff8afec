//! Decorators for ports: they define what they do with frames, and delegate everything else to the inner
//! port.

use frame::offload::Offloads;

use crate::boundary::{Bell, Frame, Sink, Source};
use crate::offload::Completed;

/// Decorator over an inner sink; implements [`Sink`].
pub trait SinkWrapper: Send + Sync {
    /// Returns the inner sink.
    fn inner(&self) -> &dyn Sink;

    /// Implements [`Sink::deliver`].
    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize;
}

impl<W: SinkWrapper> Sink for W {
    #[inline]
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.deliver_on(frames)
    }

    #[inline]
    fn room(&self) -> usize {
        self.inner().room()
    }

    #[inline]
    fn large_room(&self) -> usize {
        self.inner().large_room()
    }

    #[inline]
    fn arm(&self) -> bool {
        self.inner().arm()
    }

    #[inline]
    fn disarm(&self) {
        self.inner().disarm();
    }

    #[inline]
    fn bell(&self) -> Bell<'_> {
        self.inner().bell()
    }

    #[inline]
    fn offloads(&self) -> Offloads {
        self.inner().offloads()
    }

    #[inline]
    fn completed(&self, done: &Completed) {
        self.inner().completed(done);
    }
}

/// Decorator over an inner source; implements [`Source`]. [`inner_source!`](crate::inner_source) writes what names the inner source.
pub trait SourceWrapper: Send {
    /// Type of the inner source.
    type Inner: Source + ?Sized;

    /// Returns the inner source.
    fn inner(&self) -> &Self::Inner;

    /// Returns the inner source, mutably.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// Implements [`Source::drain`].
    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize;

    /// Implements [`Source::waits`].
    #[inline]
    fn waits_on(&self) -> bool {
        self.inner().waits()
    }
}

/// Items of an `impl SourceWrapper` that name the inner source: a field that is a `Box<dyn Source>`, or one of a given type.
#[macro_export]
macro_rules! inner_source {
    ($field:ident) => {
        type Inner = dyn $crate::Source;

        fn inner(&self) -> &Self::Inner {
            &*self.$field
        }

        fn inner_mut(&mut self) -> &mut Self::Inner {
            &mut *self.$field
        }
    };
    ($field:ident: $inner:ty) => {
        type Inner = $inner;

        fn inner(&self) -> &Self::Inner {
            &self.$field
        }

        fn inner_mut(&mut self) -> &mut Self::Inner {
            &mut self.$field
        }
    };
}

impl<W: SourceWrapper> Source for W {
    #[inline]
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.drain_on(budget, take)
    }

    #[inline]
    fn waits(&self) -> bool {
        self.waits_on()
    }

    #[inline]
    fn arm(&mut self) -> bool {
        self.inner_mut().arm()
    }

    #[inline]
    fn disarm(&mut self) {
        self.inner_mut().disarm();
    }

    #[inline]
    fn bell(&self) -> Bell<'_> {
        self.inner().bell()
    }

    #[inline]
    fn tend(&mut self) {
        self.inner_mut().tend();
    }

    #[inline]
    fn timer(&self) -> Bell<'_> {
        self.inner().timer()
    }

    #[inline]
    fn set_sink_offloads(&mut self, takes: Offloads) {
        self.inner_mut().set_sink_offloads(takes);
    }
}
