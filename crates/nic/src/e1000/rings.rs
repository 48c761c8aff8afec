//! The registers of one ring (82540EM manual, "RDBAL" to "RDT", "TDBAL" to "TDT").
//!
//! A ring runs while its direction is enabled, bus mastering is on, and the registers are consistent: the length is not
//! 0, head and tail are inside the ring. A change of the length, address or head of a running ring restarts it.

use std::sync::Arc;

use ring::e1000::{HeadTail, Layout};

/// Bits of TDLEN and RDLEN: a multiple of 128 octets below 1 MiB.
const LENGTH: u32 = 0x000f_ff80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Stopped,
    Running,
    /// The data path has failed on the ring; the ring stays so until the driver disables the direction or resets.
    Broken,
}

/// Registers of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingRegister {
    AddressLow,
    AddressHigh,
    Length,
    Head,
    Tail,
}

/// Meaning of a write to a ring's register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteEffect {
    /// The ring is stopped and holds the value: it may now be able to start.
    Held,
    /// The ring was running and has moved: it must be restarted.
    Moved,
    /// The driver of the running ring has moved its tail.
    Tail,
    /// The tail is outside the running ring, and was ignored.
    Outside,
}

#[derive(Debug)]
pub(super) struct Ring {
    low: u32,
    high: u32,
    length: u32,
    ends: Arc<HeadTail>,
    state: State,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self { low: 0, high: 0, length: 0, ends: Arc::new(HeadTail::new()), state: State::Stopped }
    }

    pub(super) fn running(&self) -> bool {
        self.state == State::Running
    }

    pub(super) fn read(&self, register: RingRegister) -> u32 {
        match register {
            RingRegister::AddressLow => self.low,
            RingRegister::AddressHigh => self.high,
            RingRegister::Length => self.length,
            RingRegister::Head => u32::from(self.ends.head()),
            RingRegister::Tail => u32::from(self.ends.tail()),
        }
    }

    /// Writes a register. With `kick` the tail is in the status block, and a write to the tail register only signals
    /// that it moved.
    pub(super) fn write(&mut self, register: RingRegister, value: u32, kick: bool) -> WriteEffect {
        let position = value as u16;
        match register {
            RingRegister::Tail if self.running() && kick => return WriteEffect::Tail,
            RingRegister::Tail if self.running() => return self.move_tail(position),
            RingRegister::Tail => self.ends.set_tail(position),
            RingRegister::AddressLow => self.low = value & !0xf,
            RingRegister::AddressHigh => self.high = value,
            RingRegister::Length => self.length = value & LENGTH,
            RingRegister::Head if self.running() => self.renew(position),
            RingRegister::Head => self.ends.set_head(position),
        }
        if self.running() { WriteEffect::Moved } else { WriteEffect::Held }
    }

    fn move_tail(&mut self, position: u16) -> WriteEffect {
        if u32::from(position) >= self.length / ring::e1000::DESCRIPTOR {
            return WriteEffect::Outside;
        }
        self.ends.set_tail(position);
        WriteEffect::Tail
    }

    /// Starts the ring if its registers are consistent and the data path has not failed on it. Each start allocates new
    /// ends, so that a thread that still works on the previous ring cannot move them.
    pub(super) fn start(&mut self) -> Option<(Layout, Arc<HeadTail>)> {
        let layout = Layout::new(u64::from(self.high) << 32 | u64::from(self.low), self.length).ok()?;
        let inside = self.ends.head() < layout.entries && self.ends.tail() < layout.entries;
        if !inside || self.state != State::Stopped {
            return None;
        }
        self.renew(self.ends.head());
        self.state = State::Running;
        Some((layout, Arc::clone(&self.ends)))
    }

    fn renew(&mut self, head: u16) {
        let ends = HeadTail::new();
        ends.set_head(head);
        ends.set_tail(self.ends.tail());
        self.ends = Arc::new(ends);
    }

    /// Stops the ring; returns true if it was running.
    pub(super) fn stop(&mut self) -> bool {
        let ran = self.running();
        self.state = State::Stopped;
        ran
    }

    /// Marks the ring as failed, because the data path cannot serve it; returns true if it was running.
    pub(super) fn mark_failed(&mut self) -> bool {
        let ran = self.running();
        self.state = State::Broken;
        ran
    }
}
