#![no_main]

#[path = "../bodies/double_fetch.rs"]
mod double_fetch;

libfuzzer_sys::fuzz_target!(|input: &[u8]| double_fetch::run(input));
