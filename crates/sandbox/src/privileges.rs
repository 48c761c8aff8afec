//! Giving up what the data plane was started with.

use std::ffi::{c_int, c_ulong};
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::filter::look_things_up;
use crate::jail::{self, Missing};

/// More capabilities than any kernel has.
const MOST_CAPABILITIES: c_ulong = 64;
/// `_LINUX_CAPABILITY_VERSION_3`: sets of two words.
const VERSION_3: u32 = 0x2008_0522;
/// Securebits, each with its lock: root is nobody special, keeps nothing at exec, gains nothing by changing its user,
/// and raises nothing into the ambient set (`linux/securebits.h`).
const SECURE: c_ulong = 0b11 | 0b11 << 2 | 0b10 << 4 | 0b11 << 6;

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
    be_ordinary().context("cannot be killed as others are when memory runs out (oom_score_adj)")?;
    limit().context("cannot limit what this process may use")?;
    look_things_up();
    let missing = jail::enter(user);
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1).context("cannot give up gaining privileges (no_new_privs)")?;
    prctl_ambient_clear().context("cannot clear the ambient capabilities")?;
    empty_bounding_set();
    // Refused without CAP_SETPCAP, and then there is nothing to lock: no_new_privs keeps exec from giving any.
    let _ = prctl(libc::PR_SET_SECUREBITS, SECURE);
    drop_capabilities().context("cannot give up the capabilities")?;
    prctl(libc::PR_SET_DUMPABLE, 0).context("cannot hide this process's memory")?;
    let left = capabilities().context("cannot read the capabilities")?;
    ensure!(left.iter().all(|set| *set == Set::default()), "capabilities are left: {left:x?}");
    Ok(missing)
}

/// Anybody may raise the number; a negative one was meant for who started this process.
fn be_ordinary() -> io::Result<()> {
    let score = "/proc/self/oom_score_adj";
    if fs::read_to_string(score)?.starts_with('-') { fs::write(score, "0") } else { Ok(()) }
}

/// No core with guests' memory in it, no message queue, no lease or lock of a file. (What its supervisor may give its threads is
/// limited by this process's own limits of priorities, so those stay; how much memory may be locked, by that of who locks it.)
fn limit() -> io::Result<()> {
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    for resource in [Resource::Core, Resource::Msgqueue, Resource::Locks] {
        setrlimit(resource, nothing)?;
    }
    Ok(())
}

/// One word of the three sets, as capget(2) and capset(2) have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

fn capabilities() -> io::Result<[Set; 2]> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Set::default(); 2];
    // SAFETY: with version 3 the kernel writes two words of sets.
    succeeded(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) }).map(|()| sets)
}

fn drop_capabilities() -> io::Result<()> {
    set_capabilities([Set::default(); 2])
}

/// Makes those effective that are permitted: a change of user has left them so.
pub(crate) fn raise_permitted() -> io::Result<()> {
    set_capabilities(capabilities()?.map(|set| Set { effective: set.permitted, ..set }))
}

fn set_capabilities(sets: [Set; 2]) -> io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: with version 3 the kernel reads two words of sets.
    succeeded(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) })
}

/// Needs CAP_SETPCAP. Who has not got it can gain nothing from the set either, because of no_new_privs.
fn empty_bounding_set() {
    for capability in 0..MOST_CAPABILITIES {
        if prctl(libc::PR_CAPBSET_DROP, capability).is_err() {
            return;
        }
    }
}

fn prctl_ambient_clear() -> io::Result<()> {
    let none: c_ulong = 0;
    // SAFETY: takes numbers only.
    let answer = unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong, none, none, none)
    };
    succeeded(answer.into())
}

pub(crate) fn prctl(what: c_int, value: c_ulong) -> io::Result<()> {
    let none: c_ulong = 0;
    // SAFETY: all calls here take numbers only.
    succeeded(unsafe { libc::prctl(what, value, none, none, none) }.into())
}

pub(crate) fn succeeded(answer: i64) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
