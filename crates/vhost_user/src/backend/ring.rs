//! State of one of a peer's rings.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use fd_passing::file_type;
use nic_port::RingEventfds;
use ring::split::{DeviceQueue, Features, Layout, LayoutError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use vhost::vhost_user::message::VhostUserVringAddr;

use super::Fault;
use crate::memory::PeerMemory;

/// Maximum ring size (virtio 1.2, section 2.7).
const MOST_ENTRIES: u32 = 32_768;

/// A ring, as far as the peer has described it.
#[derive(Default)]
pub(super) struct PeerRing {
    number: usize,
    entries: u16,
    /// Index at which the peer says that service is to continue, or at which it was stopped: the answer to
    /// GET_VRING_BASE. Service starts at the used index of the ring itself ([`Self::queue`]).
    pub(super) base: u16,
    /// Addresses of the areas, in the peer's own address space.
    places: Option<VhostUserVringAddr>,
    doorbell: Option<OwnedFd>,
    call: Option<OwnedFd>,
    pub(super) enabled: bool,
    /// True if it sends and was disabled while it was served: then it is served on, and its frames are lost.
    pub(super) discards: bool,
    pub(super) running: bool,
}

impl PeerRing {
    pub(super) fn new(number: usize) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) const fn number(&self) -> usize {
        self.number
    }

    pub(super) fn set_entries(&mut self, entries: u32) -> Result<(), Fault> {
        if !(1..=MOST_ENTRIES).contains(&entries) || !entries.is_power_of_two() {
            return Err(self.wrong("no power of two up to 32768 entries, but", entries.into()));
        }
        self.entries = entries as u16;
        Ok(())
    }

    pub(super) fn set_base(&mut self, base: u32) -> Result<(), Fault> {
        self.base =
            u16::try_from(base).map_err(|_| self.wrong("an index of more than 16 bits,", base.into()))?;
        Ok(())
    }

    pub(super) const fn set_places(&mut self, places: VhostUserVringAddr) {
        self.places = Some(places);
    }

    pub(super) fn set_doorbell(&mut self, doorbell: OwnedFd) -> Result<(), Fault> {
        self.expect_event(&doorbell)?;
        self.doorbell = Some(doorbell);
        Ok(())
    }

    /// Sets the eventfd that interrupts the driver. That of an honest peer is never full, and so never blocks
    /// a writer; for others see [`nic_port::NicQueues::interrupt_blocked_writers`]. Its flags can be changed by the
    /// peer, so they are left as they are.
    pub(super) fn set_call(&mut self, call: Option<OwnedFd>) -> Result<(), Fault> {
        if let Some(call) = &call {
            self.expect_event(call)?;
        }
        self.call = call;
        Ok(())
    }

    /// Returns a duplicate of the eventfd that interrupts the driver.
    pub(super) fn call(&self) -> Result<Option<OwnedFd>, Fault> {
        self.call.as_ref().map(|call| again(call).map_err(|why| self.bell(why))).transpose()
    }

    /// Forgets the doorbell: the driver has taken the ring back.
    pub(super) fn stop(&mut self) {
        (self.doorbell, self.discards, self.running) = (None, false, false);
    }

    /// Returns true if everything is known that is needed to serve it.
    pub(super) const fn is_ready(&self) -> bool {
        let is_in_use = self.enabled || self.discards;
        self.entries > 0 && self.places.is_some() && self.doorbell.is_some() && is_in_use
    }

    /// Returns duplicates of its eventfds.
    pub(super) fn bells(&self) -> Result<RingEventfds, Fault> {
        let missing = || self.bell(io::ErrorKind::NotFound.into());
        let doorbell = self.doorbell.as_ref().ok_or_else(missing)?;
        Ok(RingEventfds { doorbell: again(doorbell).map_err(|why| self.bell(why))?, call: self.call()? })
    }

    /// Locates its areas in the memory.
    ///
    /// Service continues at the ring's used index, whatever SET_VRING_BASE said: a peer whose back end was
    /// killed could not ask for the index (GET_VRING_BASE), and DPDK's `virtio_user` then sends 0 for a ring
    /// that is far advanced. A peer that did ask sends exactly the used index, because we leave no
    /// descriptors outstanding. DPDK's own back end does the same.
    pub(super) fn queue(&self, memory: &PeerMemory, features: Features) -> Result<DeviceQueue, Fault> {
        let Some(places) = &self.places else { return Err(self.wrong("no addresses, state", 0)) };
        let ring = self.number;
        let here = |address| memory.guest_address(address).ok_or(Fault::Outside { ring, address });
        let layout = Layout {
            size: self.entries,
            descriptors: here(places.descriptor)?,
            available: here(places.available)?,
            used: here(places.used)?,
        };
        let regions = memory.regions().ok_or(Fault::Layout { ring, why: LayoutError::Outside(0) })?;
        DeviceQueue::take_over(regions, &layout, features).map_err(|why| Fault::Layout { ring, why })
    }

    fn wrong(&self, what: &'static str, value: u64) -> Fault {
        Fault::Value { ring: self.number, what, value }
    }

    /// Checks that this is an eventfd(2) with room. Like other anonymous inodes of the kernel it has no file
    /// type, and it alone of them is ready for a write and can be written.
    fn expect_event(&self, fd: &OwnedFd) -> Result<(), Fault> {
        let is_nameless = file_type(fd) == Ok(FileType::Unknown);
        // Other files are not polled: a program may be behind them.
        if is_nameless && has_room(fd) && can_be_written(fd) {
            return Ok(());
        }
        Err(Fault::Bells { ring: self.number, why: "its descriptor is no eventfd, or is full".to_owned() })
    }

    fn bell(&self, why: io::Error) -> Fault {
        Fault::Bells { ring: self.number, why: format!("its event descriptor cannot be used: {why}") }
    }
}

/// Returns true if something can be added to an eventfd. One at its maximum, which only the kernel can reach,
/// is ready with an error.
fn has_room(event: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(event, PollFlags::OUT)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)) == Ok(1) && fds.iter().all(|fd| fd.revents() == PollFlags::OUT)
}

/// Address in the kernel's half of the address space.
const NOWHERE: *const libc::c_void = std::ptr::without_provenance(usize::MAX - 4095);

/// Returns true if a descriptor can be written, without writing: the peer could make even a write of 0 to an
/// eventfd wait. The kernel rejects a descriptor that cannot be written (EINVAL) before it rejects the
/// address (EFAULT), and both before it asks the file.
fn can_be_written(fd: &OwnedFd) -> bool {
    // SAFETY: no memory is read, because the address belongs to no program.
    let written = unsafe { libc::write(fd.as_raw_fd(), NOWHERE, size_of::<u64>()) };
    written < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

fn again(fd: &OwnedFd) -> io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}
