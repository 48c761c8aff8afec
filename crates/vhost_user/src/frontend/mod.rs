//! The rings of our routers in another program's hands: the VMM's side of vhost-user.
//!
//! ```text
//!  driver --> device model --SetUp--> Peer ----socket----> Open vSwitch, VPP, testpmd, another ringroad
//!    |  rings                          |                      |
//!    +---------- guest memory (memfd) -+----------------------+   frames; nobody here sees one
//!    +---- kick: the doorbell's ioeventfd ------------------->+
//!    +<--- call: KVM's irqfd, or passed on by `Peer` ---------+
//! ```
//!
//! [`Session`] is what is said; [`Peer`] keeps saying it: it finds the peer, keeps the time, notices its end, finds it again,
//! and hands over the rings from where they were served to.

mod event;
mod peer;
mod session;
mod talk;

pub use peer::{Peer, PeerCounters, Status};
pub use session::{Offer, Refused, Session};
