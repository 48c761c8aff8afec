//! Steps by which a process gives up what it was started with. Each makes system calls and nothing else, no allocation and no lock: so
//! a copy of a program with several threads, of which only one was copied, may take them as well.

use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::{io, ptr};

use rustix::process::{Resource, Rlimit, setrlimit};

/// A folder that every host has, to hang an empty file system over.
const FOLDER: &CStr = c"/proc";
/// An empty file system in which nobody can make anything.
const EMPTY: &CStr = c"size=4k,nr_inodes=1,mode=0555";
/// As many capabilities as there may ever be: the kernel has 64 bits for them.
const MOST_CAPABILITIES: c_ulong = 64;
/// `_LINUX_CAPABILITY_VERSION_3`: sets of two words.
const VERSION_3: u32 = 0x2008_0522;

/// Becomes this user, of the group of the same number and of no other. For a process with one thread.
///
/// # Errors
/// It may not.
pub fn become_user(user: u32) -> io::Result<()> {
    // By number: the C library would first stop all threads, of which a copy has only one.
    // SAFETY: numbers, and an empty list.
    unsafe {
        succeeded(libc::syscall(libc::SYS_setgroups, 0, ptr::null::<libc::gid_t>()))?;
        succeeded(libc::syscall(libc::SYS_setresgid, user, user, user))?;
        succeeded(libc::syscall(libc::SYS_setresuid, user, user, user))
    }
}

/// Leaves all file systems but an empty one. For a process with a mount namespace of its own.
///
/// # Errors
/// The host does not let it.
pub fn leave_files() -> io::Result<()> {
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let still = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let none = ptr::null::<c_char>();
    let here = c".".as_ptr();
    // SAFETY: C strings and flags. What is mounted and unmounted here is in this process's own mount namespace.
    unsafe {
        succeeded(libc::mount(none, c"/".as_ptr(), none, private, ptr::null()).into())?;
        let kind = c"tmpfs".as_ptr();
        succeeded(libc::mount(kind, FOLDER.as_ptr(), kind, still, EMPTY.as_ptr().cast()).into())?;
        succeeded(libc::chdir(FOLDER.as_ptr()).into())?;
        // The new root goes over the old one, and the old one away from under it.
        succeeded(libc::syscall(libc::SYS_pivot_root, here, here))?;
        succeeded(libc::umount2(here, libc::MNT_DETACH).into())?;
        succeeded(libc::chdir(c"/".as_ptr()).into())
    }
}

/// Forbids the use of these resources.
///
/// # Errors
/// There is no such resource.
pub fn forbid(resources: &[Resource]) -> io::Result<()> {
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    for resource in resources {
        setrlimit(*resource, nothing)?;
    }
    Ok(())
}

/// Keeps this process from gaining privileges by a program that it becomes (`no_new_privs`).
///
/// # Errors
/// The kernel is too old.
pub fn gain_nothing() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Takes every capability out of the bounding set: no program that is started later has any.
///
/// # Errors
/// It lacks CAP_SETPCAP.
pub fn empty_bounding_set() -> io::Result<()> {
    let none: c_ulong = 0;
    for capability in 0..MOST_CAPABILITIES {
        // Beyond the last one that this kernel knows there is nothing to drop.
        // SAFETY: takes numbers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, none, none, none) } == 1 {
            prctl(libc::PR_CAPBSET_DROP, capability)?;
        }
    }
    Ok(())
}

/// Gives up the capabilities that this thread has.
///
/// # Errors
/// Those of capset(2).
pub fn drop_capabilities() -> io::Result<()> {
    set_capabilities([Set::default(); 2])
}

/// One word of the three sets, as capget(2) and capset(2) have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[repr(C)]
struct Header {
    version: u32,
    pid: c_int,
}

pub(crate) fn capabilities() -> io::Result<[Set; 2]> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Set::default(); 2];
    // SAFETY: with version 3 the kernel writes two words of sets.
    succeeded(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) }).map(|()| sets)
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

pub(crate) fn prctl(what: c_int, value: c_ulong) -> io::Result<()> {
    let none: c_ulong = 0;
    // SAFETY: all calls here take numbers only.
    succeeded(unsafe { libc::prctl(what, value, none, none, none) }.into())
}

pub(crate) fn succeeded(answer: i64) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
