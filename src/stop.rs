//! `ringroad stop NAME`, `start NAME`, `restart NAME`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::Request;
use api::folder::LOCK;
use command_line::client::{self, Kind};
use command_line::group;

/// Time limit for the end of a run, as in its unit of systemd (`TimeoutStopSec=`).
const END: Duration = Duration::from_secs(420);
/// Time between two checks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Stops a router, a group or a whole run, and waits until it has stopped and its names are free. If a run has the
/// name of a router or group, the run goes on.
///
/// # Errors
/// There is neither, or it does not stop.
pub(crate) fn stop(name: &str) -> Result<()> {
    let mut target = client::find(name, Kind::Either)?;
    let is_run = !target.status.routers.iter().any(|router| group::is_meant(&router.name, name));
    let holder = Holder::of(&target.socket);
    client::request_and_print(&mut target, &Request::Stop { name: name.to_owned() })?;
    if !is_run {
        return Ok(());
    }
    let end = Instant::now() + END;
    while holder.is_there() {
        ensure!(Instant::now() < end, "run {name} does not end within {} s", END.as_secs());
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Run that holds its name: its socket goes before everything else that it has made, and the lock on its name
/// last.
struct Holder {
    lock: PathBuf,
    /// What it has written into the lock: another run of this name writes something else.
    number: Option<String>,
}

impl Holder {
    /// The run with this socket.
    fn of(socket: &Path) -> Self {
        let lock = socket.with_file_name(LOCK);
        let number = fs::read_to_string(&lock).ok();
        Self { lock, number }
    }

    /// Returns true if it holds its name.
    fn is_there(&self) -> bool {
        self.number.is_some() && fs::read_to_string(&self.lock).ok() == self.number
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_as_much_time_to_end_as_its_unit() {
        let unit = include_str!("../packaging/ringroad@.service");
        let limit = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec="));
        assert_eq!(limit, Some(END.as_secs().to_string().as_str()));
    }

    #[test]
    fn a_run_is_there_until_its_lock_is_gone_or_another_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let (socket, lock) = (folder.path().join("control"), folder.path().join(LOCK));
        assert!(!Holder::of(&socket).is_there());
        fs::write(&lock, "4711\n").expect("written");
        // Its socket is not there any more.
        let holder = Holder::of(&socket);
        assert!(holder.is_there());
        fs::remove_file(&lock).expect("removed");
        assert!(!holder.is_there());
        fs::write(&lock, "4712\n").expect("written");
        assert!(!holder.is_there(), "another run has the name");
    }
}
