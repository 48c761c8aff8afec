#![no_main]

#[path = "../bodies/vtysh.rs"]
mod vtysh_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| vtysh_body::run(input));
