#![no_main]

#[path = "../bodies/door.rs"]
mod door_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| door_body::run(input));
