//! Ports under the main lock, of which only one moves frames at a time, in the conformance suite that every
//! port passes.

use conformance::{check_sink_before, check_source_behind};

use super::*;

#[test]
fn a_sink_that_one_fills_at_a_time_is_a_sink() {
    check_sink_before(|sink| MainLock::default().sink(sink));
}

#[test]
fn a_source_that_one_drains_at_a_time_is_a_source() {
    check_source_behind(|source| MainLock::default().source(source));
}
