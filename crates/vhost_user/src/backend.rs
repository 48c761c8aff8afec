//! vhost-user back end: a port that serves the device of another program's virtual machine.
//!
//! ```text
//!  peer's VMM -- socket --> thread of the peer: Session       memory, rings, bells
//!                                  | serve, leave
//!  peer's guest == rings ====== NicQueues ===== I/O threads of the router
//! ```
//!
//! One thread for each port accepts peers, one at a time, and handles their requests; it never touches a
//! frame. The rings are served by the I/O threads, like those of our own guests. A fault of a peer ends its
//! connection with one line; it may connect again, with growing pauses.

pub mod fault;
pub mod message;
mod ring;
pub mod session;
mod thread;

pub use fault::Fault;
pub use session::{Offer, Session};
pub use thread::{Backend, News};
