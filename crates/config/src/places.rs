//! Where in the file a value stands, kept for errors that are found after the file was read.

use std::collections::BTreeMap;

/// Which part of the plan a line belongs to: a router, or one of its NICs, by index; then the key.
type Part = (usize, Option<usize>, &'static str);

/// The lines of the values that a host can refuse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    pub(crate) file: String,
    pub(crate) lines: BTreeMap<Part, u32>,
}

impl Places {
    /// The file's name as errors give it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Line of a router's key, if it was looked for.
    pub(crate) fn find(&self, router: usize, key: &str) -> Option<u32> {
        let mut lines = self.lines.iter().filter(|((held, nic, _), _)| *held == router && nic.is_none());
        lines.find(|((_, _, held), _)| *held == key).map(|(_, line)| *line)
    }

    /// Line of a router's key, or of a key of one of its NICs; 1 where the plan came from no file.
    pub(crate) fn line(&self, router: usize, nic: Option<usize>, key: &'static str) -> u32 {
        self.lines.get(&(router, nic, key)).copied().unwrap_or(1)
    }
}
