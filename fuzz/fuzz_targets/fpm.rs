#![no_main]

#[path = "../bodies/fpm.rs"]
mod fpm_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fpm_body::run(input));
