//! Runs the stored inputs of this crate's fuzz targets.

#[path = "../../../fuzz/bodies/bfd.rs"]
mod bfd_body;
#[path = "../../../fuzz/bodies/bfddp.rs"]
mod bfddp_body;
#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;

#[test]
fn whatever_the_other_side_sends_does_no_harm() {
    corpus::replay("bfd", bfd_body::run);
}

#[test]
fn whatever_comes_in_bfdds_place_does_no_harm() {
    corpus::replay("bfddp", bfddp_body::run);
}
