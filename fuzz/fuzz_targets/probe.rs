#![no_main]

#[path = "../bodies/probe.rs"]
mod probe_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| probe_body::run(input));
