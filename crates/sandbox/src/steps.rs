//! Steps of dropping privileges. Each makes only system calls, without allocation or locks, so that they are
//! also safe in the child of a fork of a multi-threaded program, where only the calling thread exists.

use std::ffi::CStr;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::process::{Gid, Resource, Rlimit, Uid, chdir, pivot_root, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// Folder that exists on every host, as a mount point for an empty file system.
const FOLDER: &CStr = c"/proc";
/// Mount options of an empty file system in which nothing can be created.
const EMPTY: &CStr = c"size=4k,nr_inodes=1,mode=0555";
/// No capabilities.
pub(crate) const NO_CAPABILITIES: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// Changes to this user, with the group of the same number as its only group. The process must have one
/// thread.
///
/// # Errors
/// The process lacks the privilege.
pub fn become_user(user: u32) -> io::Result<()> {
    // Per-thread system calls: the C library's wrappers would first stop all threads, and after a fork only
    // one of them exists.
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    Ok(set_thread_res_uid(user, user, user)?)
}

/// Replaces the root by an empty file system. The process must have its own mount namespace.
///
/// # Errors
/// The host does not allow it.
pub fn pivot_to_empty_root() -> io::Result<()> {
    let still = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount(c"tmpfs", FOLDER, c"tmpfs", still, EMPTY)?;
    chdir(FOLDER)?;
    // Stacks the new root on the old one, and detaches the old one from below.
    pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    Ok(chdir(c"/")?)
}

/// Sets the limits of these resources to zero.
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

/// Keeps this process from gaining privileges by exec (`no_new_privs`).
///
/// # Errors
/// The kernel is too old.
pub fn enter_no_new_privs() -> io::Result<()> {
    Ok(set_no_new_privs(true)?)
}

/// Drops all capabilities from the bounding set, so that no program executed later has any.
///
/// # Errors
/// The process lacks CAP_SETPCAP.
pub fn empty_bounding_set() -> io::Result<()> {
    // As many as the kernel can represent: it uses 64 bits.
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        // Capabilities beyond those that this kernel knows cannot be dropped.
        if capability_is_in_bounding_set(capability) == Ok(true) {
            remove_capability_from_bounding_set(capability)?;
        }
    }
    Ok(())
}

/// Drops the capabilities of this thread.
///
/// # Errors
/// Those of capset(2).
pub fn drop_capabilities() -> io::Result<()> {
    Ok(set_capabilities(None, NO_CAPABILITIES)?)
}

/// Makes permitted capabilities effective again after a change of user.
pub(crate) fn raise_permitted() -> io::Result<()> {
    let sets = capabilities(None)?;
    Ok(set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets })?)
}
