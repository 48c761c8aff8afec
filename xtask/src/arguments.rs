//! Parsing of the tasks' arguments.

use std::error::Error;
use std::str::FromStr;

use anyhow::{Context, Result};

/// Parses the number that follows an option.
///
/// # Errors
/// There is no number.
pub(crate) fn number<'a, T>(option: &str, rest: &mut impl Iterator<Item = &'a String>) -> Result<T>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let value = rest.next().with_context(|| format!("{option} needs a number"))?;
    value.parse().with_context(|| format!("{option} {value}: not a number"))
}
