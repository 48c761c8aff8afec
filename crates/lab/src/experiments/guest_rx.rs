//! `guest-rx`: a firmware takes what comes to its NIC and throws it away. Frames come from a generator in the measuring
//! thread on the other CPU (`native`), by way of the learning switch (`switch`), or from a UDP socket of the kernel by a
//! TAP (`tap`): then the thread sends a burst and moves a burst in turn, and what the guest does not take in time is lost in
//! the TAP's queue. `sender_kpps` is what was sent.
//!
//! With `--segment` the socket hands packets of many datagrams to the kernel (UDP_SEGMENT). A virtio-net guest takes each as
//! one; for an e1000 the kernel cuts them.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bootinfo::{Role, TrafficInfo};
use config::NicModel;
use engine::{Duty, Guest};
use host::cores;
use port::pump;
use port::{Backlog, pump_on};
use ring::BURST;
use uplink::TapSource;

use super::accesses;
use super::exits::exits;
use super::guest_tx;
use super::host_end::{self, HostEnd};
use super::mover::Mover;
use super::through::{Through, Way};
use crate::device::{self, Seats};
use crate::experiment::{Attachment, Experiment, Options, Sample};
use crate::generator::{Generator, GeneratorCounters};
use crate::ledger_snapshot::Snapshot;
use crate::tag;

/// Octets of the longest frame that Linux hands on uncut (GSO_LEGACY_MAX_SIZE).
const LARGEST: usize = 65_535;
/// Bursts between two looks at the clock.
const BURSTS: usize = 16;
/// After a slice: so long nothing may come until the guest sleeps, and so long at most it may take what has come.
const REST: Duration = Duration::from_millis(5);
const GIVE_UP: Duration = Duration::from_millis(200);
/// Until caches are warm.
const WARM_UP: Duration = Duration::from_millis(20);

/// See the head of this file.
pub struct GuestRx {
    options: Options,
    seats: Seats,
    parts: Option<Parts>,
}

struct Parts {
    guest: Guest,
    /// What the guest sends, which is nothing: it keeps the time of interrupts.
    back: Mover,
    feed: Feed,
}

/// Where frames come from.
enum Feed {
    Generator { generator: Box<Generator>, offered: Arc<GeneratorCounters>, way: Way },
    Kernel(Box<Kernel>),
}

/// A socket, and the TAP that it sends to.
struct Kernel {
    _host: HostEnd,
    source: TapSource,
    /// Between the TAP and the guest.
    backlog: Backlog,
    socket: UdpSocket,
    into: Arc<dyn port::Sink>,
    datagram: Vec<u8>,
    /// Datagrams of one turn: as many as make a burst of frames.
    turn: usize,
    /// Frames that become of them; 0: one burst is moved in each turn.
    frames: usize,
    flow: u32,
    flows: u32,
    sequence: u32,
    sent: u64,
}

impl GuestRx {
    /// The measuring thread and the guest on the CPUs of the options.
    pub fn new(options: &Options) -> Result<Self> {
        ensure!(
            options.segment.is_none() || options.attach == Attachment::Tap,
            "guest-rx --segment needs --attach tap: only the kernel sends packets that are still to be cut"
        );
        Ok(Self { options: options.clone(), seats: Seats::of(options)?, parts: None })
    }

    fn feed(&self, guest: &Guest) -> Result<Feed> {
        let into = guest.nics()[0].sink();
        let through = match self.options.attach {
            Attachment::Native => Through::Wire,
            Attachment::Switch => Through::Switch,
            Attachment::Tap => {
                return Ok(Feed::Kernel(Box::new(Kernel::new(&self.options, self.share(), into)?)));
            }
        };
        let generator = Box::new(Generator::new(&device::traffic(&self.options))?);
        let offered = generator.counters();
        let way = Way::new(through, into, frame::Mac(device::NEAR_MAC))?;
        Ok(Feed::Generator { generator, offered, way })
    }

    /// Whether packets that were to be cut arrive as one.
    fn joins(&self) -> bool {
        self.options.segment.is_some() && self.options.nic == NicModel::VirtioNet
    }

    /// Frames in which each packet arrives.
    fn share(&self) -> u64 {
        if self.joins() { 1 } else { self.options.frames_a_packet(tag::FLOW) }
    }
}

