//! Groups: many routers that look like one from outside. This crate decides, and does nothing: it opens no descriptor,
//! starts no thread and reads no clock. Time is handed in, as what has passed since some moment.
//!
//! ```text
//!  signs of life --> Judge --- events --> Roster --- shares --> Assignment   (queues of a link, buckets of a balancer)
//!  load -----------> Controller ------> how many members are to be awake
//!  an operator ----> Rolling ---------> one member after the other is restarted
//! ```
//!
//! * [`member`]: members, and their states;
//! * [`assign`]: places (buckets, queues) that members have, of which a change moves as few as can be;
//! * [`rounds`]: the order of members where frames are dealt out one by one;
//! * [`health`]: which members are alive, by frames that pass and by probes that come back;
//! * [`probe`]: what a probe looks like, so that any router forwards it;
//! * [`scale`]: how many members a load needs;
//! * [`rolling`]: a restart of all members without loss.
#![forbid(unsafe_code)]

pub mod assign;
pub mod health;
pub mod member;
pub mod probe;
pub mod rolling;
pub mod rounds;
pub mod scale;

pub use assign::{Assignment, Move};
pub use health::{Judge, Pace, Probe, Round};
pub use member::{Event, Member, Roster, Shares, State};
pub use probe::{Probes, Through};
pub use rolling::{Rolling, Step};
pub use scale::{Bounds, Controller, Load};
