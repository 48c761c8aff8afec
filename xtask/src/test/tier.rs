//! Tiers: when a test runs.

/// Tier of a test, by the time that it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// Runs at each commit.
    Commit,
    /// Runs before an issue is resolved: variants of behaviour that the commit tier tests once, other programs, emulated
    /// machines.
    All,
    /// Runs for long: kill loops, attacks, a soak.
    Long,
}

impl Tier {
    /// Returns the tier of a test, by the modules in its path: `t08_signals::long::killed_at_any_moment`.
    pub(super) fn of(test: &str) -> Self {
        let within = |module: &str| modules(test).any(|part| part == module);
        match () {
            () if within("long") => Self::Long,
            () if within("all") => Self::All,
            () => Self::Commit,
        }
    }
}

/// Returns true if a test must run alone: it is in a module `alone`.
pub(super) fn is_alone(test: &str) -> bool {
    modules(test).any(|part| part == "alone")
}

fn modules(test: &str) -> impl Iterator<Item = &str> {
    test.rsplit_once("::").map_or("", |(path, _)| path).split("::")
}
