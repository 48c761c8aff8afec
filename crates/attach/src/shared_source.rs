//! Source that is lent to one start of a router after the other.

use std::sync::{Arc, Mutex, PoisonError};

use port::{Frame, Source, SourceWrapper};

/// Place of a source while no thread polls it.
#[derive(Clone)]
pub(crate) struct SharedSource(Arc<Mutex<Option<Box<dyn Source>>>>);

impl SharedSource {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        Self(Arc::new(Mutex::new(Some(source))))
    }

    /// Lends the source to a thread; it is returned when that thread drops it. `None` while it is lent.
    pub(crate) fn lend(&self) -> Option<Box<dyn Source>> {
        let source = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Box::new(Lent { source, home: self.clone() }))
    }
}

/// A lent source, returned when dropped.
struct Lent {
    source: Box<dyn Source>,
    home: SharedSource,
}

impl SourceWrapper for Lent {
    port::inner_source!(source);

    fn drain_on(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.source.drain(budget, take)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // The replacement moves no frames.
        let source = std::mem::replace(&mut self.source, Box::new(port::Null::new()));
        *self.home.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }
}

#[cfg(test)]
mod tests;
