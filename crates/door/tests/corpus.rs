//! Runs the corpus of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/door.rs"]
mod passages;

#[test]
fn whoever_is_at_a_passage_meets_the_other_side_or_nobody() {
    corpus::replay("door", passages::run);
}
