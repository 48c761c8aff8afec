#![no_main]

#[path = "../bodies/telemetry.rs"]
mod telemetry_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| telemetry_body::run(input));
