//! Attackers: what each of them does once, to be done again and again. The end-to-end tests do it a few times,
//! `cargo xtask attacks` for a minute, as fast as it can be done.

mod machine;
mod program;

use std::time::Instant;

use anyhow::Result;

pub use machine::{Deed, Machine};
pub use program::{Misuse, Program, be_asked, be_handed};

/// Somebody who does what he must not.
pub trait Attack {
    /// Does it once, unless nobody lets him before `until`; whether he has.
    ///
    /// # Errors
    /// Something of its own does not work.
    fn act(&mut self, until: Instant) -> Result<bool>;

    /// Lets go of what he has.
    ///
    /// # Errors
    /// As those of [`Attack::act`].
    fn rest(&mut self) -> Result<()> {
        Ok(())
    }
}
