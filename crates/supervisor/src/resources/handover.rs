//! What is handed to another process: descriptors, and what each of them is.

use std::os::fd::{BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use attach::HandedOver;
use link::{Supply, SupplyKind};
use serde_json::Value;

/// Descriptors to hand to another process.
#[derive(Default)]
pub(crate) struct Handover {
    supplies: Vec<Supply>,
    descriptors: Vec<OwnedFd>,
}

impl Handover {
    /// Returns what each descriptor is, and the descriptors.
    pub(crate) fn into_parts(self) -> (Vec<Supply>, Vec<OwnedFd>) {
        (self.supplies, self.descriptors)
    }

    /// Adds duplicates of these descriptors.
    pub(crate) fn add(
        &mut self,
        need: SupplyKind,
        of: &str,
        given: (Value, Vec<BorrowedFd<'_>>),
    ) -> Result<()> {
        let HandedOver { what, descriptors } = HandedOver::of(given).context("no descriptors are left")?;
        self.supplies.push(Supply { need, of: of.to_owned(), what, descriptors: descriptors.len() });
        self.descriptors.extend(descriptors);
        Ok(())
    }
}
