//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/vtysh.rs"]
mod vtysh_body;

#[test]
fn whatever_the_daemons_say_is_read_or_not() {
    corpus::replay("vtysh", vtysh_body::run);
}
