#![no_main]

#[path = "../bodies/punt.rs"]
mod punt_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| punt_body::run(input));
