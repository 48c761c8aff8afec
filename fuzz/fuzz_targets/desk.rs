#![no_main]

#[path = "../bodies/desk.rs"]
mod desk_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| desk_body::run(input));
