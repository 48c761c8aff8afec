//! `scan`: frames to thousands of hosts on a link of a router, while somebody scans the /16 beside them, native. The figure is the
//! share of the hosts' frames that is forwarded; `first_addressed` is that of a host to which the first of five frames is sent
//! during the scan.
//!
//! One thread plays the generators, the hosts, which answer ARP, and the device side of the router's rings; the router's vCPU has
//! a CPU of its own. The hosts are made known before by asking for the router themselves.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use config::Address;
use engine::{Guest, GuestTask};
use frame::{Mac, arp, ethernet};
use host::cores;
use port::{Frame, Sink, pump};
use ring::{BURST, Bytes};

use super::Case;
use crate::device::{self, CpuAssignment, FAR_MAC};
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::generator::{Generator, Settings, first_frames};
use crate::rig::Mover;
use crate::scenario::until_quiet;

/// Network of the hosts and of the scanned addresses, 10.64.0.0/15, the router's address in it, and the first host's.
const NETWORK: u32 = 0x0a40_0000;
const OWN: u32 = NETWORK + 1;
const FIRST: u32 = NETWORK + 256;
/// The scanned /16 beside the hosts: 10.65.0.0.
const SCANNED: u32 = NETWORK + (1 << 16);
/// Frames a second to the hosts, and of the scan.
const RATE: f64 = 100_000.0;
const SCAN_RATE: f64 = 8_000.0;
/// Sources behind the first NIC: of the hosts' frames, of the scan, and of frames to hosts that are first addressed.
const SOURCES: [u32; 3] = [0xc612_0002, 0xc612_0003, 0xc612_0004];
/// Frames to a host that is first addressed.
const FIRST_FRAMES: u32 = 5;
/// Quiet time after which all frames have arrived, and the longest wait for that.
const QUIET: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(5);
/// Hosts and sizes of the neighbour table: as many as fit into a table that was made for them, and into the usual one.
const CASES: [(u32, u32); 2] = [(20_000, 32_768), (3_000, 4_096)];

/// Returns a case for each size of the neighbour table.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let seats = CpuAssignment::of(options)?;
    let case = |(hosts, neighbours): (u32, u32)| {
        let name = format!("{}/{}/hosts={hosts}/neighbours={neighbours}", options.device(), options.frame);
        let (options, seats) = (options.clone(), seats.clone());
        let pair = seats.pair();
        let build = move || Scan::start(&options, &seats, (hosts, neighbours));
        Case::from(Experiment::new(("scan", "share"), name, build).between(pair))
    };
    Ok(CASES.map(case).into())
}

/// The stations behind a NIC of the router: they answer ARP for their addresses, and count the frames that they get.
struct Stations {
    /// Their addresses: from the first one on, so many.
    range: (u32, u32),
    /// Frames to those of them that are known before a slice, and to the other ones.
    known: u32,
    came: [AtomicU64; 2],
    /// ARP replies of the router.
    replies: AtomicU64,
    /// Their answers, which are still to be sent.
    answers: Mutex<Vec<Vec<u8>>>,
}

impl Stations {
    fn new(range: (u32, u32), known: u32) -> Arc<Self> {
        let (came, replies) = ([const { AtomicU64::new(0) }; 2], AtomicU64::new(0));
        Arc::new(Self { range, known, came, replies, answers: Mutex::default() })
    }

    /// Returns the number of a station.
    fn number(&self, ip: u32) -> Option<u32> {
        ip.checked_sub(self.range.0).filter(|number| *number < self.range.1)
    }

    fn take(&self, head: &[u8; HEAD]) {
        match u16::from_be_bytes([head[12], head[13]]) {
            ethernet::IPV4 => {
                let to = u32::from_be_bytes([head[30], head[31], head[32], head[33]]);
                if let Some(number) = self.number(to) {
                    self.came[usize::from(number >= self.known)].fetch_add(1, Relaxed);
                }
            }
            ethernet::ARP => self.hear(&head[ethernet::HEADER..]),
            _ => {}
        }
    }

