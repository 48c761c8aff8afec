#![no_main]

#[path = "../bodies/device.rs"]
mod device;

libfuzzer_sys::fuzz_target!(|input: &[u8]| device::run(input));
