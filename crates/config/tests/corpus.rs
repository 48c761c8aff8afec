//! Runs the stored inputs of this crate's fuzz targets.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/config.rs"]
mod text;

#[test]
fn any_text_is_a_plan_or_errors() {
    corpus::replay("config", text::run);
}
