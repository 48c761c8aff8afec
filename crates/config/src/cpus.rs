//! Sets of CPUs, in the kernel's notation: `0-1,3`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Highest CPU number in a list of the kernel: far above what kernels are built for.
const LAST_LISTED: u32 = 65_535;

/// A non-empty set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSet {
    cpus: Vec<u32>,
}

impl CpuSet {
    /// Highest CPU number that a user may write, as in the C library's `cpu_set_t`.
    pub const LAST: u32 = 1023;

    /// Parses a list that the kernel wrote. It may have higher CPU numbers than those of users.
    ///
    /// # Errors
    /// It is no list, or an empty one.
    pub fn from_kernel(text: &str) -> Result<Self, NotCpuSet> {
        parse(text, LAST_LISTED)
    }

    /// Set of these CPUs; `None` if there are none.
    pub fn from_cpus(cpus: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        (!cpus.is_empty()).then_some(Self { cpus })
    }

    /// CPUs in ascending order.
    pub fn cpus(&self) -> &[u32] {
        &self.cpus
    }

    /// CPU for thread number `n`: CPUs are assigned round-robin.
    pub fn deal(&self, n: usize) -> u32 {
        self.cpus[n % self.cpus.len()]
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.cpus.as_slice();
        let mut comma = "";
        while let Some(&first) = rest.first() {
            let run = rest.iter().zip(first..).take_while(|(cpu, expected)| **cpu == *expected).count();
            match run {
                1 => write!(out, "{comma}{first}")?,
                _ => write!(out, "{comma}{first}-{}", rest[run - 1])?,
            }
            rest = &rest[run..];
            comma = ",";
        }
        Ok(())
    }
}

/// Error: the text is not a list of CPUs from 0 to [`CpuSet::LAST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a CPU list")]
pub struct NotCpuSet;

impl FromStr for CpuSet {
    type Err = NotCpuSet;

    fn from_str(text: &str) -> Result<Self, NotCpuSet> {
        parse(text, Self::LAST)
    }
}

/// Parses a list of CPUs up to the number `most`.
fn parse(text: &str, most: u32) -> Result<CpuSet, NotCpuSet> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (cpu(first, most)?, cpu(last, most)?);
        if first > last {
            return Err(NotCpuSet);
        }
        cpus.extend(first..=last);
    }
    CpuSet::from_cpus(cpus).ok_or(NotCpuSet)
}

fn cpu(text: &str, most: u32) -> Result<u32, NotCpuSet> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(NotCpuSet);
    }
    text.parse().ok().filter(|cpu| *cpu <= most).ok_or(NotCpuSet)
}
