//! Isolation of the data plane's process: its own user, namespaces and root.
//!
//! A data plane holds descriptors of everything that it may touch, so it needs no names: its empty root holds
//! no files, its network namespace no interfaces or abstract sockets, its IPC namespace no queues. Its user
//! owns nothing on the host, and its user namespace gives it no rights over anything outside. The filters
//! forbid all of this as well; an attacker who gets around one of the two mechanisms still faces the other.
//!
//! There is no PID namespace: the supervisor places and schedules threads by the numbers that the data plane
//! reports, and no class may name another process by number (`class`).

use std::{fmt, fs, io};

use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, set_keep_capabilities, unshare_unsafe};

use crate::steps::{self, pivot_to_empty_root, raise_permitted};

/// Namespaces other than the user namespace, which makes it possible to create these without privileges.
const OTHERS: UnshareFlags = UnshareFlags::NEWNS.union(UnshareFlags::NEWNET).union(UnshareFlags::NEWIPC);

/// Feature that this host lacks, and why, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingIsolation(String);

impl fmt::Display for MissingIsolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Features found missing so far.
#[derive(Default)]
struct Attempts(Vec<MissingIsolation>);

impl Attempts {
    /// Records a failed attempt. Returns true if it succeeded.
    fn note(&mut self, what: &str, outcome: io::Result<()>) -> bool {
        self.0.extend(outcome.as_ref().err().map(|error| MissingIsolation(format!("{what} ({error})"))));
        outcome.is_ok()
    }
}

/// Isolates this process as far as the host allows, as `user`, if given (which needs root). Returns the
/// missing features. Its capabilities then refer to its own user namespace, and are to be dropped next.
pub(crate) fn enter(user: Option<u32>) -> Vec<MissingIsolation> {
    let mut attempts = Attempts::default();
    if let Some(user) = user {
        attempts.note(&format!("no user of its own, number {user}"), become_user(user));
    }
    // Inside the namespace it has no identity until a mapping is written.
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let has_root = match unshare(UnshareFlags::NEWUSER | OTHERS) {
        Ok(()) => attempts.note("nobody in its user namespace", map_own_user(user, group)),
        Err(error) => {
            attempts.note("no user namespace", Err(error));
            attempts.note("no mount, net and ipc namespaces", unshare(OTHERS))
        }
    };
    if has_root {
        attempts.note("no empty root", pivot_to_empty_root());
    }
    attempts.0
}

/// Changes to this user, with the group of the same number as its only group. Capabilities are kept, since
/// creating namespaces needs them.
fn become_user(user: u32) -> io::Result<()> {
    set_keep_capabilities(true)?;
    steps::become_user(user)?;
    raise_permitted()?;
    // In /proc the files of a process that is not dumpable belong to root: also the user map that it has to
    // write.
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Maps its outer user and group into the new user namespace, and no others.
fn map_own_user(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    map_user("self", user, group)
}

/// Maps a user and a group to themselves in the new user namespace of a process (`self` or its number), and
/// no others.
///
/// # Errors
/// The caller may not do that, or a map has been written already.
pub fn map_user(process: impl fmt::Display, user: u32, group: u32) -> io::Result<()> {
    // Inside, outside, count: one number, mapped to itself.
    fs::write(format!("/proc/{process}/gid_map"), format!("{group} {group} 1"))?;
    fs::write(format!("/proc/{process}/uid_map"), format!("{user} {user} 1"))
}

fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: descriptors stay shared by the whole process, which has only one thread.
    Ok(unsafe { unshare_unsafe(namespaces) }?)
}
