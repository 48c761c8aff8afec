//! Runs the corpus of the fuzz target for a peer's answers.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/vhost_user_replies.rs"]
mod vhost_user_replies;

#[test]
fn any_answer_is_taken_or_told() {
    corpus::replay("vhost_user_replies", vhost_user_replies::run);
}
