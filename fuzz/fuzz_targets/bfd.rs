#![no_main]

#[path = "../bodies/bfd.rs"]
mod bfd_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| bfd_body::run(input));
