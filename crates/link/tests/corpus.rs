//! The inputs that are kept of the fuzz target of this crate.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/link.rs"]
mod frames;

#[test]
fn whatever_the_other_side_says_is_understood_or_ends_the_link() {
    corpus::replay("link", frames::run);
}
