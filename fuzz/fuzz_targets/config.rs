//! Any text as a configuration file: reading it ends with a plan or with errors of one line each.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(errors) = config::parse(text, "fuzz.toml") {
        assert!(!errors.is_empty());
        for line in errors.lines() {
            assert!(line.starts_with("fuzz.toml"), "{line:?}");
            assert!(!line.contains(['\n', '\r']), "{line:?}");
        }
    }
});
