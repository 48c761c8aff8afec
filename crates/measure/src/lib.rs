//! Shared definitions for measurements: the names under which benches print their results, the requirements on them, the processor
//! that they are valid for, the format of the result line, and statistics of samples. Pure lists and functions, used by the
//! programs that measure, those that judge, and the tests that keep both consistent.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod experiments;
pub mod headlines;
pub mod processor;
pub mod result_line;
pub mod stats;
