//! Control queue: sets how many queue pairs the driver uses (virtio 1.2, section 5.1.6.5.5).

use super::queue::Queue;
use super::transport::{QueueRegisters, Transport};
use crate::arena::Arena;

const CLASS_MQ: u8 = 4;
const VQ_PAIRS_SET: u8 = 0;
const OK: u8 = 0;

/// Number of the control queue, which follows the queues of all pairs that the device has.
pub(super) fn queue_number(transport: &Transport) -> u16 {
    2 * transport.max_queue_pairs()
}

/// Tells the device to use `pairs` queue pairs and waits for its answer.
pub(super) fn set_queue_pairs(
    queue: &mut Queue,
    bell: QueueRegisters,
    pairs: u16,
    arena: &mut Arena,
) -> Option<()> {
    let at = arena.take(64, 64)?;
    let answer = at + 32;
    let [low, high] = pairs.to_le_bytes();
    // SAFETY: fresh memory of the arena that is not used otherwise.
    unsafe {
        (at as *mut [u8; 4]).write([CLASS_MQ, VQ_PAIRS_SET, low, high]);
        (answer as *mut u8).write(!OK);
    }
    if queue.command((at, 4), (answer, 1)) {
        bell.kick();
    }
    // The device answers in the thread that handles the kick, before the guest continues.
    // SAFETY: as above; volatile because the device writes it.
    let ack = unsafe { (answer as *const u8).read_volatile() };
    (ack == OK).then_some(())
}
