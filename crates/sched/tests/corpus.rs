//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/costs.rs"]
mod costs;

#[test]
fn whatever_was_written_to_the_file_of_costs_does_no_harm() {
    corpus::replay("costs", costs::run);
}
