//! `guest-rx`: a firmware receives frames and discards them. The frames come from a generator in the measuring thread on the
//! other CPU (`native`), through the learning switch (`switch`), or from a UDP socket of the kernel through a TAP (`tap`).
//! With a TAP the thread alternately sends a burst and moves a burst; frames that the guest does not take in time are
//! dropped in the TAP's queue. `sender_kpps` is the sent rate.
//!
//! With `--segment` the socket hands packets of many datagrams to the kernel (UDP_SEGMENT). A virtio-net guest receives each
//! as one packet; for an e1000 the kernel segments them.

use std::net::UdpSocket;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bootinfo::{Role, TrafficInfo};
use config::NicModel;
use engine::{Guest, GuestTask};
use port::pump;
use port::{Backlog, pump_on};
use ring::BURST;
use uplink::TapSource;

use super::{Case, guest_tx};
use crate::device::{self, CpuAssignment};
use crate::experiment::{Attachment, Experiment, ExtraFigures, Options, Rig, Sample};
use crate::generator::{Generator, GeneratorCounters};
use crate::ledger_snapshot::Snapshot;
use crate::metric::{HasCounters, Reading, accesses, take_vcpus};
use crate::rig::host_end::{self, HostEnd};
use crate::rig::{ReceivingGuest, Through, Way};
use crate::scenario::until_quiet;
use crate::tag;

/// Largest packet, in octets, that Linux hands on unsegmented (GSO_LEGACY_MAX_SIZE).
const LARGEST: usize = 65_535;
/// Bursts between two readings of the clock.
const BURSTS: usize = 16;
/// After a slice: quiet time after which the guest sleeps, and the most time it gets to receive the remaining frames.
const REST: Duration = Duration::from_millis(5);
const GIVE_UP: Duration = Duration::from_millis(200);
/// Warm-up time for the caches.
const WARM_UP: Duration = Duration::from_millis(20);

/// Creates the case, with the measuring thread and the guest on the CPUs of the options.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    ensure!(
        options.segment.is_none() || options.attach == Attachment::Tap,
        "guest-rx --segment needs --attach tap: only the kernel sends packets that are still to be cut"
    );
    let seats = CpuAssignment::of(options)?;
    let (name, pair, options) = (guest_tx::case(options), seats.pair(), options.clone());
    let described =
        Experiment::new(("guest-rx", "mpps"), name, move || Receiver::start(options.clone(), &seats));
    Ok(vec![described.between(pair).built_each_turn().into()])
}

struct Receiver {
    guest: ReceivingGuest,
    feed: Feed,
    options: Options,
}

/// Source of the frames.
enum Feed {
    Generator { generator: Box<Generator>, offered: Arc<GeneratorCounters>, way: Way },
    Kernel(Box<Kernel>),
}

/// UDP socket, and the TAP that it sends to.
struct Kernel {
    _host: HostEnd,
    source: TapSource,
    /// Queue between the TAP and the guest.
    backlog: Backlog,
    socket: UdpSocket,
    into: Arc<dyn port::Sink>,
    datagram: Vec<u8>,
    /// Datagrams of one turn: as many as yield a burst of frames.
    turn: usize,
    /// Frames that those datagrams yield; 0: each turn moves one burst.
    frames: usize,
    flow: u32,
    flows: u32,
    sequence: u32,
    sent: u64,
}

impl Rig for Receiver {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let before = Reading::of(self);
        let (frames, seconds) = self.run(length)?;
        let (ledger, exits) = before.since(self)?;
        let (sent, share) = (ledger.count("offered.frames"), share(&self.options));
        let vcpus = 0..self.guest.guest.machine().vcpus();
        let came: u64 = vcpus.map(|n| ledger.count(&format!("vcpu{n}.nic0.rx_frames"))).sum();
        if joins(&self.options) {
            ensure!(
                2 * ledger.count("rx.left_segments") >= ledger.count("rx.frames"),
                "the kernel cuts UDP packets itself instead of handing them to a TAP: that takes Linux 6.2, and at most {LARGEST} octets each"
            );
        }
        let packets = frames as f64 / share as f64;
        let mut more = ExtraFigures::from([
            ("sender_kpps", sent as f64 / seconds * 1e-3),
            ("packets_kpps", packets / seconds * 1e-3),
            ("mbps", packets * self.options.frame as f64 * 8e-6 / seconds),
        ]);
        more.extend(accesses::per_frame(&ledger, frames));
        let lost = sent.saturating_sub(came / share);
        Ok(Sample { lost, exits: Some(exits), more, ledger, ..Sample::mpps(frames, seconds) })
    }
}

impl HasCounters for Receiver {
    fn guests(&self) -> &[Guest] {
        slice::from_ref(&self.guest.guest)
    }

    fn count(&self, ledger: &mut Snapshot) {
        match &self.feed {
            Feed::Generator { offered, way, .. } => {
                ledger.take("offered", &**offered);
                way.take(ledger);
            }
            Feed::Kernel(kernel) => {
                let offered = GeneratorCounters::default();
                offered.frames.add(kernel.sent);
                ledger.take("offered", &offered);
                ledger.take("tap.read", &*kernel.source.counters());
            }
        }
        let guest = &self.guest.guest;
        ledger.take("rx", &guest.nics()[0].rx_ledger());
        take_vcpus(guest, ledger);
        accesses::take(guest, ledger);
    }
}

