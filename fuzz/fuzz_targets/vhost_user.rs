#![no_main]

#[path = "../bodies/vhost_user.rs"]
mod vhost_user_door;

libfuzzer_sys::fuzz_target!(|input: &[u8]| vhost_user_door::run(input));
