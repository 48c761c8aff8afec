//! Bidirectional forwarding detection (BFD, RFC 5880 to 5883) in the data path, with sessions that FRR's bfdd hands over.
//!
//! ```text
//! bfdd --unix socket--> dplane: messages --> Agent --> Sessions --> packets to send
//!      <-- state changes, counters ---------   ^          ^
//!                                              |          '-- packets received, time
//!                                              '-- verdicts: a next hop answers, or does not
//! ```
//!
//! All of it is pure: time is a parameter, in microseconds of a monotonic clock, which is also the unit of the protocol; octets
//! go in and come out. [`Session`] is the state machine of one session, [`Sessions`] the table of all with their timers,
//! [`dplane`] bfdd's protocol, [`Agent`] joins them. Packets that have arrived are to be taken before the time is: a thread that
//! was delayed then finds no session expired whose packets were waiting.
//!
//! Asynchronous mode; demand mode of the other side is respected. Not spoken: echo, authentication, point to multipoint.

#![forbid(unsafe_code)]

mod agent;
mod counters;
pub mod dplane;
mod jitter;
mod packet;
mod session;
mod sessions;

pub use agent::{Agent, Told};
pub use counters::BfdCounters;
pub use packet::{Diagnostic, Error, LEN, Packet, State};
pub use session::{Change, Config, Remote, Session};
pub use sessions::{Arrived, Dropped, Out, Path, Sessions, Traffic, Watch};

/// UDP port of control packets over one hop (RFC 5881, section 4).
pub const PORT: u16 = 3784;
/// UDP port of control packets over several hops (RFC 5883, section 5).
pub const MULTIHOP_PORT: u16 = 4784;
/// Time to live of control packets: over one hop it is checked on arrival (RFC 5881, section 5).
pub const TTL: u8 = 255;
