//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/control.rs"]
mod control;
#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;

#[test]
fn any_client_is_answered_or_left() {
    corpus::replay("control", control::run);
}
