//! The inputs that are kept of the fuzz targets of this crate.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/config.rs"]
mod text;

#[test]
fn any_text_is_a_plan_or_errors() {
    corpus::replay("config", text::run);
}
