//! Dropping the privileges that the data plane was started with.

use std::{fmt, fs, io};

use anyhow::{Context, Result, ensure};
use rustix::process::{DumpableBehavior, Resource, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, capabilities, clear_ambient_capability_set, set_capabilities_secure_bits,
};

use crate::filter::cache_lookups;
use crate::jail::{self, MissingIsolation};
use crate::steps::{NO_CAPABILITIES, drop_capabilities, empty_bounding_set, enter_no_new_privs, forbid};

/// Securebits, each with its lock: user 0 has no special powers, keeps no capabilities at exec, gains none by
/// changing its user, and raises none into the ambient set (`linux/securebits.h`).
const SECURE: CapabilitiesSecureBits =
    CapabilitiesSecureBits::from_bits_retain(0b11 | 0b11 << 2 | 0b10 << 4 | 0b11 << 6);

/// Irrevocably drops all capabilities of this process and of its future children, keeps it from gaining any
/// by exec, and hides its memory from other processes of its user. The process changes to `user` (by number,
/// with the group of the same number), which needs root, or keeps its own user; it gets user, mount, net and
/// ipc namespaces and an empty root of its own. It also loses inherited advantages: when the host runs out of
/// memory it is killed as readily as others, and it leaves no core. Returns which of user, namespaces and
/// root this host does not provide: then only the filters of [`confine`](crate::confine) protect.
///
/// The process must have one thread: other threads would keep their privileges.
///
/// # Errors
/// In one line, that the process has more threads, or which privilege could not be dropped.
pub fn give_up_privileges(user: Option<u32>) -> Result<Vec<MissingIsolation>> {
    let threads = fs::read_dir("/proc/self/task").context("cannot count this process's threads")?.count();
    ensure!(threads == 1, "privileges are given up by a process with one thread; this one has {threads}");
    reset_oom_score("self").context("cannot be killed as others are when memory runs out (oom_score_adj)")?;
    limit().context("cannot limit what this process may use")?;
    cache_lookups();
    let missing = jail::enter(user);
    enter_no_new_privs().context("cannot give up gaining privileges (no_new_privs)")?;
    clear_ambient_capability_set().context("cannot clear the ambient capabilities")?;
    // Without CAP_SETPCAP this fails, but then no_new_privs already makes the set useless.
    let _ = empty_bounding_set();
    // This fails without CAP_SETPCAP, but then nothing needs locking: no_new_privs keeps exec from granting
    // capabilities.
    let _ = set_capabilities_secure_bits(SECURE);
    drop_capabilities().context("cannot give up the capabilities")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot hide this process's memory")?;
    let left = capabilities(None).context("cannot read the capabilities")?;
    ensure!(left == NO_CAPABILITIES, "capabilities are left: {left:x?}");
    Ok(missing)
}

/// Removes a process's (`self` or number) protection from the OOM killer, so that it is killed as readily as
/// others. Any process may raise the score; a negative one was meant for the process that started it.
///
/// # Errors
/// The score cannot be read or written.
pub fn reset_oom_score(process: impl fmt::Display) -> io::Result<()> {
    let score = format!("/proc/{process}/oom_score_adj");
    if fs::read_to_string(&score)?.starts_with('-') { fs::write(score, "0") } else { Ok(()) }
}

/// No core with guests' memory in it, no message queue, no lease or lock of a file. (Limits of priorities
/// stay, because they bound what the supervisor may give its threads; so does that of locked memory, which
/// applies to the process that locks it.)
fn limit() -> io::Result<()> {
    forbid(&[Resource::Core, Resource::Msgqueue, Resource::Locks])
}
