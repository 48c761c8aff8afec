//! Words that one member of a group shares with the host, beside those of its RAM: which epoch of the group's routes it
//! reads, and which neighbours it asks for.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};

use ring::questions::{self, Heard, Hearer, Questions};

use crate::{Line, MAX_VCPUS};

/// A neighbour that a member asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Number of the NIC behind which it should be.
    pub nic: u8,
    /// Its IPv4 address, in host byte order.
    pub ip: u32,
}

impl Question {
    const fn word(self) -> u64 {
        (self.nic as u64) << 32 | self.ip as u64
    }

    const fn from_word(word: u64) -> Self {
        Self { nic: (word >> 32) as u8, ip: word as u32 }
    }
}

/// Memory that one member writes and the host reads, at [`crate::map::DESK`]. Zeroed memory is that of a member that reads no
/// routes and asks nothing. The host believes none of it: see [`Hearer`], and `fib` for the epochs.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Desk {
    /// Epoch of the group's route table that each vCPU used last; 0: it reads none.
    epochs: [Line; MAX_VCPUS],
    /// What each vCPU asks.
    questions: [Questions; MAX_VCPUS],
}

/// The host's places in the rings of a member.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hearers([Hearer; MAX_VCPUS]);

impl Desk {
    /// Octets of it.
    pub const LEN: usize = size_of::<Self>();

    /// The word for the epoch that a vCPU used last; `None`: there is no such vCPU.
    pub fn epoch(&self, vcpu: usize) -> Option<&AtomicU32> {
        self.epochs.get(vcpu).map(|line| &line.0)
    }

    /// The epochs of all vCPUs.
    pub fn epochs(&self) -> [u32; MAX_VCPUS] {
        self.epochs.each_ref().map(|line| line.0.load(Acquire))
    }

    /// Nobody reads the routes any more, because the member has ended.
    pub fn leave(&self) {
        self.epochs.iter().for_each(|line| line.0.store(0, Release));
    }

    /// The ring of a vCPU; `None`: there is no such vCPU.
    pub fn ring(&self, vcpu: usize) -> Option<&Questions> {
        self.questions.get(vcpu)
    }

    /// Asks for a neighbour on behalf of a vCPU, which is the only one that does.
    pub fn ask(&self, vcpu: usize, question: Question) {
        if let Some(ring) = self.ring(vcpu) {
            questions::ask(ring, question.word());
        }
    }
}

impl Hearers {
    /// Begins with what is still in the rings of a member.
    pub fn new(desk: &Desk) -> Self {
        Self(desk.questions.each_ref().map(Hearer::new))
    }

    /// Passes at most `most` questions that were not heard yet to `each`, and returns how many that were, and how many were
    /// lost because they were not heard in time.
    pub fn hear(&mut self, desk: &Desk, most: usize, mut each: impl FnMut(Question)) -> Heard {
        let mut all = Heard::default();
        for (hearer, ring) in self.0.iter_mut().zip(&desk.questions) {
            let left = most.saturating_sub(all.taken as usize);
            let heard = hearer.hear(ring, left, |word| each(Question::from_word(word)));
            all.taken += heard.taken;
            all.lost = all.lost.saturating_add(heard.lost);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_what_it_was() {
        for question in [Question { nic: 0, ip: 1 }, Question { nic: 255, ip: u32::MAX }] {
            assert_eq!(Question::from_word(question.word()), question);
        }
    }

    #[test]
    fn the_vcpus_of_a_member_are_heard_together_within_one_limit() {
        let (desk, mut heard) = (Desk::default(), 0);
        let mut hearers = Hearers::new(&desk);
        for vcpu in [0, 3, MAX_VCPUS - 1, MAX_VCPUS] {
            (0..3).for_each(|ip| desk.ask(vcpu, Question { nic: vcpu as u8, ip }));
        }
        assert_eq!(hearers.hear(&desk, 4, |_| heard += 1), Heard { taken: 4, lost: 0 });
        assert_eq!(hearers.hear(&desk, 100, |_| heard += 1), Heard { taken: 5, lost: 0 });
        assert_eq!(heard, 9, "there is no vCPU {MAX_VCPUS}");
    }

    #[test]
    fn a_member_that_has_ended_reads_nothing() {
        let desk = Desk::default();
        desk.epoch(1).expect("there").store(7, Release);
        assert_eq!(desk.epochs()[..3], [0, 7, 0]);
        desk.leave();
        assert_eq!(desk.epochs(), [0; MAX_VCPUS]);
    }
}
