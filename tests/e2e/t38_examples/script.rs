//! Extracts the commands from the comment at the head of an example.

use std::fs;
use std::path::PathBuf;

/// Folder of all examples.
pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// Text of an example.
pub(super) fn text(file: &str) -> String {
    fs::read_to_string(folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Commands of one example, in order.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) before: Vec<String>,
    /// `ringroad run` of the file itself.
    pub(super) run: String,
    pub(super) after: Vec<String>,
}

impl Script {
    /// Extracts those of this file. If nothing follows `run`, the commands that follow it in the example that
    /// the comment names are used.
    pub(super) fn of(file: &str) -> Self {
        let text = text(file);
        let comment: Vec<&str> = text.lines().map_while(|line| line.strip_prefix('#')).collect();
        let mut before = commands(&comment);
        let is_run = |line: &String| *line == format!("ringroad run examples/{file}");
        let at =
            before.iter().position(is_run).unwrap_or_else(|| panic!("{file}: its comment does not run it"));
        let mut after = before.split_off(at);
        let run = after.remove(0);
        if after.is_empty() {
            let words = comment.iter().flat_map(|line| line.split_whitespace());
            let named = words
                .filter_map(|word| word.strip_prefix("examples/")?.split_once(".toml"))
                .map(|(name, _)| name);
            let other = named.map(|name| format!("{name}.toml")).find(|name| name != file);
            after = Self::of(&other.unwrap_or_else(|| panic!("{file}: nothing is tried"))).after;
        }
        Self { before, run, after }
    }
}

/// Lines that begin with `$`, each joined with its continuation lines.
fn commands(comment: &[&str]) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in comment {
        let (line, ends) = match line.strip_suffix('\\') {
            Some(line) => (line.trim(), false),
            None => (line.trim(), true),
        };
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(first), _) => commands.push(first.to_owned()),
            (None, Some(last)) if goes_on => *last += &format!(" {line}"),
            _ => continue,
        }
        goes_on = !ends;
    }
    commands
}

#[test]
fn a_command_may_go_on_in_the_next_line() {
    let comment = [" what", "", "   $ a \\", "       b c", "   $ d", " words"];
    assert_eq!(commands(&comment), ["a b c", "d"]);
}
