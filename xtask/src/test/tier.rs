//! Tiers: which tests run when.

/// How much time a test may take of whoever waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// Runs at each commit.
    Commit,
    /// Runs before an issue is resolved: variants of what the commit tier shows once, other programs, emulated machines.
    All,
    /// Takes its time: kill loops, attacks, a soak.
    Long,
}

impl Tier {
    /// That of a test, by the modules in its path: `t08_signals::long::killed_at_any_moment`.
    pub(super) fn of(test: &str) -> Self {
        let within = |module: &str| modules(test).any(|part| part == module);
        match () {
            () if within("long") => Self::Long,
            () if within("all") => Self::All,
            () => Self::Commit,
        }
    }
}

/// Whether nothing else may run beside a test: it is in a module `alone`.
pub(super) fn is_alone(test: &str) -> bool {
    modules(test).any(|part| part == "alone")
}

fn modules(test: &str) -> impl Iterator<Item = &str> {
    test.rsplit_once("::").map_or("", |(path, _)| path).split("::")
}
