//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/replay.rs"]
mod replay_body;

#[test]
fn any_file_is_played_alike_however_it_is_read() {
    corpus::replay("replay", replay_body::run);
}
