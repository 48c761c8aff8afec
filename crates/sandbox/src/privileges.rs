//! Giving up what the data plane was started with.

use std::{fmt, fs, io};

use anyhow::{Context, Result, ensure};
use rustix::process::{DumpableBehavior, Resource, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, capabilities, clear_ambient_capability_set, set_capabilities_secure_bits,
};

use crate::filter::look_things_up;
use crate::jail::{self, Missing};
use crate::steps::{NO_CAPABILITIES, drop_capabilities, empty_bounding_set, forbid, gain_nothing};

/// Securebits, each with its lock: root is nobody special, keeps nothing at exec, gains nothing by changing its user,
/// and raises nothing into the ambient set (`linux/securebits.h`).
const SECURE: CapabilitiesSecureBits =
    CapabilitiesSecureBits::from_bits_retain(0b11 | 0b11 << 2 | 0b10 << 4 | 0b11 << 6);

/// Takes every capability from this process and from what it starts, for good, keeps it from gaining any by exec, and
/// hides its memory from other processes of its user. It becomes `user` (by number, and the group of that number), which only root
/// may, or stays who it is; and it has user, mount, net and ipc namespaces and an empty root of its own. Nor does it keep what it was
/// favoured with: when the host runs out of memory it is killed no later than others; and it leaves no core. Returns what of user,
/// namespaces and root this host does not give: then the filters of [`confine`](crate::confine) hold alone.
///
/// For a process with one thread: other threads would keep theirs.
///
/// # Errors
/// One line: the process has more threads, or something could not be given up.
pub fn give_up_privileges(user: Option<u32>) -> Result<Vec<Missing>> {
    let threads = fs::read_dir("/proc/self/task").context("cannot count this process's threads")?.count();
    ensure!(threads == 1, "privileges are given up by a process with one thread; this one has {threads}");
    be_ordinary("self").context("cannot be killed as others are when memory runs out (oom_score_adj)")?;
    limit().context("cannot limit what this process may use")?;
    look_things_up();
    let missing = jail::enter(user);
    gain_nothing().context("cannot give up gaining privileges (no_new_privs)")?;
    clear_ambient_capability_set().context("cannot clear the ambient capabilities")?;
    // Who lacks CAP_SETPCAP can gain nothing from the set either, because of no_new_privs.
    let _ = empty_bounding_set();
    // Refused without CAP_SETPCAP, and then there is nothing to lock: no_new_privs keeps exec from giving any.
    let _ = set_capabilities_secure_bits(SECURE);
    drop_capabilities().context("cannot give up the capabilities")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot hide this process's memory")?;
    let left = capabilities(None).context("cannot read the capabilities")?;
    ensure!(left == NO_CAPABILITIES, "capabilities are left: {left:x?}");
    Ok(missing)
}

/// Takes away what a process (`self` or its number) was favoured with: when the host runs out of memory it is killed no later than
/// others. Anybody may raise the number; a negative one was meant for who started it.
///
/// # Errors
/// The file of that number cannot be read or written.
pub fn be_ordinary(process: impl fmt::Display) -> io::Result<()> {
    let score = format!("/proc/{process}/oom_score_adj");
    if fs::read_to_string(&score)?.starts_with('-') { fs::write(score, "0") } else { Ok(()) }
}

/// No core with guests' memory in it, no message queue, no lease or lock of a file. (What its supervisor may give its threads is
/// limited by this process's own limits of priorities, so those stay; how much memory may be locked, by that of who locks it.)
fn limit() -> io::Result<()> {
    forbid(&[Resource::Core, Resource::Msgqueue, Resource::Locks])
}
