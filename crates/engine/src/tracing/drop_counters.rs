//! Counters that tell where a packet ended, and which of them have moved.

use std::collections::BTreeMap;

use crate::Instance;

/// Counters of drops, and of frames that a router consumes itself, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drops(BTreeMap<String, u64>);

impl Drops {
    /// Reads the current values.
    pub(crate) fn read(instance: &Instance) -> Self {
        let mut drops = Self::default();
        instance.each_group(&mut |prefix, group| {
            group.each(&mut |name, value| drops.note(prefix, name, value));
        });
        drops
    }

    pub(super) fn note(&mut self, prefix: &str, name: &str, value: u64) {
        let tells =
            name.starts_with("drop_") || matches!(name, "consumed" | "originated_lost" | "icmp_suppressed");
        if tells && value > 0 {
            self.0.insert(format!("{prefix}.{name}"), value);
        }
    }

    /// Returns the counters with one of these prefixes that have moved since `before`, with the increments.
    pub(super) fn moved_since(&self, before: &Self, beginnings: &[String]) -> BTreeMap<String, u64> {
        let ours = self.0.iter().filter(|(name, _)| beginnings.iter().any(|start| name.starts_with(start)));
        ours.filter_map(|(name, now)| {
            let by = now.wrapping_sub(before.0.get(name).copied().unwrap_or(0));
            (by > 0).then(|| (name.clone(), by))
        })
        .collect()
    }
}
