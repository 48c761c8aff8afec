#![no_main]

#[path = "../bodies/headers.rs"]
mod headers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| headers::run(input));
