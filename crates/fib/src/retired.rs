//! Numbers that are out of use, and that some reader may still have.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// One number out of use.
struct Entry {
    /// The epoch in which it was still in use.
    epoch: u32,
    number: u32,
    /// What it was for.
    home: u32,
}

/// Numbers in the order in which they went out of use. Each is here at most once, so it never holds more than there
/// are numbers, however fast they come and go.
#[derive(Default)]
pub(crate) struct Retired {
    /// By ticket.
    entries: BTreeMap<u64, Entry>,
    /// The ticket of each number; 0: it is not here.
    tickets: Vec<u64>,
    last: u64,
}

impl Retired {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// `number` is out of use from the epoch after `epoch` on.
    pub(crate) fn retire(&mut self, number: u32, home: u32, epoch: u32) {
        self.revive(number);
        self.last += 1;
        let place = number as usize;
        if self.tickets.len() <= place {
            self.tickets.resize(place + 1, 0);
        }
        self.tickets[place] = self.last;
        self.entries.insert(self.last, Entry { epoch, number, home });
    }

    /// `number` is in use again, for what it was used for before.
    pub(crate) fn revive(&mut self, number: u32) {
        if let Some(ticket) = self.tickets.get_mut(number as usize) {
            self.entries.remove(&core::mem::take(ticket));
        }
    }

    /// Takes out what was retired before epoch `oldest` (modulo 2^32), each with what it was for.
    pub(crate) fn drain_older(&mut self, oldest: u32, mut reuse: impl FnMut(u32, u32)) {
        while let Some(first) = self.entries.first_entry()
            && (oldest.wrapping_sub(first.get().epoch) as i32) > 0
        {
            let Entry { number, home, .. } = first.remove();
            self.tickets[number as usize] = 0;
            reuse(number, home);
        }
    }
}
