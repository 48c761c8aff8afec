//! Misuse of a virtio-net device behind its driver's back: resets and reinitialises it repeatedly, or floods it with commands
//! (virtio 1.2, sections 3.1.1 and 5.1.6.5).

use ring::split::Layout;

use super::rings::Ring;
use crate::arena::Arena;
use crate::virtio_net::{QueueRegisters, Transport};

/// Queue numbers of the first pair.
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
/// Entries of each of these queues, and of the control queue.
const ENTRIES: u16 = 64;
const COMMANDS: u16 = 256;
/// VIRTIO_MSI_NO_VECTOR: the queue raises no interrupts.
const NO_VECTOR: u16 = 0xffff;
/// Layout of this device's memory: the rings, one buffer for all frames, the commands.
const CONTROL_RING: u64 = 2 * 4096;
const BUFFER: u64 = 4 * 4096;
const COMMAND: u64 = BUFFER + 2048;
const ANSWER: u64 = COMMAND + 1024;
const OCTETS: u64 = 5 * 4096;
/// Length of a receive buffer, and of a frame of zeros with its header, in octets.
const ROOM: u32 = 2048;
const FRAME: u32 = 12 + 60;

/// Commands that set one queue pair, and two: class, command, number.
const ONE_PAIR: [u8; 4] = [4, 0, 1, 0];
const TWO_PAIRS: [u8; 4] = [4, 0, 2, 0];
/// Commands that accept no receive offloads, and checksum offload only: class, command, bits.
const NO_OFFLOADS: [u8; 10] = [5, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const CHECKSUMS: [u8; 10] = [5, 0, 2, 0, 0, 0, 0, 0, 0, 0];

const _: () = assert!(Layout::octets(ENTRIES) <= 4096 && CONTROL_RING + Layout::octets(COMMANDS) <= BUFFER);

/// Virtio-net device of a NIC, with memory of its own for its rings.
pub(super) struct Device {
    slot: u32,
    memory: u64,
    /// Size of the RAM in octets.
    ram: u64,
    transport: Option<Transport>,
    control: Option<(Ring, QueueRegisters)>,
}

impl Device {
    /// Creates the driver for the device in this slot; the regular driver keeps the device until this one uses it. None if memory
    /// is exhausted.
    pub(super) fn new(slot: u32, ram: u64, arena: &mut Arena) -> Option<Self> {
        Some(Self { slot, memory: arena.take(OCTETS, 4096)?, ram, transport: None, control: None })
    }

    /// Resets and reinitialises it, with buffers in one ring and frames in the other; none if initialisation fails.
    pub(super) fn renew(&mut self) -> Option<()> {
        self.reset()?;
        let bell = self.start_pair()?;
        self.transport.as_ref()?.run();
        bell.kick();
        Some(())
    }

    /// Makes it execute a full queue of commands; none if it has no control queue.
    pub(super) fn command(&mut self) -> Option<()> {
        if self.control.is_none() {
            self.reset()?;
            self.start_pair()?;
            self.control = Some(self.start_control()?);
            self.transport.as_ref()?.run();
        }
        let (ring, bell) = self.control.as_ref()?;
        bell.kick();
        ring.offer_returned();
        Some(())
    }

    fn reset(&mut self) -> Option<()> {
        match &self.transport {
            Some(transport) => transport.reset(),
            None => self.transport = Some(Transport::new(self.slot)?),
        }
        self.transport.as_mut()?.negotiate_all().then_some(())
    }

    /// Sets the first pair up; returns the doorbell of its transmit queue.
    fn start_pair(&self) -> Option<QueueRegisters> {
        let (receive, _) = self.start(RECEIVE, (ENTRIES, self.memory))?;
        receive.fill((self.memory + BUFFER, ROOM));
        let (transmit, bell) = self.start(TRANSMIT, (ENTRIES, self.memory + 4096))?;
        transmit.fill((self.memory + BUFFER, FRAME));
        Some(bell)
    }

    fn start_control(&self) -> Option<(Ring, QueueRegisters)> {
        let number = 2 * self.transport.as_ref()?.max_queue_pairs();
        let (ring, bell) = self.start(number, (COMMANDS, self.memory + CONTROL_RING))?;
        let commands: [&[u8]; 4] = [&ONE_PAIR, &NO_OFFLOADS, &TWO_PAIRS, &CHECKSUMS];
        let mut places = [(0, 0); 4];
        for (place, (command, at)) in
            places.iter_mut().zip(commands.iter().zip((self.memory + COMMAND..).step_by(64)))
        {
            // SAFETY: in this device's own memory, which no other code writes, and 64 octets from the next one.
            unsafe { core::ptr::copy_nonoverlapping(command.as_ptr(), at as *mut u8, command.len()) };
            *place = (at, command.len() as u32);
        }
        ring.fill_with_commands(&places, self.memory + ANSWER);
        Some((ring, bell))
    }

    /// Sets a queue up, with at most this many entries, in memory from this address on.
    fn start(&self, number: u16, (entries, at): (u16, u64)) -> Option<(Ring, QueueRegisters)> {
        let transport = self.transport.as_ref()?;
        let size = transport.select(number).min(entries);
        if !size.is_power_of_two() {
            return None;
        }
        let layout = Layout::contiguous(size, at);
        let bell = transport.start_queue(number, &layout, NO_VECTOR);
        Some((Ring::new(&layout, number == RECEIVE, self.ram), bell))
    }
}
