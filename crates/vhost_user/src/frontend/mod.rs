//! vhost-user front end: hands the rings of our routers' NICs to another program.
//!
//! ```text
//!  driver --> device model --SetUp--> Peer ----socket----> Open vSwitch, VPP, testpmd, another ringroad
//!    |  rings                          |                      |
//!    +---------- guest memory (memfd) -+----------------------+   frames; they do not pass this process
//!    +---- kick: the doorbell's ioeventfd ------------------->+
//!    +<--- call: KVM's irqfd, or forwarded by `Peer` ---------+
//! ```
//!
//! [`Session`] contains the messages; [`Peer`] uses it repeatedly: it finds the peer, watches the time,
//! notices its end, reconnects, and hands the rings over from the position up to which they were served.

mod event;
mod messaging;
mod peer;
mod session;

pub use peer::{Peer, PeerCounters, Status};
pub use session::{Offer, Refused, Session};
