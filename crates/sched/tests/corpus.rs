//! The inputs that are kept of the fuzz target of this crate.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/costs.rs"]
mod costs;

#[test]
fn whatever_was_written_to_the_file_of_costs_does_no_harm() {
    corpus::replay("costs", costs::run);
}
