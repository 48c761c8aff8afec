//! Control planes of routers, as far as the data plane takes part: it sorts out the frames that are for one, sends those that
//! come from it, and knows the routes that it has found.
//!
//! ```text
//!  attachment --> PuntSource --> ring              learned routes --> route table of the router
//!                     |  by class, each with a limit
//!                     v
//!                 shadow TAP in the control plane's namespace
//!                     |
//!  attachment <-------'
//! ```
//!
//! A router without a control plane has neither: its frames pass no more code than before.

mod learned;
mod naming;
mod shadow;
mod sorting;

pub use learned::Learning;
pub(crate) use learned::{Learned, LearnedRoutes, Network};
pub(crate) use naming::{Names, Speaker, naming};
pub use shadow::ShadowCounters;
pub(crate) use shadow::{OpenShadow, Shadow, ShadowEntry, ShadowSource};
pub(crate) use sorting::PuntGate;
pub use sorting::SortedCounters;
