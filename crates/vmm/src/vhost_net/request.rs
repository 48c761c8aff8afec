//! Requests to vhost-net and to the interface behind it, as defined in `linux/vhost.h` and `linux/if_tun.h`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use ring::split::Layout;

use super::checked;

const GET_FEATURES: u64 = 0x8008_af00;
const SET_FEATURES: u64 = 0x4008_af00;
const SET_OWNER: u64 = 0xaf01;
const SET_MEM_TABLE: u64 = 0x4008_af03;
const SET_VRING_NUM: u64 = 0x4008_af10;
const SET_VRING_ADDR: u64 = 0x4028_af11;
const SET_VRING_BASE: u64 = 0x4008_af12;
const SET_VRING_KICK: u64 = 0x4008_af20;
const SET_VRING_CALL: u64 = 0x4008_af21;
const NET_SET_BACKEND: u64 = 0x4008_af30;
const TUNSETOFFLOAD: u64 = 0x4004_54d0;
const TUNSETVNETHDRSZ: u64 = 0x4004_54d8;
const TUNSETQUEUE: u64 = 0x4004_54d9;

/// Offloads (virtio 1.2, section 5.1.3): VIRTIO_NET_F_CSUM, GUEST_CSUM, GUEST_TSO4, GUEST_TSO6, GUEST_ECN,
/// HOST_TSO4, HOST_TSO6, HOST_ECN. They are signalled in the header before each frame, and so negotiated
/// between driver and TAP.
pub(super) const OFFLOADS: u64 =
    1 | GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN | 1 << 11 | 1 << 12 | 1 << 13;
const GUEST_CSUM: u64 = 1 << 1;
const GUEST_TSO4: u64 = 1 << 7;
const GUEST_TSO6: u64 = 1 << 8;
const GUEST_ECN: u64 = 1 << 9;

/// `struct vhost_memory` with one region.
#[repr(C)]
struct Memory {
    regions: u32,
    padding: u32,
    guest: u64,
    len: u64,
    host: u64,
    flags: u64,
}

/// `struct vhost_vring_state` and `struct vhost_vring_file`.
#[repr(C)]
struct Numbered {
    ring: u32,
    value: u32,
}

/// `struct vhost_vring_addr`.
#[repr(C)]
struct Addresses {
    ring: u32,
    flags: u32,
    descriptors: u64,
    used: u64,
    available: u64,
    log: u64,
}

/// `struct ifreq` with flags.
#[repr(C)]
struct Interface {
    name: [u8; 16],
    flags: libc::c_short,
    rest: [u8; 22],
}

pub(super) fn own(device: &File) -> io::Result<()> {
    // SAFETY: a request without an argument.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), SET_OWNER) })
}

pub(super) fn features(device: &File) -> io::Result<u64> {
    let mut features = 0u64;
    // SAFETY: the kernel writes 8 octets.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), GET_FEATURES, &raw mut features) })?;
    Ok(features)
}

pub(super) fn set_features(device: &File, features: u64) -> io::Result<()> {
    pass(device, SET_FEATURES, &features)
}

/// Sets the guest's memory, which starts at guest address 0.
///
/// # Safety
/// The kernel writes there whenever it serves a ring: it must be the guest's memory, mapped until all rings
/// are taken back.
pub(super) unsafe fn set_memory(device: &File, host: u64, len: u64) -> io::Result<()> {
    pass(device, SET_MEM_TABLE, &Memory { regions: 1, padding: 0, guest: 0, len, host, flags: 0 })
}

pub(super) fn set_size(device: &File, ring: u16, size: u32) -> io::Result<()> {
    pass(device, SET_VRING_NUM, &Numbered { ring: ring.into(), value: size })
}

/// Sets the next entry of the available ring to be served.
pub(super) fn set_base(device: &File, ring: u16, index: u16) -> io::Result<()> {
    pass(device, SET_VRING_BASE, &Numbered { ring: ring.into(), value: index.into() })
}

