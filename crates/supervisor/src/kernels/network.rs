//! Network namespace of a kernel router that runs.

use anyhow::Result;
use netns::{Id, Namespace};

/// Network namespace of a router.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) namespace: Namespace,
    pub(crate) id: Id,
}

impl PartialEq for Network {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Network {}

impl Network {
    /// Describes a namespace.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn of(namespace: &Namespace) -> Result<Self> {
        Ok(Self { namespace: namespace.clone(), id: namespace.id()? })
    }
}
