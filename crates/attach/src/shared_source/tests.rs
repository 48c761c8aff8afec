//! A lent source in the conformance suite that every port passes.

use conformance::check_source_behind;

use super::*;

#[test]
fn a_source_that_has_come_back_and_is_lent_again_is_a_source() {
    check_source_behind(|source| {
        let shared = SharedSource::new(source);
        let first = shared.lend().expect("nobody has it");
        assert!(shared.lend().is_none(), "two starts of a router had it");
        drop(first);
        shared.lend().expect("it has come back")
    });
}
