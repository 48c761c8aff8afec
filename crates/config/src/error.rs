//! Errors: one line each, with file, line, key, what is wrong and how to correct it.

use std::fmt;

/// Most errors shown at once.
pub const MOST_ERRORS: usize = 10;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Error {
    /// Line in the file, from 1; 0 if the file as a whole is concerned.
    pub line: u32,
    /// Key with its tables, e.g. `router.nic.address`; empty if no key is concerned.
    pub key: String,
    /// What is wrong, and how to correct it.
    pub what: String,
    /// Name of the router concerned, if known.
    pub router: Option<String>,
}

/// All errors in a file; displayed as up to [`MOST_ERRORS`] lines, without a newline at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// Name of the file.
    pub file: String,
    /// Errors, sorted by line.
    pub errors: Vec<Error>,
}

impl Errors {
    /// Creates an empty list. Control characters in the file's name are replaced, so that a message stays one
    /// line.
    pub fn new(file: &str) -> Self {
        Self { file: file.replace(char::is_control, "?"), errors: Vec::new() }
    }

    /// Returns true if there are no errors.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn push(&mut self, line: u32, key: &str, what: impl Into<String>) {
        self.push_of(None, line, key, what);
    }

    pub(crate) fn push_of(&mut self, router: Option<String>, line: u32, key: &str, what: impl Into<String>) {
        self.errors.push(Error { line, key: key.to_owned(), what: what.into(), router });
    }

    /// Merges other errors of the same file.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.errors.extend(others.errors);
        self.sorted()
    }

    /// Sorts the errors by line.
    pub(crate) fn sorted(mut self) -> Self {
        self.errors.sort();
        self.errors.dedup();
        self
    }

    /// A line for each error, at most [`MOST_ERRORS`] of them.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let hidden = self.errors.len().saturating_sub(MOST_ERRORS);
        let shown = self.errors.iter().take(MOST_ERRORS).map(|error| self.render(error));
        shown.chain((hidden > 0).then(|| format!("{}: {hidden} more errors", self.file)))
    }

    fn render(&self, error: &Error) -> String {
        let mut text = self.file.clone();
        if error.line > 0 {
            text.push_str(&format!(":{}", error.line));
        }
        if !error.key.is_empty() {
            text.push_str(&format!(": {}", error.key));
        }
        format!("{text}: {}", error.what)
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines().enumerate() {
            let newline = if number == 0 { "" } else { "\n" };
            write!(out, "{newline}{line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
