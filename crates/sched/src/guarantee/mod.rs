//! Promised packet rates: from packets to cycles, from cycles to a share of a core, and feedback from what
//! was delivered.
//!
//! ```text
//!   counters --> Model: cycles a packet --> admit: does it fit? --> Controller: a share of each core
//!                                                                     ^            | runtime of a reservation, or weight
//!                                             what was delivered -----+            v
//!                                             and what was dropped    +------ the scheduler
//! ```
//!
//! Seed paper 000, section 3.5: the CPU time of a router's threads determines what it forwards, so a
//! scheduler that controls the former controls the latter. There the operator sets the time; here he sets the
//! rate, and the time follows from the observed cost of a packet.
//!
//! All code here is pure: no clock, file or thread. Cycles are those of the time-stamp counter, shares are
//! fractions of one core, rates are in packets/s. An unused part of a share is not lost: both a reservation
//! and a weight lend it to any thread that is ready.

mod admit;
mod control;
mod memory;
mod model;

pub use admit::{Core, Need, Promise, Refusal, admit};
pub use control::{Adjustment, Controller, Measured, PromiseState, PromiseStatus};
pub use memory::{CostKey, CostMemory, Day, FEWEST, Idleness, Machine, Unusable};
pub use model::{Basis, Class, Cost, Kind, Model, Observation, Path};

#[cfg(test)]
mod tests;
