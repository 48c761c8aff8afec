//! Runs the stored inputs of this crate's fuzz target.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/telemetry.rs"]
mod telemetry_body;

#[test]
fn whatever_clients_send_they_get_one_answer_or_none() {
    corpus::replay("telemetry", telemetry_body::run);
}
