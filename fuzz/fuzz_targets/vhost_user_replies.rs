#![no_main]

#[path = "../bodies/vhost_user_replies.rs"]
mod vhost_user_replies;

libfuzzer_sys::fuzz_target!(|input: &[u8]| vhost_user_replies::run(input));
