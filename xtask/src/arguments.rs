//! Arguments of the tasks.

use std::error::Error;
use std::str::FromStr;

use anyhow::{Context, Result};

/// The number behind an option.
///
/// # Errors
/// There is none.
pub(crate) fn number<'a, T>(option: &str, rest: &mut impl Iterator<Item = &'a String>) -> Result<T>
where
    T: FromStr<Err: Error + Send + Sync + 'static>,
{
    let value = rest.next().with_context(|| format!("{option} needs a number"))?;
    value.parse().with_context(|| format!("{option} {value}: not a number"))
}
