//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/netlink.rs"]
mod netlink_body;

#[test]
fn whatever_comes_in_the_kernels_place_does_no_harm() {
    corpus::replay("netlink", netlink_body::run);
}