/// Sets the addresses of a ring in this process. The kernel checks that they are in the memory table.
pub(super) fn set_addresses(device: &File, ring: u16, layout: &Layout, memory: u64) -> io::Result<()> {
    let host = |guest: u64| memory.wrapping_add(guest);
    let addresses = Addresses {
        ring: ring.into(),
        flags: 0,
        descriptors: host(layout.descriptors),
        used: host(layout.used),
        available: host(layout.available),
        log: 0,
    };
    pass(device, SET_VRING_ADDR, &addresses)
}

pub(super) fn set_kick(device: &File, ring: u16, event: i32) -> io::Result<()> {
    pass(device, SET_VRING_KICK, &Numbered { ring: ring.into(), value: event as u32 })
}

pub(super) fn set_call(device: &File, ring: u16, event: i32) -> io::Result<()> {
    pass(device, SET_VRING_CALL, &Numbered { ring: ring.into(), value: event as u32 })
}

/// Connects a ring to a queue of an interface, or disconnects it (-1).
pub(super) fn set_backend(device: &File, ring: u16, queue: i32) -> io::Result<()> {
    pass(device, NET_SET_BACKEND, &Numbered { ring: ring.into(), value: queue as u32 })
}

/// Returns the offloads that a driver with these features accepts from a TAP (TUN_F_*).
pub(super) fn tap_offloads(picked: u64) -> libc::c_uint {
    let all = [
        (GUEST_CSUM, libc::TUN_F_CSUM),
        (GUEST_TSO4, libc::TUN_F_TSO4),
        (GUEST_TSO6, libc::TUN_F_TSO6),
        (GUEST_ECN, libc::TUN_F_TSO_ECN),
    ];
    all.iter().filter(|(feature, _)| picked & feature != 0).fold(0, |flags, (_, flag)| flags | flag)
}

pub(super) fn set_offloads(queue: BorrowedFd<'_>, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: a request with a number as its argument.
    checked(unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETOFFLOAD, libc::c_ulong::from(flags)) })
}

/// Sets the length of the header before each frame of an interface.
pub(super) fn set_header(queue: BorrowedFd<'_>, octets: libc::c_int) -> io::Result<()> {
    // SAFETY: the kernel reads an `int`.
    checked(unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETVNETHDRSZ, &raw const octets) })
}

/// Makes the descriptor number of `old` refer to the file of `new`.
pub(super) fn take_over(old: BorrowedFd<'_>, new: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are open, and the number of `old` stays open and of the same kind.
    checked(unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) })
}

/// Attaches a queue of an interface, so that it receives frames, or detaches it.
pub(super) fn attach(queue: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let flag = if on { libc::IFF_ATTACH_QUEUE } else { libc::IFF_DETACH_QUEUE };
    let mut request = Interface { name: [0; 16], flags: flag as libc::c_short, rest: [0; 22] };
    // SAFETY: the kernel reads a `struct ifreq`, which has the same length.
    checked(unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETQUEUE, &raw mut request) })
}

fn pass<T>(device: &File, request: u64, argument: &T) -> io::Result<()> {
    // SAFETY: each request above reads as many octets as its argument has, as encoded in the request number
    // (for `Memory`, which ends with an array: as many elements as its count says).
    checked(unsafe { libc::ioctl(device.as_raw_fd(), request, std::ptr::from_ref(argument)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_as_long_as_their_requests_say() {
        let size = |request: u64| (request >> 16) as usize & 0x3fff;
        assert_eq!(size(SET_VRING_ADDR), size_of::<Addresses>());
        for request in [SET_VRING_NUM, SET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL, NET_SET_BACKEND] {
            assert_eq!(size(request), size_of::<Numbered>());
        }
        assert_eq!(size_of::<Interface>(), size_of::<libc::ifreq>());
        // The head of the table, without its regions of 32 octets each.
        assert_eq!(size(SET_MEM_TABLE), size_of::<Memory>() - 32);
    }

    #[test]
    fn a_tap_may_leave_what_the_driver_takes() {
        assert_eq!(tap_offloads(OFFLOADS & !(GUEST_CSUM | GUEST_TSO4 | GUEST_TSO6 | GUEST_ECN)), 0);
        let takes = GUEST_CSUM | GUEST_TSO4 | GUEST_ECN;
        assert_eq!(tap_offloads(takes), libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO_ECN);
    }
}
