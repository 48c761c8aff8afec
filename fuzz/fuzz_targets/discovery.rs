#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| engine::fuzz_discovery(input));
