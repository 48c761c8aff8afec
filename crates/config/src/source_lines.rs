//! Lines of values in the file, kept for errors that are found later.

use std::collections::BTreeMap;

/// Part of the plan that a line belongs to: router index and NIC index (neither: the run), and key.
type Part = (Option<usize>, Option<usize>, &'static str);

/// Lines of the values that may cause later errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLines {
    pub(crate) file: String,
    pub(crate) lines: BTreeMap<Part, u32>,
}

impl SourceLines {
    /// Name of the file, as in errors.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Line of a key of a router or of one of its NICs; 1 if the plan came from no file. The key of a class
    /// of threads defaults to the line of the key for all threads.
    pub(crate) fn line(&self, router: impl Into<Option<usize>>, nic: Option<usize>, key: &str) -> u32 {
        let whole = key.split('.').next().unwrap_or(key);
        let (router, lines): (_, &BTreeMap<(_, _, &str), u32>) = (router.into(), &self.lines);
        let find = |key| lines.get(&(router, nic, key)).copied();
        find(key).or_else(|| find(whole)).unwrap_or(1)
    }
}
