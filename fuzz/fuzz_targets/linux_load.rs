#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| vmm::linux::fuzz_load(input));
