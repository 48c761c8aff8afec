//! Arbitrary text as a configuration file: parsing gives a plan, or errors of one line each.

/// Runs one input; input that is not UTF-8 is ignored.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(errors) = config::parse(text, "fuzz.toml") {
        assert!(!errors.is_empty());
        for line in errors.lines() {
            assert!(line.starts_with("fuzz.toml"), "{line:?}");
            assert!(!line.contains(['\n', '\r']), "{line:?}");
        }
    }
}
