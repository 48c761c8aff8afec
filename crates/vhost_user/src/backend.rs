//! We are the device: a port at which the virtual machine of another program is met (vhost-user's back end).
//!
//! ```text
//!  peer's VMM -- socket --> thread of the peer: Session       memory, rings, bells
//!                                  | serve, leave
//!  peer's guest == rings ====== NicQueues ===== I/O threads of the router
//! ```
//!
//! One thread for each port meets peers, one at a time, and does what they ask; it never touches a frame. The rings are
//! served by the I/O threads, as those of our own guests are. Whatever a peer does wrong ends its connection with one line;
//! it may come again, later each time.

pub mod fault;
pub mod message;
mod ring;
pub mod session;
mod thread;

pub use fault::Fault;
pub use session::{Offer, Session};
pub use thread::{Backend, News};
