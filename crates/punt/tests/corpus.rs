//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/punt.rs"]
mod punt_body;

#[test]
fn any_frame_has_a_class_and_is_counted() {
    corpus::replay("punt", punt_body::run);
}
