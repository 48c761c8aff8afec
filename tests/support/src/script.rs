//! The commands in the comment at the head of an example.

/// Commands of one example, in order.
#[derive(Debug)]
pub struct Script {
    /// Those that precede the run.
    pub before: Vec<String>,
    /// `ringroad run` of the file itself.
    pub run: String,
    /// Those that follow.
    pub after: Vec<String>,
}

impl Script {
    /// Extracts those of this file in the folder `examples`, of which `text_of` returns each by its name. If nothing follows
    /// `run`, the commands that follow it in the example that the comment names are used.
    ///
    /// # Panics
    ///
    /// The comment does not run its file, or no command follows and no other example is named.
    pub fn of(file: &str, text_of: &dyn Fn(&str) -> String) -> Self {
        let text = text_of(file);
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
            let other = other.unwrap_or_else(|| panic!("{file}: nothing is tried"));
            after = Self::of(&other, text_of).after;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_go_on_in_the_next_line() {
        let comment = [" what", "", "   $ a \\", "       b c", "   $ d", " words"];
        assert_eq!(commands(&comment), ["a b c", "d"]);
    }

    #[test]
    fn an_example_may_be_tried_as_another_one_is() {
        let text_of = |file: &str| match file {
            "a.toml" => "# $ x\n# $ ringroad run examples/a.toml\n# $ y\n".to_owned(),
            _ => "# As examples/a.toml.\n# $ ringroad run examples/b.toml\n\n# $ z\n".to_owned(),
        };
        for (file, before) in [("a.toml", &["x"][..]), ("b.toml", &[])] {
            let script = Script::of(file, &text_of);
            assert_eq!(script.before, before);
            assert_eq!(script.run, format!("ringroad run examples/{file}"));
            assert_eq!(script.after, ["y"]);
        }
    }
}