impl Experiment for GuestRx {
    fn id(&self) -> &'static str {
        "guest-rx"
    }

    fn case(&self) -> String {
        guest_tx::case(&self.options)
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        self.seats.pair()
    }

    fn is_built_each_turn(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        let ground = device::ground(&self.options)?;
        let segment_len = self.options.segment.unwrap_or(0) as u32;
        let traffic = TrafficInfo { segment_len, ..TrafficInfo::default() };
        let duty = Duty { role: Role::Sink, traffic };
        let mut guest = Guest::new(&device::end_plan(&self.options, &self.seats)?, duty, &ground)?;
        let back = Mover::new(&guest.nics()[0], Arc::new(port::Null::default()));
        guest.start()?;
        let feed = self.feed(&guest)?;
        cores::pin(self.seats.host)?;
        let parts = self.parts.insert(Parts { guest, back, feed });
        parts.run(WARM_UP)?;
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let (joins, share) = (self.joins(), self.share());
        let parts = self.parts.as_mut().context("guest-rx was not prepared")?;
        let (before, left) = (parts.ledger(), exits(&parts.guest));
        let (frames, seconds) = parts.run(length)?;
        let (ledger, left) = (parts.ledger().since(&before), exits(&parts.guest) - left);
        if let Some(fault) = parts.guest.fault() {
            bail!("the guest stopped: {fault}");
        }
        let sent = ledger.get("offered.frames").unwrap_or(0);
        let came: u64 = (0..self.seats.vcpus.len())
            .map(|n| ledger.get(&format!("vcpu{n}.nic0.rx_frames")).unwrap_or(0))
            .sum();
        if joins {
            let count = |name| ledger.get(name).unwrap_or(0);
            ensure!(
                2 * count("rx.left_segments") >= count("rx.frames"),
                "the kernel cuts UDP packets itself instead of handing them to a TAP: that takes Linux 6.2, and at most {LARGEST} octets each"
            );
        }
        let packets = frames as f64 / share as f64;
        let mut more = vec![
            ("sender_kpps", sent as f64 / seconds * 1e-3),
            ("packets_kpps", packets / seconds * 1e-3),
            ("mbps", packets * self.options.frame as f64 * 8e-6 / seconds),
        ];
        more.extend(accesses::per_frame(&ledger, frames));
        Ok(Sample {
            value: frames as f64 / seconds * 1e-6,
            packets: frames,
            lost: sent.saturating_sub(came / share),
            exits: Some(left),
            more,
            ledger,
        })
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.guest.stop();
        }
        Ok(())
    }
}

impl Parts {
    /// Sends for about `length`, then lets the guest take the rest; frames that it took in that time, and the seconds.
    fn run(&mut self, length: Duration) -> Result<(u64, f64)> {
        let (came, start) = (self.came(), Instant::now());
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                self.feed.burst()?;
                self.back.pump();
            }
        }
        let (frames, seconds) = (self.came() - came, start.elapsed().as_secs_f64());
        self.settle();
        Ok((frames, seconds))
    }

    /// Lets the guest take what lies in its ring, and fall asleep.
    fn settle(&mut self) {
        let (start, mut quiet) = (Instant::now(), Instant::now());
        while start.elapsed() < GIVE_UP && quiet.elapsed() < REST {
            let moved = self.feed.rest();
            self.back.pump();
            if moved > 0 || self.guest.nics()[0].rx_ledger().frames.get() != self.came() {
                quiet = Instant::now();
            }
        }
    }

    /// Frames that the guest's driver has received.
    fn came(&self) -> u64 {
        let machine = self.guest.machine();
        machine.shared().vcpus.iter().take(machine.vcpus()).map(|vcpu| vcpu.nics[0].rx_frames.get()).sum()
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        match &self.feed {
            Feed::Generator { offered, way, .. } => {
                ledger.take("offered", &**offered);
                way.take(&mut ledger);
            }
            Feed::Kernel(kernel) => {
                let offered = GeneratorCounters::default();
                offered.frames.add(kernel.sent);
                ledger.take("offered", &offered);
                ledger.take("tap.read", &*kernel.source.counters());
            }
        }
        let machine = self.guest.machine();
        ledger.take("rx", &self.guest.nics()[0].rx_ledger());
        for (n, vcpu) in machine.shared().vcpus.iter().take(machine.vcpus()).enumerate() {
            ledger.take(&format!("vcpu{n}"), &vcpu.router);
            ledger.take(&format!("vcpu{n}.nic0"), &vcpu.nics[0]);
            ledger.take(&format!("vcpu{n}.exit"), &*machine.exits()[n]);
        }
        accesses::take(&self.guest, &mut ledger);
        ledger
    }
}

impl Feed {
    /// Sends a burst and moves one.
    fn burst(&mut self) -> Result<()> {
        match self {
            Self::Generator { generator, way, .. } => {
                pump(generator.as_mut(), &*way.entry);
                Ok(())
            }
            Self::Kernel(kernel) => kernel.burst(),
        }
    }

    /// Moves what is still on its way; returns how many frames.
    fn rest(&mut self) -> usize {
        match self {
            Self::Generator { .. } => 0,
            Self::Kernel(kernel) => kernel.forward(),
        }
    }
}

impl Kernel {
    /// `share`: frames in which each packet arrives.
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
                // The TAP's queue is full and says so.
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

    /// Moves what became of a turn, large packets a few at a time.
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
