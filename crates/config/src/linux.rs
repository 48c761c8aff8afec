//! `engine = "linux"`: keys of a guest that does not run our firmware, and the keys that it cannot have.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::plan::{Engine, Linux, NicModel, Router};
use crate::read::valued;
use crate::section::Section;
use crate::values;

/// Keys of such a guest beyond those of every router.
pub(crate) const KEYS: [&str; 4] = ["kernel", "initrd", "append", "console"];
/// Keys that only the firmware understands.
const OF_FIRMWARE: [&str; 8] =
    ["role", "misdeed", "route", "neighbour", "interface", "neighbours", "long_routes", "redirects"];
/// Most NICs: in slot 0 of its PCI bus is the host bridge.
const MOST_NICS: usize = bootinfo::map::SLOTS - 1;
/// Number of NICs for which it has interrupt pins.
const PINS: usize = bootinfo::map::PINS;
/// Default guest memory: a stock kernel with an initramfs boots in it.
const DEFAULT_MEMORY: u64 = 256 << 20;
/// Limits of guest memory: what a present-day kernel needs, and the end of memory below the devices.
const MEMORY: RangeInclusive<u64> = 64 << 20..=3 << 30;

/// Parses these keys; `None` for another engine, which must have none of them.
pub(crate) fn read(section: &Section<'_>, engine: Option<Engine>) -> Option<Linux> {
    if engine != Some(Engine::Linux) {
        for key in KEYS.into_iter().filter(|key| section.has(key)) {
            let what = "only a Linux guest has it; remove it, or write engine = \"linux\"";
            section.fault(section.line_of(key), key, what);
        }
        return None;
    }
    for key in OF_FIRMWARE.into_iter().filter(|key| section.has(key)) {
        let what = "a Linux guest sets itself up and is told nothing; remove it, or write another engine";
        section.fault(section.line_of(key), key, what);
    }
    let example = "\"/boot/vmlinuz\"";
    if !section.has("kernel") {
        section.missing("kernel", example);
    }
    Some(Linux {
        kernel: valued(section, "kernel", example, path).unwrap_or_default(),
        initrd: valued(section, "initrd", "\"initrd.img\"", path),
        append: valued(section, "append", "\"console=ttyS0\"", words).unwrap_or_default(),
        console: valued(section, "console", "\"console.log\"", path),
    })
}

/// Parses its memory.
pub(crate) fn memory(section: &Section<'_>) -> u64 {
    let read = |text: &str| values::memory_within(text, &MEMORY);
    valued(section, "memory", "\"256M\"", read).unwrap_or(DEFAULT_MEMORY)
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(format!("{text:?} names no file"));
    }
    Ok(PathBuf::from(text))
}

fn words(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err(format!("{text:?} is no line of words; write e.g. \"console=ttyS0 quiet\""));
    }
    Ok(text.to_owned())
}

/// Checks that need the whole router.
pub(crate) fn verify(section: &Section<'_>, router: &Router) {
    if router.linux.is_none() {
        return;
    }
    let tables = section.tables("nic");
    if let Some(extra) = tables.get(MOST_NICS).filter(|_| router.nics.len() > MOST_NICS) {
        let what =
            format!("a Linux guest has at most {MOST_NICS} NICs, because its host bridge takes a slot");
        section.fault(extra.line, "nic", what);
    }
    for (number, (nic, table)) in router.nics.iter().zip(&tables).enumerate() {
        if !nic.addresses.is_empty() || !nic.six.addresses.is_empty() {
            let what = "a Linux guest gives itself its addresses; remove it";
            table.fault(table.line_of("address"), "address", what);
        }
        if table.has("vrf") {
            table.fault(table.line_of("vrf"), "vrf", "a Linux guest routes as it wants to; remove it");
        }
        if nic.model == NicModel::E1000 && number >= PINS {
            let what = format!(
                "an e1000 interrupts by a pin, and a Linux guest has them for its first {PINS} NICs; write model = \
                 \"virtio-net\""
            );
            table.fault(table.line_of("model"), "model", what);
        }
    }
}
