//! The inputs that are kept of the fuzz target of this crate.

#[path = "../../../fuzz/bodies/control.rs"]
mod control;
#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;

#[test]
fn any_client_is_answered_or_left() {
    corpus::replay("control", control::run);
}
