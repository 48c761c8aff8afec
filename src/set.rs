//! `ringroad set NAME KEY=VALUE`: another setting for a router that runs.

use anyhow::{Context, Result};
use api::Request;

use crate::client::{self, Kind};

/// Changes one setting of a router, or of a NIC, which is named as `router.nic`.
///
/// # Errors
/// There is no such router or setting, or the value is not one.
pub(crate) fn set(router: &str, setting: &str) -> Result<()> {
    let (key, value) = setting
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .with_context(|| format!("{setting:?} is no setting; write e.g. spin=100us"))?;
    // A name of a router has no dot.
    let (router, key) = match router.split_once('.') {
        Some((router, nic)) => (router, format!("{nic}.{key}")),
        None => (router, key.to_owned()),
    };
    let mut target = client::find(router, Kind::Router)?;
    let (router, value) = (router.to_owned(), value.to_owned());
    client::order(&mut target, &Request::Set { router, key, value })
}
