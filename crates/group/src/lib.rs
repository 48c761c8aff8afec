//! Groups: many routers that are one router to everybody outside. This crate decides, and does nothing: it opens no descriptor,
//! starts no thread and reads no clock. Time is handed in, as what has passed since some moment.
//!
//! ```text
//!  signs of life --> Judge --- events --> Roster --- shares --> Assignment   (buckets of a balancer)
//!                                           |          \------> Ownership    (queues of a link)
//!  load -----------> Controller - wanted -> towards --> changes: start, wake, park, leave, replace, remove
//!  an operator ----> Rolling ------------------------> one member after the other is restarted
//! ```
//!
//! * [`member`]: members, their states, and which changes lead to the number that is wanted;
//! * [`assign`]: places (buckets, queues) that members have, of which a change moves as few as can be;
//! * [`ownership`]: the same for queues, which one member has to release before another one may take it;
//! * [`rounds`]: the order of members where frames are dealt out one by one;
//! * [`health`]: who is alive, by frames that pass and by probes that come back;
//! * [`probe`]: what a probe looks like, so that any router forwards it;
//! * [`scale`]: how many members a load needs;
//! * [`rolling`]: a restart of all members without loss.
#![forbid(unsafe_code)]

pub mod assign;
pub mod health;
pub mod member;
pub mod ownership;
pub mod probe;
pub mod rolling;
pub mod rounds;
pub mod scale;

pub use assign::{Assignment, Move};
pub use health::{Judge, Pace, Probe, Round};
pub use member::{Change, Event, Member, Roster, Shares, State, Surplus};
pub use ownership::{Order, Ownership};
pub use probe::{Probes, Through};
pub use rolling::{Rolling, Step};
pub use scale::{Bounds, Controller, Load};