    fn hear(&self, octets: &[u8]) {
        let Ok(heard) = arp::Packet::parse(octets) else { return };
        if heard.operation == arp::Operation::Reply {
            self.replies.fetch_add(1, Relaxed);
        }
        if heard.operation == arp::Operation::Request && self.number(heard.target_ip).is_some() {
            let answer = arp::Packet {
                operation: arp::Operation::Reply,
                sender_mac: station_mac(heard.target_ip),
                sender_ip: heard.target_ip,
                target_mac: heard.sender_mac,
                target_ip: heard.sender_ip,
            };
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.extend(arp_frame(heard.sender_mac, &answer));
        }
    }

    /// Sends answers into the router's NIC, as many as it takes.
    fn answer(&self, into: &dyn Sink) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = send(&mut answers, into);
        answers.drain(..sent);
    }
}

/// Octets of a frame that the stations look at.
const HEAD: usize = ethernet::HEADER + arp::LEN;

impl Sink for Stations {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        for frame in frames {
            if let Some(head) = frame.octets().read(0) {
                self.take(&head);
            }
        }
        frames.len()
    }
}

/// Sends a burst of frames; returns how many were taken.
fn send(frames: &mut [Vec<u8>], into: &dyn Sink) -> usize {
    let shown: Vec<Frame<'_>> =
        frames.iter_mut().take(BURST).map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    if shown.is_empty() { 0 } else { into.deliver(&shown) }
}

fn station_mac(ip: u32) -> Mac {
    let [a, b, c, d] = ip.to_be_bytes();
    Mac([2, 1, a, b, c, d])
}

fn arp_frame(to: Mac, packet: &arp::Packet) -> Option<Vec<u8>> {
    let mut frame = vec![0; ethernet::SHORTEST];
    let header = ethernet::Header { destination: to, source: packet.sender_mac, ethertype: ethernet::ARP };
    header.write(&mut frame).ok()?;
    packet.write(&mut frame[ethernet::HEADER..]).ok()?;
    Some(frame)
}

struct Scan {
    /// Runs as long as the rig.
    _router: Guest,
    hosts: u32,
    steady: Generator,
    scan: Generator,
    near: Arc<Stations>,
    far: Arc<Stations>,
    into_near: Arc<dyn Sink>,
    into_far: Arc<dyn Sink>,
    out_of_near: Mover,
    out_of_far: Mover,
    /// Number of the next host that is first addressed.
    next: u32,
    frame: usize,
}

impl Scan {
    fn start(options: &Options, seats: &CpuAssignment, (hosts, neighbours): (u32, u32)) -> Result<Self> {
        cores::pin(seats.host)?;
        let mut plan = device::plan(options, &seats.vcpus)?;
        plan.nics[1].addresses = vec![Address { ip: OWN.into(), len: 15 }];
        plan.routes.clear();
        plan.neighbours.clear();
        plan.forwarding.neighbours = neighbours;
        let mut router =
            device::router(&plan, &Options { routes: 2, ..options.clone() }, GuestTask::default())?;
        router.start()?;
        let traffic = |source, rate, destinations| Settings {
            source,
            destinations,
            flows: 1,
            frame: options.frame,
            rate: Some(rate),
            seed: 1,
            ..Settings::default()
        };
        let steady = Generator::new(&traffic(SOURCES[0], RATE, (FIRST..FIRST + hosts).collect()))?;
        let scanned = (SCANNED..SCANNED + 0xffff).collect();
        let scan = Generator::new(&traffic(SOURCES[1], SCAN_RATE, scanned))?;
        let near = Stations::new((SOURCES[0], SOURCES.len() as u32), SOURCES.len() as u32);
        let far = Stations::new((FIRST, SCANNED - FIRST), hosts);
        let (near_nic, far_nic) = (&router.nics()[0], &router.nics()[1]);
        let (into_near, into_far) = (near_nic.sink(), far_nic.sink());
        let (out_of_near, out_of_far) =
            (Mover::new(near_nic, near.clone()), Mover::new(far_nic, far.clone()));
        let mut rig = Self {
            hosts,
            steady,
            scan,
            near,
            far,
            into_near,
            into_far,
            out_of_near,
            out_of_far,
            next: hosts,
            frame: options.frame,
            _router: router,
        };
        rig.greet()?;
        Ok(rig)
    }

