//! Huge pages of the host.

use std::fs;

const PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages of 2 MiB that a test asks for. Dropping it sets back how many there are.
pub struct HugePages {
    before: String,
}

impl HugePages {
    /// Exactly so many; `None` where the host does not give them.
    pub fn set(count: u32) -> Option<Self> {
        let before = fs::read_to_string(PAGES).ok()?;
        let pages = Self { before };
        fs::write(PAGES, count.to_string()).ok()?;
        (fs::read_to_string(PAGES).ok()?.trim() == count.to_string()).then_some(pages)
    }

    /// How many nobody has.
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