/// Returns true if packets arrive unsegmented.
fn joins(options: &Options) -> bool {
    options.segment.is_some() && options.nic == NicModel::VirtioNet
}

/// Number of frames in which each packet arrives.
fn share(options: &Options) -> u64 {
    if joins(options) { 1 } else { options.frames_a_packet(tag::FLOW) }
}

impl Receiver {
    fn start(options: Options, seats: &CpuAssignment) -> Result<Self> {
        let segment_len = options.segment.unwrap_or(0) as u32;
        let traffic = TrafficInfo { segment_len, ..TrafficInfo::default() };
        let duty = GuestTask { role: Role::Sink, traffic };
        let guest = ReceivingGuest::start(&options, &device::end_plan(&options, seats)?, duty, seats.host)?;
        let feed = Feed::open(&options, guest.into.clone())?;
        let mut receiver = Self { guest, feed, options };
        receiver.run(WARM_UP)?;
        Ok(receiver)
    }

    /// Sends for about `length`, then lets the guest receive the rest; returns the frames received in that time, and the
    /// seconds.
    fn run(&mut self, length: Duration) -> Result<(u64, f64)> {
        let (came, start) = (self.came(), Instant::now());
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                self.feed.burst()?;
                self.guest.back.pump();
            }
        }
        let (frames, seconds) = (self.came() - came, start.elapsed().as_secs_f64());
        self.settle();
        Ok((frames, seconds))
    }

    /// Lets the guest empty its ring and fall asleep.
    fn settle(&mut self) {
        until_quiet(REST, GIVE_UP, || {
            let moved = self.feed.rest();
            self.guest.back.pump();
            Some(moved > 0 || self.guest.guest.nics()[0].rx_ledger().frames.get() != self.came())
        });
    }

    /// Frames that the guest's driver has received.
    fn came(&self) -> u64 {
        let machine = self.guest.guest.machine();
        machine.shared().vcpus.iter().take(machine.vcpus()).map(|vcpu| vcpu.nics[0].rx_frames.get()).sum()
    }
}

impl Feed {
    fn open(options: &Options, into: Arc<dyn port::Sink>) -> Result<Self> {
        let through = match options.attach {
            Attachment::Native => Through::Wire,
            Attachment::Switch => Through::Switch,
            Attachment::Tap => {
                return Ok(Self::Kernel(Box::new(Kernel::new(options, share(options), into)?)));
            }
        };
        let generator = Box::new(Generator::new(&device::traffic(options))?);
        let offered = generator.counters();
        let way = Way::new(through, into, frame::Mac(device::NEAR_MAC))?;
        Ok(Self::Generator { generator, offered, way })
    }

    /// Sends a burst and moves a burst.
    fn burst(&mut self) -> Result<()> {
        match self {
            Self::Generator { generator, way, .. } => {
                pump(generator.as_mut(), &*way.entry);
                Ok(())
            }
            Self::Kernel(kernel) => kernel.burst(),
        }
    }

    /// Moves the remaining frames; returns their number.
    fn rest(&mut self) -> usize {
        match self {
            Self::Generator { .. } => 0,
            Self::Kernel(kernel) => kernel.forward(),
        }
    }
}

impl Kernel {
    /// Opens the socket; `share` is the number of frames in which each packet arrives.
    fn new(options: &Options, share: u64, into: Arc<dyn port::Sink>) -> Result<Self> {
        let mut host = HostEnd::open()?;
        let socket = host.datagrams(0)?;
        if let Some(segment) = options.segment {
            uplink::udp::segment(&socket, segment.saturating_sub(tag::FLOW) as u16)?;
        }
        socket.connect((device::NEAR, host_end::DISCARD)).context("cannot address a UDP socket")?;
        let source = host.from.take().context("the TAP has no source")?;
        let datagram = vec![0; options.frame.saturating_sub(tag::FLOW)];
        let flows = options.flows.max(1);
        let turn = (BURST / options.frames_a_packet(tag::FLOW) as usize).max(1);
        let frames = options.segment.map_or(0, |_| turn * share as usize);
        let backlog = Backlog::default();
        Ok(Self {
            _host: host,
            source,
            backlog,
            socket,
            into,
            datagram,
            turn,
            frames,
            flow: 0,
            flows,
            sequence: 0,
            sent: 0,
        })
    }

    fn burst(&mut self) -> Result<()> {
        for _ in 0..self.turn {
            if let Some(mark) = self.datagram.first_chunk_mut::<8>() {
                *mark = (u64::from(self.flow) << 32 | u64::from(self.sequence)).to_be_bytes();
            }
            match self.socket.send(&self.datagram) {
                Ok(_) => self.sent += 1,
                // The TAP's queue is full (ENOBUFS).
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("cannot send to a TAP"),
            }
            self.flow += 1;
            if self.flow == self.flows {
                (self.flow, self.sequence) = (0, self.sequence.wrapping_add(1));
            }
        }
        self.forward_turn();
        Ok(())
    }

    /// Moves the frames of one turn, large packets a few at a time.
    fn forward_turn(&mut self) {
        let mut left = self.frames;
        loop {
            let moved = self.forward();
            left = left.saturating_sub(moved);
            if moved == 0 || left == 0 {
                return;
            }
        }
    }

    fn forward(&mut self) -> usize {
        pump_on(&mut self.source, &*self.into, &mut self.backlog)
    }
}
