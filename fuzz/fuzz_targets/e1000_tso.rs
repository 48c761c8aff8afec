#![no_main]

#[path = "../bodies/e1000_tso.rs"]
mod e1000_tso;

libfuzzer_sys::fuzz_target!(|input: &[u8]| e1000_tso::run(input));
