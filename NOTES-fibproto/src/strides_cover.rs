//! The longest covering route of a part.

use crate::routes::{Route, mask};

/// Next hop of the longest route of at most `depth` bits that covers a prefix.
pub fn cover_of(routes: &[Route], prefix: u128, depth: u8) -> Option<u32> {
    (0..=depth).rev().find_map(|len| {
        let at = routes
            .binary_search_by_key(&(prefix & mask(len), len), |r| (r.prefix, r.len))
            .ok()?;
        Some(routes[at].hop)
    })
}
