//! The inputs that are kept of the fuzz target of this crate.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/vhost_user.rs"]
mod door;

#[test]
fn any_peer_is_served_or_sent_away() {
    corpus::replay("vhost_user", door::run);
}
