//! Numbers that are out of use, but that some reader may still have.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// One number out of use.
struct Entry {
    /// Epoch in which it was last in use.
    epoch: u32,
    number: u32,
    /// Purpose that it had.
    former_use: u32,
}

/// Numbers in the order in which they went out of use. Each is contained at most once, so this never holds more entries
/// than there are numbers, however fast they change.
#[derive(Default)]
pub(crate) struct Retired {
    /// Entries by ticket.
    entries: BTreeMap<u64, Entry>,
    /// Ticket of each number; 0: it is not contained.
    tickets: Vec<u64>,
    last: u64,
}

impl Retired {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Records that `number` is out of use from the epoch after `epoch` on.
    pub(crate) fn retire(&mut self, number: u32, former_use: u32, epoch: u32) {
        self.revive(number);
        self.last += 1;
        let place = number as usize;
        if self.tickets.len() <= place {
            self.tickets.resize(place + 1, 0);
        }
        self.tickets[place] = self.last;
        self.entries.insert(self.last, Entry { epoch, number, former_use });
    }

    /// Removes `number`, which is in use again for its former purpose.
    pub(crate) fn revive(&mut self, number: u32) {
        if let Some(ticket) = self.tickets.get_mut(number as usize) {
            self.entries.remove(&core::mem::take(ticket));
        }
    }

    /// Removes the numbers that were retired before epoch `oldest` (modulo 2^32), and passes each with its former
    /// purpose.
    pub(crate) fn drain_older(&mut self, oldest: u32, mut reuse: impl FnMut(u32, u32)) {
        while let Some(first) = self.entries.first_entry()
            && (oldest.wrapping_sub(first.get().epoch) as i32) > 0
        {
            let Entry { number, former_use, .. } = first.remove();
            self.tickets[number as usize] = 0;
            reuse(number, former_use);
        }
    }
}
