//! Report formats: one RESULT line for people and scripts, one JSON object per line for programs.

mod json;
#[cfg(test)]
mod tests;

pub(crate) use json::quadruple;
pub use json::{Record, Verdict, append};
pub use measure::result_line::{ResultLine, number};
