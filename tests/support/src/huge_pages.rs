//! Huge pages of the host.

use std::fs;

const PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages of 2 MiB requested by a test. Dropping it restores their previous number.
pub struct HugePages {
    before: String,
}

impl HugePages {
    /// Sets exactly this many; `None` if the host does not provide them.
    pub fn set(count: u32) -> Option<Self> {
        let before = fs::read_to_string(PAGES).ok()?;
        let pages = Self { before };
        fs::write(PAGES, count.to_string()).ok()?;
        (fs::read_to_string(PAGES).ok()?.trim() == count.to_string()).then_some(pages)
    }

    /// Number of free huge pages.
    ///
    /// # Panics
    /// This kernel has no huge pages.
    pub fn free() -> u32 {
        let text = fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
        text.expect("huge pages").trim().parse().expect("a number")
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = fs::write(PAGES, self.before.trim());
    }
}
