//! A driver that is hostile in two places at once: it sets queues up with arbitrary register accesses, resets in the
//! middle, and writes into its rings while the data path and the control queue work on them. Finds panics, hangs,
//! accesses outside guest memory, and work on a queue after it was stopped.
//!
//! The input consists of two octets with the initial configuration, then steps of 11 octets: the action, two octets
//! with its place or amount, and 8 octets of data.

use frame::offload::LARGEST;
use ledger::NicDirection;
use nic::pci::PciFunction;
use nic::virtio_net::rx::RxQueue;
use nic::virtio_net::tx::TxQueue;
use nic::virtio_net::{ControlQueue, Effect, NicConfig, QueueRole, QueueSetup, Start, VirtioNet};
use nic::virtio_net::{features, register, registers};
use port::{Frame, Offload, Offloads, Sink, deliver, show_completed};
use ring::split::{DeviceQueue, Layout};
use ring::{BURST, Bytes, Region};

/// Guest-physical address of the memory.
const START: u64 = 0x1_0000;
/// Length of the memory in octets.
const LEN: u64 = 0x1_0000;
/// Initial distance of the queues' rings.
const SPACING: u64 = 0x1000;
/// Largest frame that the transmit queues accept.
const LONGEST: usize = 1514;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&[kind, size], steps)) = input.split_first_chunk() else { return };
    let mut octets = vec![0u128; LEN as usize / 16];
    // SAFETY: `octets` outlives all that uses the region, which nothing else refers to meanwhile.
    let region = unsafe { Region::new(octets.as_mut_ptr().cast(), START, LEN) };
    let queue_pairs = 1 + u16::from(kind & 1);
    let (in_order, offloads) = (kind & 2 != 0, kind & 32 != 0);
    let config = NicConfig { queue_pairs, in_order, offloads, ..NicConfig::new([2, 0, 0, 0, 0, 1]) };
    let nic = VirtioNet::new(&config).expect("a good configuration");
    let takes = Offloads::from_bits(size);
    let mut world = World { nic, region, live: Vec::new(), ledger: NicDirection::default(), takes };
    world.bring_up(kind, size);
    for step in steps.as_chunks::<11>().0 {
        world.step(step);
        world.apply_effects();
    }
}

/// Queue that the driver has started.
enum Live {
    Receive(Box<RxQueue>),
    Transmit(Box<TxQueue>),
    Control(Box<ControlQueue>),
}

struct World {
    nic: VirtioNet,
    region: Region,
    live: Vec<(QueueSetup, Live)>,
    ledger: NicDirection,
    /// Offloads that frames from the transmit queues may leave to their sink.
    takes: Offloads,
}

impl World {
    /// Initialises the device like a correct driver, with some of the features and a queue size.
    fn bring_up(&mut self, kind: u8, size: u8) {
        self.nic.config_write(0x10, &0xe010_0000_u32.to_le_bytes());
        self.nic.config_write(0x04, &[6, 0]);
        self.register(register::DEVICE_STATUS, &[0]);
        for half in [0_u32, 1] {
            self.register(register::DEVICE_FEATURE_SELECT, &half.to_le_bytes());
            let mut offered = [0; 4];
            self.nic.bar_read(registers::BAR, register::DEVICE_FEATURE as u64, &mut offered);
            let left_out =
                [(4, features::EVENT_IDX), (8, features::INDIRECT_DESC), (16, features::MRG_RXBUF)];
            let left_out = left_out.iter().filter(|(bit, _)| kind & bit != 0).map(|(_, feature)| feature);
            let mask = !left_out.fold(0, |sum, feature| sum | feature) >> (32 * half);
            let picked = u32::from_le_bytes(offered) & mask as u32;
            self.register(register::DRIVER_FEATURE_SELECT, &half.to_le_bytes());
            self.register(register::DRIVER_FEATURE, &picked.to_le_bytes());
        }
        for queue in 0..self.nic.queues() {
            let layout = Layout::contiguous(1 << (size & 7), START + SPACING * u64::from(queue));
            self.register(register::QUEUE_SELECT, &queue.to_le_bytes());
            self.register(register::QUEUE_SIZE, &layout.size.to_le_bytes());
            for (at, address) in [
                (register::QUEUE_DESC, layout.descriptors),
                (register::QUEUE_DRIVER, layout.available),
                (register::QUEUE_DEVICE, layout.used),
            ] {
                self.register(at, &(address as u32).to_le_bytes());
            }
            self.register(register::QUEUE_ENABLE, &[1, 0]);
        }
        self.register(register::DEVICE_STATUS, &[0x0f]);
        self.apply_effects();
    }

    fn register(&mut self, at: usize, data: &[u8]) {
        self.nic.bar_write(registers::BAR, registers::COMMON + at as u64, data);
    }

