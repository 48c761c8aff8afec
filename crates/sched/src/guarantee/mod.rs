//! A packet rate that is promised: from packets to cycles, from cycles to a part of a core, and back from what was delivered.
//!
//! ```text
//!   counters --> Model: cycles a packet --> admit: does it fit? --> Controller: a share of each core
//!                                                                     ^            | runtime of a reservation, or weight
//!                                             what was delivered -----+            v
//!                                             and what was dropped    +------ the scheduler
//! ```
//!
//! Seed paper 000, section 3.5: the CPU time that a router's threads get decides what it forwards, so a scheduler that controls the
//! one controls the other. There the operator gives a time; here he gives a rate, and the time follows from what a packet was
//! seen to cost.
//!
//! Everything here is pure: no clock, no file, no thread. Cycles are those of the time-stamp counter, shares are parts of one
//! core, rates are packets a second. The part of a share that is not used is nobody's: a reservation lends it to whoever is
//! ready, and so does a weight.

mod admit;
mod control;
mod memory;
mod model;

pub use admit::{Core, Need, Promise, Refusal, admit};
pub use control::{Adjustment, Controller, Kept, Measured, Standing};
pub use memory::{Day, FEWEST, Machine, Memory, Rest, Unusable, Way};
pub use model::{Basis, Class, Cost, Kind, Model, Observation, Path};

#[cfg(test)]
mod tests;
