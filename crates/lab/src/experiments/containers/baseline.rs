//! Baseline: the host's kernel forwards on one core, in a namespace that is set up by hand.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::Stand;
use crate::experiment::Options;
use crate::experiments::control::capacity::best;

/// Returns the best rate of the baseline on this CPU, in frames a second. It stands for the paper's line rate. The first call
/// measures it, and all cases of a process share it as their scale.
///
/// # Errors
/// The baseline cannot be set up, or forwarded no frame.
pub(super) fn line_rate(options: &Options, cpu: usize) -> Result<f64> {
    static KNOWN: Mutex<BTreeMap<(usize, usize), f64>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(&(options.frame, cpu)) {
        return Ok(*found);
    }
    let found = Stand::BY_HAND.with_routers(options, &[cpu], best).context("the baseline")?;
    known.insert((options.frame, cpu), found);
    Ok(found)
}
