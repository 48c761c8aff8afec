#![no_main]

#[path = "../bodies/replay.rs"]
mod replay_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| replay_body::run(input));
