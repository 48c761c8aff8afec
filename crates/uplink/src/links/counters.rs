//! The kernel's counters of an interface, from the table /proc/net/dev (proc(5)).

use std::fs;

use crate::Error;

/// The kernel's counters of all interfaces in the namespace of the thread that read them.
#[derive(Clone, Debug)]
pub struct LinkTable(String);

impl LinkTable {
    /// Reads the table.
    ///
    /// # Errors
    /// /proc is not mounted.
    pub fn here() -> Result<Self, Error> {
        fs::read_to_string("/proc/thread-self/net/dev")
            .map(Self)
            .map_err(|e| Error::system("reading /proc/thread-self/net/dev", e))
    }

    /// Returns the counters of this interface; `None`: it does not exist.
    pub fn of(&self, name: &str) -> Option<LinkCounters> {
        LinkCounters::find(&self.0, name)
    }
}

/// The kernel's counters of an interface; `rx` is what the kernel received from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames received.
    pub rx_frames: u64,
    /// Octets received.
    pub rx_bytes: u64,
    /// Frames received and lost.
    pub rx_drops: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Octets sent.
    pub tx_bytes: u64,
    /// Frames that were to be sent and were lost, for instance because the TAP was not read fast enough.
    pub tx_drops: u64,
}

impl LinkCounters {
    /// Returns the counters of `name` in the calling thread's namespace.
    pub fn here(name: &str) -> Result<Self, Error> {
        LinkTable::here()?
            .of(name)
            .ok_or_else(|| Error::NoInterface { what: format!("reading the counters of `{name}`") })
    }

    /// Finds the counters of `name` in the text of the table.
    pub(crate) fn find(table: &str, name: &str) -> Option<Self> {
        let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
        let mut numbers = [0; 16];
        let mut words = line.split_ascii_whitespace();
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        let [rx_bytes, rx_frames, _, rx_drops, _, _, _, _, tx_bytes, tx_frames, _, tx_drops, ..] = numbers;
        Some(Self { rx_frames, rx_bytes, rx_drops, tx_frames, tx_bytes, tx_drops })
    }
}