    /// Makes all hosts known: each asks for the router.
    fn greet(&mut self) -> Result<()> {
        let ask = |number: u32| {
            let sender_ip = FIRST + number;
            let request = arp::Packet {
                operation: arp::Operation::Request,
                sender_mac: station_mac(sender_ip),
                sender_ip,
                target_mac: Mac::default(),
                target_ip: OWN,
            };
            arp_frame(Mac(FAR_MAC), &request)
        };
        let mut waiting: Vec<Vec<u8>> = (0..self.hosts).rev().filter_map(ask).collect();
        let end = Instant::now() + LIMIT;
        while !waiting.is_empty() && Instant::now() < end {
            let from = waiting.len().saturating_sub(BURST);
            let sent = send(&mut waiting[from..], self.into_far.as_ref());
            waiting.drain(from..from + sent);
            self.move_frames();
        }
        self.settle();
        let replies = self.far.replies.load(Relaxed);
        ensure!(replies >= self.hosts.into(), "the router has answered {replies} of {} hosts", self.hosts);
        Ok(())
    }

    /// Moves what the router sends, and the answers to it; returns true if there was anything.
    fn move_frames(&mut self) -> bool {
        let moved = self.out_of_far.pump() + self.out_of_near.pump();
        self.far.answer(self.into_far.as_ref());
        self.near.answer(self.into_near.as_ref());
        moved > 0
    }

    fn settle(&mut self) {
        until_quiet(QUIET, LIMIT, || Some(self.move_frames()));
    }

    /// Sends a frame to a host that is not known yet.
    fn address(&self, number: u32) -> Result<()> {
        let settings = Settings {
            source: SOURCES[2],
            destinations: vec![FIRST + number],
            flows: 1,
            frame: self.frame,
            ..Settings::default()
        };
        let mut frames = first_frames(&settings, 1)?;
        ensure!(send(&mut frames, self.into_near.as_ref()) == 1, "the router has no room for a frame");
        Ok(())
    }

    fn came(&self) -> [u64; 2] {
        self.far.came.each_ref().map(|count| count.load(Relaxed))
    }
}

impl Rig for Scan {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let (offered, before) = (self.steady.counters(), self.came());
        let (sent, scanned) = (offered.frames.get(), self.scan.counters().frames.get());
        let new = self.next;
        ensure!(FIRST + new < SCANNED, "all hosts are known by now");
        self.next += 1;
        let (start, mut addressed) = (Instant::now(), 0);
        while start.elapsed() < length {
            pump(&mut self.steady, self.into_near.as_ref());
            pump(&mut self.scan, self.into_near.as_ref());
            // Evenly over the slice.
            if addressed < FIRST_FRAMES && start.elapsed() * FIRST_FRAMES >= length * addressed {
                self.address(new)?;
                addressed += 1;
            }
            self.move_frames();
        }
        self.settle();
        let [known, first] = self.came();
        let sent = offered.frames.get() - sent;
        let share = |came: u64, sent: u64| came as f64 / sent.max(1) as f64;
        Ok(Sample {
            value: share(known - before[0], sent),
            packets: known - before[0],
            lost: sent.saturating_sub(known - before[0]),
            more: [
                ("first_addressed", share(first - before[1], addressed.into())),
                ("scanned", (self.scan.counters().frames.get() - scanned) as f64),
            ]
            .into(),
            ..Sample::default()
        })
    }
}
