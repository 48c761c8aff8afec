//! FRR (<https://frrouting.org>), unchanged, as the control plane of a router.
//!
//! * [`Configuration`]: a configuration as a file or folder of the host, and its [`Content`]: which daemons it needs; what the
//!   data path cannot do is refused by file and line.
//! * [`Layout`]: folders and files that the daemons expect.
//! * [`Programs`]: where the daemons are on this host, and their command lines.
//! * [`House`]: the namespaces in which the daemons live, and end together.
//! * [`Supervision`]: which daemon to start, load and stop when, as a state machine over time.
//! * [`Running`]: carries out what supervision decides.
//! * [`ask`]: commands for `vtysh`, and their answers as [`Adjacency`]s.
//! * [`log`]: lines of the daemons' logs as what they mean.
//!
//! Checked against FRR 8.4.4, as Debian 12 packages it; answers of newer versions are read as far as they have the same fields.

#![forbid(unsafe_code)]

pub mod ask;
mod configuration;
mod content;
mod daemon;
mod house;
mod layout;
mod lines;
pub mod log;
mod programs;
mod running;
mod supervision;
mod virtual_router;

pub use ask::{Adjacency, Protocol};
pub use configuration::{Configuration, Unusable};
pub use content::{Content, Fault, Hint};
pub use daemon::Daemon;
pub use house::{FOLDERS, House, NoHouse};
pub use layout::{Layout, Owner};
pub use programs::{CommandLine, Missing, Options, Programs};
pub use running::{Heard, Running, Setup};
pub use supervision::{Act, Health, News, Supervision};
pub use virtual_router::VirtualRouter;
