//! Interface of a router to its platform: bursts in, bursts out, buffers and a clock.

use arrayvec::ArrayVec;
use frame::Mac;
use frame::offload::Offload;
use ring::BURST;

use crate::neighbours::GivenList;

/// Octets at the start of every buffer that may be read and written whatever the frame's length; enough for the
/// headers.
pub const HEAD: usize = 64;

/// An owned frame buffer of the platform, or a chain of them for a frame in several pieces. Of such a frame only the
/// first piece is ever changed.
pub trait Buffer {
    /// Returns the first [`HEAD`] octets of the buffer. Octets after the end of a shorter frame are stale.
    fn head(&mut self) -> &mut [u8; HEAD];
    /// Returns the length of the frame with all its pieces in octets, without FCS.
    fn len(&self) -> usize;
    /// Returns the length of the longest frame that results on the wire: its own, or that of its first segment.
    #[inline(always)]
    fn wire_len(&self) -> usize {
        self.len()
    }
    /// Returns true if the frame has no octets.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Sets the frame's length, limited to the capacity of its pieces.
    fn set_len(&mut self, octets: usize);
    /// Returns the frame; if it has several pieces, the first one, which holds at least all headers.
    fn octets(&mut self) -> &mut [u8];
    /// Copies octets of the frame from offset `at` on, across its pieces; returns false if they are not all there.
    fn read(&mut self, at: usize, target: &mut [u8]) -> bool {
        let Some(found) = self.octets().get(at..).and_then(|rest| rest.get(..target.len())) else {
            return false;
        };
        target.copy_from_slice(found);
        true
    }
    /// Returns the frame's pending offload metadata; none if the platform's NICs have no offloads.
    fn offload(&self) -> Offload {
        Offload::NONE
    }
    /// Clears the offload metadata: the frame is ready for a plain wire from now on.
    fn clear_offload(&mut self) {}
    /// Replaces the frame's offload metadata. May be ignored if the platform's NICs have no offloads.
    fn set_offload(&mut self, _offload: Offload) {}
    /// Takes `octets` octets out of the frame, those from offset `at` on, as the tags of a VLAN; its offload metadata follows.
    /// Returns false, and changes nothing, if that cannot be done. A platform that can let a frame begin later moves what is
    /// before them, others what is behind them.
    fn take_out(&mut self, at: usize, octets: usize) -> bool {
        let len = self.len();
        let Some(offload) = self.offload().moved(-(octets as i16)) else { return false };
        let frame = self.octets();
        if frame.len() != len || at + octets > len {
            return false;
        }
        frame.copy_within(at + octets.., at);
        self.set_len(len - octets);
        self.set_offload(offload);
        true
    }
    /// Makes room for `octets` octets in the frame at offset `at`, whose contents are arbitrary; its offload metadata follows.
    /// Returns false, and changes nothing, if that cannot be done.
    fn make_room(&mut self, at: usize, octets: usize) -> bool {
        let len = self.len();
        let Some(offload) = self.offload().moved(octets as i16) else { return false };
        if self.octets().len() != len || at > len {
            return false;
        }
        self.set_len(len + octets);
        if self.len() != len + octets {
            self.set_len(len);
            return false;
        }
        self.octets().copy_within(at..len, at + octets);
        self.set_offload(offload);
        true
    }
    /// Prefetches the head for reading and writing.
    fn prefetch(&self);
}

/// Up to [`BURST`] frames.
pub type Burst<B> = ArrayVec<B, BURST>;

/// Environment in which a router runs: the KVM firmware, a sandboxed process, a unit test.
pub trait Platform {
    /// An owned frame buffer.
    type Buffer: Buffer;

    /// Returns the number of NICs, which are numbered from 0.
    fn nics(&self) -> usize;

    /// Fills `burst` (which is empty) with frames that NIC `nic` received.
    fn receive(&mut self, nic: usize, burst: &mut Burst<Self::Buffer>);

    /// Sends all frames of `burst` out of NIC `nic` and leaves it empty. Frames that the NIC cannot take are counted
    /// there, and their buffers return to the pool.
    fn transmit(&mut self, nic: usize, burst: &mut Burst<Self::Buffer>);

    /// Returns how many frames NIC `nic` can certainly take now; unlimited if it does not say.
    fn room(&mut self, _nic: usize) -> usize {
        usize::MAX
    }

    /// Returns how often the cable of NIC `nic` has been pulled out or plugged in again: no station, or a different one, may be
    /// at its other end by now.
    fn plug_count(&self, _nic: usize) -> u32 {
        0
    }

    /// Returns a number that changes with the list of static neighbours that are given to the router while it runs.
    fn given_version(&self) -> u32 {
        0
    }

    /// Reads that list, and returns its number; `None`: it is being changed.
    fn read_given(&self, _list: &mut GivenList) -> Option<u32> {
        None
    }

    /// Allocates an empty buffer, if there is one.
    fn allocate(&mut self) -> Option<Self::Buffer>;

    /// Takes a buffer back.
    fn free(&mut self, buffer: Self::Buffer);

    /// Returns the time in milliseconds since an arbitrary origin.
    fn now(&self) -> u64;

    /// Reports that another station at NIC `nic` claims this address of the router. May be ignored.
    fn is_claimed(&mut self, _nic: usize, _ip: u32, _by: Mac) {}

    /// Reports that the next hop with this number in the IPv4 or IPv6 table, one of a group, is not reached, or is again;
    /// `table` is that of the router's configuration. May be ignored.
    fn report_next_hop(&mut self, _table: u8, _six: bool, _number: u32, _reached: bool) {}

    /// Asks whoever writes the router's neighbour table for this neighbour behind NIC `nic`, an IPv4 address; the answer is an
    /// entry of the table, or none. Called only where the table is read-only ([`crate::Neighbours::read_only`]).
    fn ask_for_neighbour(&mut self, _nic: u8, _ip: u32) {}

    /// Reports that another station at NIC `nic` claims this IPv6 address of the router. May be ignored.
    fn is_claimed6(&mut self, _nic: usize, _ip: u128, _by: Mac) {}
}
