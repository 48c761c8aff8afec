//! Ring to ring on one core: frames go from one guest's transmit ring to another's receive ring, through a switch
//! (`switch`) or directly (`wire`).
//!
//! One thread plays all parts in turn, a whole ring at a time, so that each part can be timed separately: the first
//! guest's driver adds frames, the host's thread moves the frames with one copy, the second guest's driver takes
//! them and posts its buffers again. The figure is the host's part alone, the rate that a switch thread could move
//! if the guests had cores of their own; `all_mpps` covers the whole round.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use ledger::NicDirection;
use nic::virtio_net::rx::RxQueue;
use nic::virtio_net::tx::{HEADER, TxQueue};
use port::pump;
use port::{Frame, Sink, Source};
use ring::split::{DeviceQueue, DriverQueue, Features, InOrderDriver, Layout};
use ring::{BURST, Region};

use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::generator::{Generator, Settings};
use crate::ledger_snapshot::Snapshot;
use crate::rig::{Through, Way};

/// Distance between buffers, in octets: with 2048, their first cache lines would compete for few cache sets.
const STRIDE: u64 = 2048 + 64;
/// Guest-physical address at which the memory of a played guest begins.
const START: u64 = 0x10_0000;
/// Page size in octets.
const PAGE: usize = 4096;
/// Features that ringroad's own drivers negotiate.
const FEATURES: Features = Features { in_order: true, event_idx: true, indirect: false };

/// Creates the case with the frame size of `options` and rings of `entries` (a power of two).
pub(super) fn case(through: Through, options: &Options, entries: u16) -> Experiment {
    let frame = options.frame;
    let id = match through {
        Through::Wire => "wire",
        Through::Switch => "switch",
    };
    Experiment::new((id, "mpps"), format!("ring-{entries}/{frame}"), move || {
        ensure!(frame <= 2048 - HEADER, "frame must fit a buffer of 2048 octets, not be {frame}");
        Rings::new(through, entries, frame)
    })
}

struct Rings {
    frame: usize,
    sender: Guest,
    receiver: Guest,
    source: TransmitRing,
    sink: Arc<ReceiveRing>,
    way: Way,
}

/// Driver side of one ring, with one buffer for each entry.
struct Guest {
    region: Region,
    layout: Layout,
    driver: InOrderDriver<'static, u16>,
}

impl Guest {
    /// Creates the ring in leaked memory: the program plays the guest until it exits.
    fn new(entries: u16) -> Result<Self> {
        let rings = Layout::octets(entries).next_multiple_of(PAGE as u64);
        let len = (rings + u64::from(entries) * STRIDE) as usize;
        let octets = vec![0; len + PAGE].leak();
        let skew = octets.as_ptr().align_offset(PAGE);
        ensure!(skew < PAGE, "no memory on a page boundary for the rings");
        let region = Region::from_static(&mut octets[skew..skew + len], START);
        let layout = Layout::contiguous(entries, START);
        let tokens = vec![MaybeUninit::uninit(); usize::from(entries)].leak();
        let mut driver = InOrderDriver::new(region, &layout, FEATURES, tokens)?;
        driver.disarm();
        Ok(Self { region, layout, driver })
    }

    fn device_end(&self) -> Result<DeviceQueue> {
        Ok(DeviceQueue::new(self.region, &self.layout, FEATURES)?)
    }

    /// Guest-physical address of an entry's buffer.
    #[inline(always)]
    fn buffer(&self, entry: u16) -> u64 {
        let rings = Layout::octets(self.layout.size).next_multiple_of(PAGE as u64);
        START + rings + u64::from(entry) * STRIDE
    }

    /// Posts empty buffers for all entries.
    fn post_all(&mut self) {
        for entry in 0..self.layout.size {
            self.driver.push(entry, self.buffer(entry), 2048, true);
        }
        self.driver.publish();
    }

    /// Writes one frame of the generator into each buffer, behind a zeroed virtio-net header.
    fn write_frames(&self, frame: usize) -> Result<()> {
        let settings = Settings { frame, flows: u32::from(self.layout.size), ..Settings::default() };
        let mut generator = Generator::new(&settings)?;
        let mut entry = 0;
        while entry < self.layout.size {
            let most = usize::from(self.layout.size - entry);
            generator.drain(most, &mut |frames| {
                for frame in frames {
                    let at = self.buffer(entry) + HEADER as u64;
                    if let Some(buffer) = self.region.bytes(at, frame.len() as u32) {
                        frame.octets().copy_to(&buffer);
                    }
                    entry += 1;
                }
            });
        }
        Ok(())
    }

    /// Adds a whole ring of frames, after reclaiming those sent before.
    fn send_all(&mut self, len: u32) -> Result<()> {
        let size = self.layout.size;
        self.driver.reclaim(usize::from(size), |_| {})?;
        for first in (0..size).step_by(BURST) {
            for entry in first..(first + BURST as u16).min(size) {
                self.driver.push(entry, self.buffer(entry), len, false);
            }
            self.driver.publish();
        }
        Ok(())
    }

