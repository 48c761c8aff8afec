//! Header before each frame, and negotiation of checksum and segmentation offloads: `TUNSETOFFLOAD` of
//! `linux/if_tun.h`, the same for TAPs and macvtaps.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use frame::offload::VIRTIO;
use port::Offloads;

use crate::request::ioctl;

/// `TUNSETVNETHDRSZ`: `_IOW('T', 216, int)`.
const SET_HEADER_SIZE: libc::c_ulong = 0x4004_54d8;
/// `TUNSETVNETLE`: `_IOW('T', 220, int)`.
const SET_LITTLE_ENDIAN: libc::c_ulong = 0x4004_54dc;
/// `TUNSETOFFLOAD`: `_IOW('T', 208, unsigned int)`.
const SET_OFFLOAD: libc::c_ulong = 0x4004_54d0;

/// Offloads that the kernel may leave to the reader (`TUN_F_...`), for each of ours.
const BITS: [(Offloads, u32); 5] = [
    (Offloads::CSUM, 0x01),
    (Offloads::TSO4, 0x02),
    (Offloads::TSO6, 0x04),
    (Offloads::ECN, 0x08),
    // Over IPv4 and over IPv6, which the kernel only accepts together.
    (Offloads::USO, 0x20 | 0x40),
];

/// The device has not been configured yet.
const UNKNOWN: u8 = u8::MAX;

/// The offloads that a device accepts, and those that it was last told to leave to us.
#[derive(Debug)]
pub(super) struct Offer {
    takes: Offloads,
    /// [`Offloads::bits`], or [`UNKNOWN`].
    told: AtomicU8,
}

impl Offer {
    pub(super) fn of(takes: Offloads) -> Self {
        Self { takes, told: AtomicU8::new(UNKNOWN) }
    }

    /// Returns the offloads that frames to the kernel may carry.
    pub(super) fn takes(&self) -> Offloads {
        self.takes
    }

    /// Tells the device which offloads it may leave: those that the other end `takes`, unless offloads are
    /// disabled. If the kernel refuses, it keeps the previous setting, and what it leaves is done in software
    /// on the way.
    pub(super) fn set_sink_offloads(&self, queue: BorrowedFd<'_>, takes: Offloads) {
        let wanted = (takes & self.takes).consistent();
        if self.told.swap(wanted.bits(), Relaxed) != wanted.bits() {
            let _ = tell(queue, wanted);
        }
    }
}

impl Offer {
    /// Repeats the last setting for a device that has replaced another one.
    pub(super) fn repeat(&self, queue: BorrowedFd<'_>) {
        let told = self.told.load(Relaxed);
        if told != UNKNOWN {
            let _ = tell(queue, Offloads::from_bits(told));
        }
    }
}

/// Sets the header of a device's frames to ten octets, little endian.
pub(crate) fn set_size(queue: BorrowedFd<'_>) -> io::Result<()> {
    let (mut size, mut yes): (libc::c_int, libc::c_int) = (VIRTIO as libc::c_int, 1);
    // SAFETY: both requests read an `int`.
    unsafe {
        ioctl(queue, SET_HEADER_SIZE, &mut size)?;
        ioctl(queue, SET_LITTLE_ENDIAN, &mut yes)
    }
}

/// Returns the offloads that this kernel supports: old ones lack UDP segmentation. Afterwards the device
/// leaves none to us.
pub(crate) fn able(queue: BorrowedFd<'_>) -> io::Result<Offloads> {
    let able = [Offloads::ALL, Offloads::ALL & !Offloads::USO, Offloads::NONE];
    let able = able.into_iter().find(|all| tell(queue, *all).is_ok()).unwrap_or_default();
    tell(queue, Offloads::NONE)?;
    Ok(able)
}

fn tell(queue: BorrowedFd<'_>, offloads: Offloads) -> io::Result<()> {
    let bits = BITS.iter().filter(|(ours, _)| offloads.has(*ours)).fold(0, |all, (_, bit)| all | bit);
    // SAFETY: the request takes a number.
    let answer = unsafe { libc::ioctl(queue.as_raw_fd(), SET_OFFLOAD, libc::c_ulong::from(bits)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
