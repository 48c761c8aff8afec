//! `ringroad stop NAME`, `start NAME`, `restart NAME`.

use anyhow::Result;
use api::Request;

use crate::client::{self, Kind};

/// Stops a router, or a whole run. Where both have the name, the router.
///
/// # Errors
/// There is neither.
pub(crate) fn stop(name: &str) -> Result<()> {
    let mut target = client::find(name, Kind::Either)?;
    client::order(&mut target, &Request::Stop { name: name.to_owned() })
}

/// Starts a router that was stopped or has failed.
///
/// # Errors
/// There is no such router in any run, or it cannot be started.
pub(crate) fn start(router: &str) -> Result<()> {
    let mut target = client::find(router, Kind::Router)?;
    client::order(&mut target, &Request::Start { router: router.to_owned() })
}

/// Stops a router and starts it again.
///
/// # Errors
/// As [`start`].
pub(crate) fn restart(router: &str) -> Result<()> {
    let mut target = client::find(router, Kind::Router)?;
    client::order(&mut target, &Request::Restart { router: router.to_owned() })
}
