#![no_main]

#[path = "../bodies/link.rs"]
mod link_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| link_body::run(input));
