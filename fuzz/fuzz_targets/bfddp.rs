#![no_main]

#[path = "../bodies/bfddp.rs"]
mod bfddp_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bfddp_body::run(input));
