//! Commands of the control queue (virtio 1.2, section 5.1.6.5).
//!
//! ```text
//! driver writes: | class | command | data of the command ... |      device writes: | ack |
//! ```

use ring::split::{Broken, Burst, Chain, DeviceQueue};

/// Class of commands for multiqueue.
pub const CLASS_MQ: u8 = 4;
/// Command of [`CLASS_MQ`]: set the number of pairs to use; data: 16 bits.
pub const MQ_VQ_PAIRS_SET: u8 = 0;
/// Class of commands for the driver's receive offloads.
pub const CLASS_GUEST_OFFLOADS: u8 = 5;
/// Command of [`CLASS_GUEST_OFFLOADS`]: set the offloads to leave to the driver from now on; data: 64 bits, those of
/// the features.
pub const GUEST_OFFLOADS_SET: u8 = 0;
/// Length in octets of the longest command that the device supports.
pub const COMMAND_LEN_MAX: usize = 10;

/// Maximum number of commands per kick and queue entry. A driver waits for each reply; one that adds commands as fast
/// as they are executed must not occupy the thread that serves the queue forever.
const ROUNDS: usize = 2;

/// The device's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ack {
    /// Success.
    Ok = 0,
    /// Unknown command, malformed or out of range; no state was changed.
    Error = 1,
}

/// A valid command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Use this many pairs of queues.
    UsePairs(u16),
    /// Leave these offloads to the driver: feature bits.
    LeaveToDriver(u64),
}

impl Command {
    /// Parses a command's octets.
    pub(super) fn parse(octets: &[u8]) -> Option<Self> {
        match *octets {
            [CLASS_MQ, MQ_VQ_PAIRS_SET, low, high] => Some(Self::UsePairs(u16::from_le_bytes([low, high]))),
            [CLASS_GUEST_OFFLOADS, GUEST_OFFLOADS_SET, ref bits @ ..] => {
                Some(Self::LeaveToDriver(u64::from_le_bytes(bits.try_into().ok()?)))
            }
            _ => None,
        }
    }
}

/// Device end of the control queue. The thread that handles its doorbell serves it, because commands are rare and
/// short.
#[derive(Debug)]
pub struct ControlQueue {
    queue: DeviceQueue,
    burst: Burst,
    /// Budget of commands left from the last kick.
    left: usize,
    /// True if commands may wait.
    has_more: bool,
}

impl ControlQueue {
    /// Serves this queue, from its first command on.
    pub fn new(queue: DeviceQueue) -> Self {
        Self { queue, burst: Burst::new(), left: 0, has_more: false }
    }

    /// Handles a kick of the driver: grants a new budget for waiting commands.
    pub fn kicked(&mut self) {
        self.left = ROUNDS * usize::from(self.queue.size());
        self.has_more = true;
    }

    /// Returns true if [`Self::serve`] must be called: commands may wait, and the budget is not exhausted.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Executes a burst of waiting commands, at most 64. Returns true if the driver wants an interrupt. An error means
    /// that the driver broke the ring: the device has to [`fail`](super::VirtioNet::fail).
    pub fn serve(&mut self, mut execute: impl FnMut(&[u8]) -> Ack) -> Result<bool, Broken> {
        let taken = self.queue.take_mixed(self.left, &mut self.burst)?;
        self.left -= taken;
        for chain in self.burst.chains() {
            let written = answer(&self.burst, chain, &mut execute);
            self.queue.complete(chain, written);
        }
        let interrupt = self.queue.publish();
        self.has_more = taken > 0 || (self.queue.arm() && self.left > 0);
        Ok(interrupt)
    }
}

/// Executes one command and writes the reply into the first writable octet of the chain; returns how many octets were
/// written. A command without room for the reply is not executed.
fn answer(burst: &Burst, chain: &Chain, execute: &mut impl FnMut(&[u8]) -> Ack) -> u32 {
    let Some(place) = burst.writable(chain).iter().find(|segment| !segment.is_empty()) else { return 0 };
    // One octet more than the longest command, so that a longer command is not mistaken for it.
    let mut command = [0; COMMAND_LEN_MAX + 1];
    let mut len = 0;
    for segment in burst.readable(chain) {
        len += segment.copy_to_slice(&mut command[len..]);
    }
    let ack = execute(&command[..len]);
    u32::from(place.write(0, [ack as u8]))
}