    /// Executes the effects, like a VMM, until there are none.
    fn apply_effects(&mut self) {
        loop {
            let effects = self.nic.take_effects();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                match effect {
                    Effect::Started(start) => self.start(&start),
                    Effect::Stopped => self.live.clear(),
                    Effect::Kicked(queue) => assert!(self.nic.running() && queue < self.nic.queues()),
                    Effect::OffloadsChanged(takes) => self.leave(takes),
                    _ => {}
                }
            }
        }
        assert!(self.live.is_empty() || self.nic.running());
    }

    fn start(&mut self, start: &Start) {
        assert!(self.live.is_empty());
        for setup in &start.queues {
            let Ok(queue) = DeviceQueue::new(self.region, &setup.layout, setup.features) else {
                self.live.clear();
                self.nic.fail();
                return;
            };
            let live = match setup.role {
                QueueRole::Receive(_) => {
                    let queue = RxQueue::new(queue, start.mergeable());
                    Live::Receive(Box::new(queue.with_offloads(start.offloads_of_device())))
                }
                QueueRole::Transmit(_) => {
                    let queue = TxQueue::new(queue, LONGEST);
                    Live::Transmit(Box::new(queue.with_offloads(start.offloads_of_driver())))
                }
                QueueRole::Control => Live::Control(Box::new(ControlQueue::new(queue))),
            };
            self.live.push((*setup, live));
        }
    }

    fn leave(&mut self, takes: Offloads) {
        for (_, live) in &mut self.live {
            if let Live::Receive(queue) = live {
                queue.take_offloads(takes);
            }
        }
    }

    fn step(&mut self, step: &[u8; 11]) {
        let [what, low, high, data @ ..] = step;
        let place = u64::from(u16::from_le_bytes([*low, *high]));
        let some = &data[..usize::from(what >> 4).min(8)];
        match what & 0xf {
            0 => self.register(usize::from(low & 0x3f), some),
            1 => self.nic.bar_write(registers::BAR, place, some),
            2 => self.nic.config_write(place as u16 & 0x1ff, some),
            3 => self.bring_up(*low, *high),
            4 | 5 => self.write(START - 8 + place, data),
            6 | 7 => self.describe(*low, *high, data),
            8 | 9 => self.offer(*low, *high),
            10 => self.nic.bar_write(registers::BAR, registers::NOTIFY + place % 64, &[*low, 0]),
            11 => self.arm(),
            _ => self.serve(usize::from(*low), usize::from(*high)),
        }
    }

    /// Writes guest memory.
    fn write(&self, address: u64, octets: &[u8]) {
        if let Some(bytes) = self.region.bytes(address, octets.len() as u32) {
            bytes.copy_from_slice(octets);
        }
    }

    fn layout(&self, queue: u8) -> Option<Layout> {
        let queue = usize::from(queue).checked_rem(self.live.len())?;
        Some(self.live[queue].0.layout)
    }

    /// Writes a descriptor whose buffer is close to the memory.
    fn describe(&self, queue: u8, entry: u8, data: &[u8; 8]) {
        let Some(layout) = self.layout(queue) else { return };
        let [a, b, len, more, flags, _, next, _] = *data;
        let at = layout.descriptors.wrapping_add(16 * u64::from(entry));
        let address = START - 8 + u64::from(u16::from_le_bytes([a, b]));
        self.write(at, &address.to_le_bytes());
        self.write(at + 8, &[len, more & 7, 0, 0, flags & 7, 0, next, 0]);
    }

    /// Writes an available entry, and the index behind it.
    fn offer(&self, queue: u8, index: u8) {
        let Some(layout) = self.layout(queue) else { return };
        let entry = u64::from(index.wrapping_sub(1)) % u64::from(layout.size.max(1));
        self.write(layout.available.wrapping_add(4 + 2 * entry), &[queue >> 4, 0]);
        self.write(layout.available.wrapping_add(2), &[index, 0]);
    }

    fn arm(&mut self) {
        for (_, live) in &mut self.live {
            match live {
                Live::Receive(queue) => {
                    queue.arm();
                    queue.disarm();
                }
                Live::Transmit(queue) => {
                    queue.arm();
                    queue.disarm();
                }
                Live::Control(_) => {}
            }
        }
    }

    /// Serves one queue.
    fn serve(&mut self, queue: usize, amount: usize) {
        let Some(queue) = queue.checked_rem(self.live.len()) else { return };
        match &mut self.live[queue].1 {
            Live::Receive(queue) => fill(queue, amount, &self.ledger),
            Live::Transmit(queue) => drain(queue, amount, &self.ledger, self.takes),
            Live::Control(queue) => {
                let nic = &mut self.nic;
                queue.kicked();
                while queue.has_more() {
                    if queue.serve(|command| nic.control(command)).is_err() {
                        return self.nic.fail();
                    }
                }
            }
        }
    }
}

/// Sink that reads every octet of frames that it accepts.
struct ReadingSink {
    takes: Offloads,
}

impl Sink for ReadingSink {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        assert!((1..=BURST).contains(&frames.len()));
        for frame in frames {
            let mut copy = [0; LARGEST];
            assert!(self.takes.has(frame.offload().needed()));
            assert_eq!(frame.octets().copy_to_slice(&mut copy), frame.len());
        }
        frames.len()
    }

    fn offloads(&self) -> Offloads {
        self.takes
    }
}

fn fill(queue: &mut RxQueue, amount: usize, ledger: &NicDirection) {
    let mut octets = [0x5a; LONGEST];
    let all = Bytes::from_slice(&mut octets);
    let left = Offload::checksum(14, amount as u16).filter(|left| queue.offloads().has(left.needed()));
    let frame = Frame::with_offload(all.take(14 + amount as u32 * 5), left.unwrap_or_default());
    let frames = vec![frame; amount % (BURST + 1)];
    let filled = queue.fill(&frames, ledger);
    assert!(filled.taken <= frames.len());
}

fn drain(queue: &mut TxQueue, amount: usize, ledger: &NicDirection, takes: Offloads) {
    let drained = queue.drain(amount, ledger, &mut |frames| {
        assert!((1..=BURST).contains(&frames.len()));
        for frame in frames {
            let longest = if frame.offload().gso().is_some() { LARGEST } else { LONGEST };
            assert!((14..=longest).contains(&frame.len()) && frame.offload().fits(frame.len()));
        }
        deliver(&ReadingSink { takes }, frames);
        show_completed(frames, &mut |frames| _ = ReadingSink { takes: Offloads::NONE }.deliver(frames));
    });
    assert!(drained.frames <= BURST);
}
