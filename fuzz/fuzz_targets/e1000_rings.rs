#![no_main]

#[path = "../bodies/e1000_rings.rs"]
mod e1000_rings;

libfuzzer_sys::fuzz_target!(|input: &[u8]| e1000_rings::run(input));
