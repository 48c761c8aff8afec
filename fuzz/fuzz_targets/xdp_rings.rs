#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| uplink::xdp::fuzz_rings(input));
