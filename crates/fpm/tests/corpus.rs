//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/fpm.rs"]
mod fpm_body;

#[test]
fn whatever_comes_in_zebras_place_does_no_harm() {
    corpus::replay("fpm", fpm_body::run);
}
