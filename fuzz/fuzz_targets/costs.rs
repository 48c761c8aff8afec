#![no_main]

#[path = "../bodies/costs.rs"]
mod costs;

libfuzzer_sys::fuzz_target!(|input: &[u8]| costs::run(input));
