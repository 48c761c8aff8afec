//! What the benches measure, by the names under which it is printed, what is asked of it, and the machine that it is true for; the
//! line by which a result is told, and what samples say. Pure lists and functions, for those who measure, those who judge, and the
//! tests that hold both together.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod experiments;
pub mod headlines;
pub mod processor;
pub mod result_line;
pub mod stats;
