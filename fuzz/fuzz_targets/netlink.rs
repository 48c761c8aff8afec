#![no_main]

#[path = "../bodies/netlink.rs"]
mod netlink_body;

libfuzzer_sys::fuzz_target!(|input: &[u8]| netlink_body::run(input));
