//! Attackers: what each of them does once, to be done again and again. The end-to-end tests do it a few times,
//! `cargo xtask attacks` for a minute, as fast as it can be done.

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
    /// Gets ready: what this takes and costs is not yet the attack.
    ///
    /// # Errors
    /// Something of its own does not work.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// Attacks once, unless that is not possible before `until`; whether it has.
    ///
    /// # Errors
    /// Something of its own does not work.
    fn act(&mut self, until: Instant) -> Result<bool>;

    /// How often what was set to work has attacked by itself since this was asked last.
    ///
    /// # Errors
    /// As those of [`Attack::act`].
    fn counted(&mut self) -> Result<u64> {
        Ok(0)
    }

    /// Lets go of what it holds.
    ///
    /// # Errors
    /// As those of [`Attack::act`].
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }
}
