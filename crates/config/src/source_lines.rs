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

    /// Has the router `like` of another plan stand here as router `router`.
    pub(crate) fn copy(&mut self, other: &Self, like: usize, router: usize) {
        let own = other.lines.iter().filter(|((of, ..), _)| *of == Some(like));
        self.lines.extend(own.map(|((_, nic, key), line)| ((Some(router), *nic, *key), *line)));
    }

    /// Has the router `router` stand where the router `like` does.
    pub(crate) fn repeat(&mut self, like: usize, router: usize) {
        if like != router {
            let all = self.clone();
            self.copy(&all, like, router);
        }
    }

    /// Takes over where the run itself stands in another plan.
    pub(crate) fn keep_run(&mut self, other: &Self) {
        let own = other.lines.iter().filter(|((of, ..), _)| of.is_none());
        self.lines.extend(own.map(|(part, line)| (*part, *line)));
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
