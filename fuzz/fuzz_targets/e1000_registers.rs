#![no_main]

#[path = "../bodies/e1000_registers.rs"]
mod e1000_registers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| e1000_registers::run(input));
