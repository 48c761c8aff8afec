//! Where in the file a value stands, kept for errors that are found after the file was read.

use std::collections::BTreeMap;

/// Which part of the plan a line belongs to: a router, or one of its NICs, by index, or else the run; then the key.
type Part = (Option<usize>, Option<usize>, &'static str);

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

    /// Line of a router's key, or of a key of one of its NICs; 1 where the plan came from no file. The key of a class of
    /// threads stands in that of all of them, if not alone.
    pub(crate) fn line(&self, router: impl Into<Option<usize>>, nic: Option<usize>, key: &str) -> u32 {
        let whole = key.split('.').next().unwrap_or(key);
        let (router, lines): (_, &BTreeMap<(_, _, &str), u32>) = (router.into(), &self.lines);
        let find = |key| lines.get(&(router, nic, key)).copied();
        find(key).or_else(|| find(whole)).unwrap_or(1)
    }
}
