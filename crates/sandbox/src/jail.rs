//! The room that the data plane is shut into: a user, namespaces and a root of its own.
//!
//! A data plane has descriptors of all that it may touch, so it needs no name of anything: no file has one in its empty root, no
//! interface and no abstract socket in its network namespace, no queue in its IPC namespace. Its user owns nothing on the host, and
//! its user namespace gives it rights over nothing outside. The filters forbid all of this as well; whoever gets around one of the
//! two still meets the other.
//!
//! There is no PID namespace: the supervisor places and schedules threads by the numbers that the data plane tells, and no class can
//! name a process by its number but its own (`class`).

use std::{fmt, fs, io};

use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{UnshareFlags, set_keep_capabilities, unshare_unsafe};

use crate::steps::{self, leave_files, raise_permitted};

/// Namespaces without the one that lets everybody make the others.
const OTHERS: UnshareFlags = UnshareFlags::NEWNS.union(UnshareFlags::NEWNET).union(UnshareFlags::NEWIPC);

/// Something that this host does not give, and why: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What could not be had so far.
#[derive(Default)]
struct Attempts(Vec<Missing>);

impl Attempts {
    /// Whether it worked; else what is missing is noted.
    fn note(&mut self, what: &str, outcome: io::Result<()>) -> bool {
        self.0.extend(outcome.as_ref().err().map(|error| Missing(format!("{what} ({error})"))));
        outcome.is_ok()
    }
}

/// Shuts this process in, as far as the host lets it, and becomes `user`, if one is given (which only root may); what is missing.
/// Its capabilities are then those of its own user namespace, and are to be given up next.
pub(crate) fn enter(user: Option<u32>) -> Vec<Missing> {
    let mut attempts = Attempts::default();
    if let Some(user) = user {
        attempts.note(&format!("no user of its own, number {user}"), become_user(user));
    }
    // Inside, until it is mapped, it is nobody.
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let has_root = match unshare(UnshareFlags::NEWUSER | OTHERS) {
        Ok(()) => attempts.note("nobody in its user namespace", map_own_user(user, group)),
        Err(error) => {
            attempts.note("no user namespace", Err(error));
            attempts.note("no mount, net and ipc namespaces", unshare(OTHERS))
        }
    };
    if has_root {
        attempts.note("no empty root", leave_files());
    }
    attempts.0
}

/// Becomes this user, of the group of the same number and of no other. Capabilities stay: namespaces take them.
fn become_user(user: u32) -> io::Result<()> {
    set_keep_capabilities(true)?;
    steps::become_user(user)?;
    raise_permitted()?;
    // What a process that is hidden has in /proc is root's: also the map of users that it is to write.
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// In a new user namespace: be there who it is outside, and let nobody else be anybody.
fn map_own_user(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    map_user("self", user, group)
}

/// Lets a process (`self` or its number) be this user of this group in its new user namespace, as it is outside, and nobody else.
///
/// # Errors
/// The caller may not; or there is a map already.
pub fn map_user(process: impl fmt::Display, user: u32, group: u32) -> io::Result<()> {
    // One number to itself: inside, outside, how many.
    fs::write(format!("/proc/{process}/gid_map"), format!("{group} {group} 1"))?;
    fs::write(format!("/proc/{process}/uid_map"), format!("{user} {user} 1"))
}

fn unshare(namespaces: UnshareFlags) -> io::Result<()> {
    // SAFETY: descriptors stay those of the whole process; and this one has one thread.
    Ok(unsafe { unshare_unsafe(namespaces) }?)
}
