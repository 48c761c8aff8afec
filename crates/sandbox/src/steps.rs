//! Steps by which a process gives up what it was started with. Each makes system calls and nothing else, no allocation and no lock: so
//! a copy of a program with several threads, of which only one was copied, may take them as well.

use std::ffi::CStr;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{Gid, Resource, Rlimit, Uid, chdir, pivot_root, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// A folder that every host has, to hang an empty file system over.
const FOLDER: &CStr = c"/proc";
/// An empty file system in which nobody can make anything.
const EMPTY: &CStr = c"size=4k,nr_inodes=1,mode=0555";
/// None of them.
pub(crate) const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// Becomes this user, of the group of the same number and of no other. For a process with one thread.
///
/// # Errors
/// It may not.
pub fn become_user(user: u32) -> io::Result<()> {
    // Of this thread: the C library would first stop all threads, of which a copy has only one.
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    Ok(set_thread_res_uid(user, user, user)?)
}

/// Leaves all file systems but an empty one. For a process with a mount namespace of its own.
///
/// # Errors
/// The host does not let it.
pub fn leave_files() -> io::Result<()> {
    let still = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount(c"tmpfs", FOLDER, c"tmpfs", still, EMPTY)?;
    chdir(FOLDER)?;
    // The new root goes over the old one, and the old one away from under it.
    pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    Ok(chdir(c"/")?)
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
    Ok(set_no_new_privs(true)?)
}

/// Takes every capability out of the bounding set: no program that is started later has any.
///
/// # Errors
/// It lacks CAP_SETPCAP.
pub fn empty_bounding_set() -> io::Result<()> {
    // As many as there may ever be: the kernel has 64 bits for them.
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        // Beyond the last one that this kernel knows there is nothing to drop.
        if capability_is_in_bounding_set(capability) == Ok(true) {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    Ok(())
}

/// Gives up the capabilities that this thread has.
///
/// # Errors
/// Those of capset(2).
pub fn drop_capabilities() -> io::Result<()> {
    Ok(set_capabilities(None, NO_CAPABILITIES)?)
}

/// Makes those effective that are permitted: a change of user has left them so.
pub(crate) fn raise_permitted() -> io::Result<()> {
    let sets = capabilities(None)?;
    Ok(set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets })?)
}
