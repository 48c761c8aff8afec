//! Commands of the control queue (virtio 1.2, section 5.1.6.5).
//!
//! ```text
//! driver writes: | class | command | data of the command ... |      device writes: | ack |
//! ```

use ring::split::{Broken, Burst, Chain, DeviceQueue};

/// Class of commands about pairs of queues.
pub const CLASS_MQ: u8 = 4;
/// Command of [`CLASS_MQ`]: use so many pairs; data: 16 bits.
pub const MQ_VQ_PAIRS_SET: u8 = 0;
/// Class of commands about what is left to the driver.
pub const CLASS_GUEST_OFFLOADS: u8 = 5;
/// Command of [`CLASS_GUEST_OFFLOADS`]: leave only this to the driver from now on; data: 64 bits, those of the features.
pub const GUEST_OFFLOADS_SET: u8 = 0;
/// Octets of the longest command that the device knows.
pub const COMMAND_LEN_MAX: usize = 10;

/// Commands executed at most for one kick and entry of the queue. A driver waits for each answer; one that adds
/// commands as fast as they are executed must not hold the thread that serves it.
const ROUNDS: usize = 2;

/// The device's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ack {
    /// Done.
    Ok = 0,
    /// Not known, malformed or out of range; nothing has changed.
    Error = 1,
}

/// A command that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Use so many pairs of queues.
    UsePairs(u16),
    /// Leave this to the driver: bits of features.
    LeaveToDriver(u64),
}

impl Command {
    /// Understands a command's octets.
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

/// The control queue's ring. It is served by the thread that takes its doorbell, as commands are rare and short.
#[derive(Debug)]
pub struct ControlQueue {
    queue: DeviceQueue,
    burst: Burst,
    /// Commands that the last kick still pays for.
    left: usize,
    /// Whether some of them may wait.
    has_more: bool,
}

impl ControlQueue {
    /// Serves this queue, from its first command on.
    pub fn new(queue: DeviceQueue) -> Self {
        Self { queue, burst: Burst::new(), left: 0, has_more: false }
    }

    /// The driver has kicked: the commands that wait are to be executed.
    pub fn kicked(&mut self) {
        self.left = ROUNDS * usize::from(self.queue.size());
        self.has_more = true;
    }

    /// Whether [`Self::serve`] is to be called: commands may wait that the last kick pays for.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Executes a burst of the commands that wait: 64 at most. True if the driver wants an interrupt. An
    /// error means that the driver broke the ring: the device has to [`fail`](super::VirtioNet::fail).
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

/// Executes one command and writes the answer into the first octet that the driver left for it; returns how many
/// octets were written. A command without room for the answer is not executed.
fn answer(burst: &Burst, chain: &Chain, execute: &mut impl FnMut(&[u8]) -> Ack) -> u32 {
    let Some(place) = burst.writable(chain).iter().find(|segment| !segment.is_empty()) else { return 0 };
    // One octet more than the longest command, so that a longer one is not mistaken for it.
    let mut command = [0; COMMAND_LEN_MAX + 1];
    let mut len = 0;
    for segment in burst.readable(chain) {
        len += segment.copy_to_slice(&mut command[len..]);
    }
    let ack = execute(&command[..len]);
    u32::from(place.write(0, [ack as u8]))
}
