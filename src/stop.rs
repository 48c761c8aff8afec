//! `ringroad stop NAME`, `start NAME`, `restart NAME`.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::Request;
use command_line::client::{self, Kind};
use command_line::group;

/// Time limit for the end of a run.
const END: Duration = Duration::from_secs(30);
/// Time between two checks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Stops a router, a group or a whole run, and waits until it has stopped. If a run has the name of a router or
/// group, the run goes on.
///
/// # Errors
/// There is neither, or it does not stop.
pub(crate) fn stop(name: &str) -> Result<()> {
    let mut target = client::find(name, Kind::Either)?;
    let is_run = !target.status.routers.iter().any(|router| group::is_meant(&router.name, name));
    client::request_and_print(&mut target, &Request::Stop { name: name.to_owned() })?;
    if !is_run {
        return Ok(());
    }
    let end = Instant::now() + END;
    while target.socket.exists() {
        ensure!(Instant::now() < end, "run {name} does not end within {} s", END.as_secs());
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Starts a router that was stopped or has failed.
///
/// # Errors
/// There is no such router in any run, or it cannot be started.
pub(crate) fn start(router: &str) -> Result<()> {
    let mut target = client::find(router, Kind::Router)?;
    client::request_and_print(&mut target, &Request::Start { router: router.to_owned() })
}

/// Stops a router and starts it again.
///
/// # Errors
/// Those of [`start`].
pub(crate) fn restart(router: &str) -> Result<()> {
    let mut target = client::find(router, Kind::Router)?;
    client::request_and_print(&mut target, &Request::Restart { router: router.to_owned() })
}
