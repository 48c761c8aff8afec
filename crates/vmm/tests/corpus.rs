//! Runs the corpus of the fuzz target of what members of groups share with the host.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/desk.rs"]
mod desk;

#[test]
fn whatever_is_at_a_desk_a_look_is_bounded_and_counts() {
    corpus::replay("desk", desk::run);
}
