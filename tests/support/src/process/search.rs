//! Search of a process's memory.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

use super::Process;

/// Octets read at once.
const CHUNK: usize = 1 << 20;
/// Unit that is searched or skipped as a whole.
const PAGE: usize = 4096;

impl Process {
    /// Returns which of these octet strings, each with a name, are anywhere in the memory that the process can read. None of
    /// them begins with a zero.
    pub fn holds<'w>(&self, wanted: &[(&'w str, Vec<u8>)]) -> Result<BTreeSet<&'w str>> {
        let memory = format!("/proc/{}/mem", self.id);
        let memory = File::open(&memory).with_context(|| format!("cannot open {memory}"))?;
        let maps = format!("/proc/{}/maps", self.id);
        let maps = fs::read_to_string(&maps).with_context(|| format!("cannot read {maps}"))?;
        let mut left: Vec<&(&str, Vec<u8>)> = wanted.iter().collect();
        let mut found = BTreeSet::new();
        for range in maps.lines().filter_map(readable) {
            search(&memory, range, &mut left, &mut found);
        }
        Ok(found)
    }
}

/// Parses the address range of a mapping from a line of `/proc/PID/maps`, if it is readable.
fn readable(line: &str) -> Option<Range<u64>> {
    let mut words = line.split(' ');
    let (first, last) = words.next()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    words.next()?.starts_with('r').then_some(address(first)?..address(last)?)
}

/// Moves the strings that are found from `left` to `found`.
fn search<'w>(
    memory: &File,
    range: Range<u64>,
    left: &mut Vec<&(&'w str, Vec<u8>)>,
    found: &mut BTreeSet<&'w str>,
) {
    let longest = left.iter().map(|(_, octets)| octets.len()).max().unwrap_or(0);
    let mut buffer = vec![0; CHUNK + longest];
    let mut at = range.start;
    while at < range.end && !left.is_empty() {
        let most = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buffer.len());
        // Some mappings cannot be read, such as the kernel's clock page.
        let Ok(read @ 1..) = memory.read_at(&mut buffer[..most], at) else { return };
        let there = inside(&buffer[..read], left);
        left.retain(|(name, _)| !there.contains(name));
        found.extend(there);
        at += if read > CHUNK { CHUNK } else { read } as u64;
    }
}

/// Returns which of `wanted` are in these octets. Optimised for memory that is mostly zero.
fn inside<'w>(octets: &[u8], wanted: &[&(&'w str, Vec<u8>)]) -> BTreeSet<&'w str> {
    let mut begins = [false; 256];
    wanted.iter().for_each(|(_, wanted)| begins[usize::from(wanted[0])] = true);
    let mut there = BTreeSet::new();
    for (page, chunk) in
        octets.chunks(PAGE).enumerate().filter(|(_, chunk)| **chunk != [0; PAGE][..chunk.len()])
    {
        for (at, _) in chunk.iter().enumerate().filter(|(_, octet)| begins[usize::from(**octet)]) {
            let rest = &octets[page * PAGE + at..];
            there.extend(wanted.iter().filter(|(_, wanted)| rest.starts_with(wanted)).map(|(name, _)| *name));
        }
    }
    there
}
