//! The registers of one ring (82540EM manual, "RDBAL" to "RDT", "TDBAL" to "TDT").
//!
//! A ring runs while its direction is enabled, the function may access memory, and the registers make sense: a length
//! that is not 0, head and tail inside. Length, address or head of a running ring that change start it anew.

use std::sync::Arc;

use ring::e1000::{Ends, Layout};

/// Bits of TDLEN and RDLEN: a multiple of 128 octets below 1 MiB.
const LENGTH: u32 = 0x000f_ff80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Stopped,
    Running,
    /// The data path has given the ring up; it stays so until the driver disables the direction or resets.
    Broken,
}

/// Which register of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingRegister {
    AddressLow,
    AddressHigh,
    Length,
    Head,
    Tail,
}

/// What a write to a ring's register means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nothing, to a ring that stands still: it might run now.
    Held,
    /// The running ring is another one now.
    Moved,
    /// The driver of the running ring has moved its tail.
    Tail,
    /// A tail outside the running ring: not taken over.
    Outside,
}

#[derive(Debug)]
pub(super) struct Ring {
    low: u32,
    high: u32,
    length: u32,
    ends: Arc<Ends>,
    state: State,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self { low: 0, high: 0, length: 0, ends: Arc::new(Ends::new()), state: State::Stopped }
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

    /// `kick`: the tail is in the status block, and a write to its register only says that it moved.
    pub(super) fn write(&mut self, register: RingRegister, value: u32, kick: bool) -> Written {
        let position = value as u16;
        match register {
            RingRegister::Tail if self.running() && kick => return Written::Tail,
            RingRegister::Tail if self.running() => return self.move_tail(position),
            RingRegister::Tail => self.ends.set_tail(position),
            RingRegister::AddressLow => self.low = value & !0xf,
            RingRegister::AddressHigh => self.high = value,
            RingRegister::Length => self.length = value & LENGTH,
            RingRegister::Head if self.running() => self.renew(position),
            RingRegister::Head => self.ends.set_head(position),
        }
        if self.running() { Written::Moved } else { Written::Held }
    }

    fn move_tail(&mut self, position: u16) -> Written {
        if u32::from(position) >= self.length / ring::e1000::DESCRIPTOR {
            return Written::Outside;
        }
        self.ends.set_tail(position);
        Written::Tail
    }

    /// Starts the ring if its registers make sense and the data path has not given it up. A ring that starts has ends
    /// of its own: whoever still works on the one before moves other ones.
    pub(super) fn start(&mut self) -> Option<(Layout, Arc<Ends>)> {
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
        let ends = Ends::new();
        ends.set_head(head);
        ends.set_tail(self.ends.tail());
        self.ends = Arc::new(ends);
    }

    /// True if it ran.
    pub(super) fn stop(&mut self) -> bool {
        let ran = self.running();
        self.state = State::Stopped;
        ran
    }

    /// The data path cannot serve it any more; true if it ran.
    pub(super) fn give_up(&mut self) -> bool {
        let ran = self.running();
        self.state = State::Broken;
        ran
    }
}
