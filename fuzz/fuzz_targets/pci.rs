#![no_main]

#[path = "../bodies/pci.rs"]
mod pci;

libfuzzer_sys::fuzz_target!(|input: &[u8]| pci::run(input));
