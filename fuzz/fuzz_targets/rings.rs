#![no_main]

#[path = "../bodies/rings.rs"]
mod rings;

libfuzzer_sys::fuzz_target!(|input: &[u8]| rings::run(input));
