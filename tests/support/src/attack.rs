//! Attackers: each can perform its attack once, repeatedly. The end-to-end tests do that a few times,
//! `cargo xtask attacks` for a minute, as fast as possible.

mod kernel;
mod machine;
mod program;

use std::time::Instant;

use anyhow::Result;

pub use kernel::talking_kernel;
pub use machine::{Deed, Machine};
pub use program::{Misuse, Program, be_asked, be_handed};

/// An attacker.
pub trait Attack {
    /// Prepares the attack; the time and resources that this takes are not part of it.
    ///
    /// # Errors
    /// Something of its own does not work.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Attacks once, if that is possible before `until`; returns true if it has.
    ///
    /// # Errors
    /// Something of its own does not work.
    fn act(&mut self, until: Instant) -> Result<bool>;

    /// Returns how often the attack that was set in motion has been repeated by itself since the last call.
    ///
    /// # Errors
    /// As those of [`Attack::act`].
    fn counted(&mut self) -> Result<u64> {
        Ok(0)
    }

    /// Releases what it holds.
    ///
    /// # Errors
    /// As those of [`Attack::act`].
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }
}
