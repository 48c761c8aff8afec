//! Snapshots of counters, by name.

use ledger::Group;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Ordered list of counters and their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(Vec<(String, u64)>);

impl Snapshot {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the counters of a group as `prefix.name`, or `name` where the prefix is empty.
    pub fn take(&mut self, prefix: &str, group: &dyn Group) {
        let dot = if prefix.is_empty() { "" } else { "." };
        group.each(&mut |name, value| self.0.push((format!("{prefix}{dot}{name}"), value)));
    }

    /// Increase of each counter since `earlier`, which listed the same counters. A counter that was not listed
    /// then counts from 0.
    pub fn since(&self, earlier: &Self) -> Self {
        let grown = |(at, (name, value)): (usize, &(String, u64))| {
            let before = match earlier.0.get(at) {
                Some((same, before)) if same == name => *before,
                _ => earlier.get(name).unwrap_or(0),
            };
            (name.clone(), value.wrapping_sub(before))
        };
        Self(self.0.iter().enumerate().map(grown).collect())
    }

    /// Adds the values of another list to this one, counter by counter.
    pub fn add(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            match self.0.iter_mut().find(|(mine, _)| mine == name) {
                Some((_, sum)) => *sum = sum.wrapping_add(*value),
                None => self.0.push((name.clone(), *value)),
            }
        }
    }

    /// Value of one counter.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(mine, _)| mine == name).map(|&(_, value)| value)
    }

    /// Value of one counter; 0 if there is none with this name.
    pub fn count(&self, name: &str) -> u64 {
        self.get(name).unwrap_or(0)
    }

    /// Sum of all counters whose last name component starts with `start`: `drop_` gives all drops.
    pub fn total(&self, start: &str) -> u64 {
        let last = |name: &str| name.rsplit('.').next().is_some_and(|last| last.starts_with(start));
        self.0.iter().filter(|(name, _)| last(name)).map(|(_, value)| value).sum()
    }

    /// Iterates over names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests;
