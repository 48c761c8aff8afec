//! Replays the stored inputs of this crate's fuzz targets.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/headers.rs"]
mod headers;

#[test]
fn any_octets_are_refused_or_read() {
    corpus::replay("headers", headers::run);
}
