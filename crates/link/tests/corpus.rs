//! Runs the corpus of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/link.rs"]
mod frames;

#[test]
fn whatever_the_other_side_says_is_understood_or_ends_the_link() {
    corpus::replay("link", frames::run);
}
