//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/probe.rs"]
mod probe_body;

#[test]
fn a_probe_is_of_one_run() {
    corpus::replay("probe", probe_body::run);
}
