//! The desk of a member of a group, written by a fuzzer between the host's looks. Finds panics, looks that read more than they may, and
//! questions that were never asked.

use bootinfo::{Desk, Hearers, MAX_VCPUS, Question};
use ring::questions::Words;

/// Words of the ring of one vCPU.
const PLACES: usize = 64;

/// Runs one input: pieces of nine octets, the first of which chooses what happens, and the others are its values.
pub(crate) fn run(input: &[u8]) {
    let desk = Desk::default();
    let mut hearers = Hearers::new(&desk);
    for piece in input.chunks_exact(9) {
        let value = piece[1..].iter().fold(0_u64, |value, octet| value << 8 | u64::from(*octet));
        let vcpu = value as usize % (MAX_VCPUS + 1);
        match (piece[0] & 7, desk.ring(vcpu)) {
            // The member follows the rules.
            (0, _) => desk.ask(vcpu, Question { nic: (value >> 8) as u8, ip: (value >> 16) as u32 }),
            // It writes what it likes.
            (1 | 2, Some(ring)) => ring.set_asked((value >> 8) as u32),
            (3 | 4, Some(ring)) => ring.set_word((value >> 8) as usize % PLACES, value.rotate_left(16)),
            (5, _) => {
                if let Some(word) = desk.epoch(vcpu) {
                    word.store((value >> 8) as u32, core::sync::atomic::Ordering::Release);
                }
            }
            _ => look(&desk, &mut hearers, (value >> 8) as usize % 2000),
        }
    }
}

/// The host looks.
fn look(desk: &Desk, hearers: &mut Hearers, most: usize) {
    let mut passed = 0;
    let heard = hearers.hear(desk, most, |_| passed += 1);
    assert_eq!(heard.taken as usize, passed);
    assert!(passed <= most && passed <= PLACES * MAX_VCPUS);
    // Nobody has asked since, so nothing is left if all was allowed.
    if most >= PLACES * MAX_VCPUS {
        assert_eq!(hearers.hear(desk, most, |_| passed += 1).taken, 0);
    }
    let readers = desk.epochs();
    assert!(readers.len() == MAX_VCPUS && fib::oldest(7, readers).wrapping_sub(7).cast_signed() <= 0);
}