    /// Takes the frames that have arrived and posts the buffers again; returns their number.
    fn receive_all(&mut self) -> Result<u64> {
        let mut total = 0;
        loop {
            let mut tokens = [0; BURST];
            let mut n = 0;
            self.driver.pop(BURST, |token, _| {
                tokens[n] = token;
                n += 1;
            })?;
            if n == 0 {
                return Ok(total);
            }
            for &token in &tokens[..n] {
                self.driver.push(token, self.buffer(token), 2048, true);
            }
            self.driver.publish();
            total += n as u64;
        }
    }

    /// Returns the frame in an entry's buffer.
    fn frame(&self, entry: u16, frame: usize) -> Vec<u8> {
        let mut octets = vec![0; frame];
        let at = self.buffer(entry) + HEADER as u64;
        if let Some(bytes) = self.region.bytes(at, frame as u32) {
            bytes.copy_to_slice(&mut octets);
        }
        octets
    }
}

/// Device side of a transmit ring as a source.
struct TransmitRing {
    queue: TxQueue,
    ledger: Arc<NicDirection>,
}

impl Source for TransmitRing {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.queue.drain(budget, &self.ledger, take).frames
    }
}

/// Device side of a receive ring as a sink.
struct ReceiveRing {
    queue: Mutex<RxQueue>,
    ledger: NicDirection,
}

impl Sink for ReceiveRing {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = queue.fill(frames, &self.ledger).taken;
        self.ledger.drop_no_buffer.add((frames.len() - taken) as u64);
        taken
    }

    fn room(&self) -> usize {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).room()
    }
}

/// Seconds spent in each part of the rounds.
#[derive(Default)]
struct PhaseTimes {
    send: f64,
    host: f64,
    receive: f64,
}

impl Rings {
    fn new(through: Through, entries: u16, frame: usize) -> Result<Self> {
        let (sender, mut receiver) = (Guest::new(entries)?, Guest::new(entries)?);
        sender.write_frames(frame)?;
        receiver.post_all();
        let mut transmit = TxQueue::new(sender.device_end()?, crate::tag::LONGEST);
        let mut receive = RxQueue::new(receiver.device_end()?, false);
        transmit.disarm();
        receive.disarm();
        let source = TransmitRing { queue: transmit, ledger: Arc::default() };
        let sink = Arc::new(ReceiveRing { queue: Mutex::new(receive), ledger: NicDirection::default() });
        let way = Way::new(through, sink.clone(), Settings::default().destination_mac)?;
        // The frame from which a switch learned the receiver's port went the other way, so both rings are unchanged.
        Ok(Self { frame, sender, receiver, source, sink, way })
    }

    /// Moves one whole ring of frames; returns how many arrived.
    fn round(&mut self, parts: &mut PhaseTimes) -> Result<u64> {
        let start = Instant::now();
        self.sender.send_all((HEADER + self.frame) as u32)?;
        let sent = Instant::now();
        while pump(&mut self.source, &*self.way.entry) > 0 {}
        let moved = Instant::now();
        let arrived = self.receiver.receive_all()?;
        parts.send += (sent - start).as_secs_f64();
        parts.host += (moved - sent).as_secs_f64();
        parts.receive += moved.elapsed().as_secs_f64();
        Ok(arrived)
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        ledger.take("sender.tx", &*self.source.ledger);
        self.way.take(&mut ledger);
        ledger.take("receiver.rx", &self.sink.ledger);
        ledger
    }

    /// Number of frames in the receiver's buffers that differ from those sent.
    fn damaged(&self) -> usize {
        let (entries, frame) = (0..self.sender.layout.size, self.frame);
        entries.filter(|&entry| self.sender.frame(entry, frame) != self.receiver.frame(entry, frame)).count()
    }
}

impl Rig for Rings {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let (before, start) = (self.ledger(), Instant::now());
        let (mut sent, mut packets, mut parts) = (0, 0, PhaseTimes::default());
        while start.elapsed() < length {
            sent += u64::from(self.sender.layout.size);
            packets += self.round(&mut parts)?;
        }
        let all = start.elapsed().as_secs_f64();
        let ns = |seconds: f64| seconds * 1e9 / packets as f64;
        let more = [
            ("all_mpps", packets as f64 / all * 1e-6),
            ("host_ns", ns(parts.host)),
            ("driver_tx_ns", ns(parts.send)),
            ("driver_rx_ns", ns(parts.receive)),
            ("damaged", self.damaged() as f64),
        ];
        Ok(Sample {
            lost: sent - packets,
            more: more.into(),
            ledger: self.ledger().since(&before),
            ..Sample::mpps(packets, parts.host)
        })
    }
}
