//! `forward --attach tap`: TAP -> router -> TAP. A separate network namespace, whose kernel forwards from one TAP to the other,
//! closes the loop: frames that the router sends by its second NIC are written to one TAP, and the frames that the kernel forwards
//! are read from the other and delivered to its first NIC. So each lap of a frame costs one read, one write and the kernel's
//! forwarding, on one CPU. The bare loop, measured alternately, does the same system calls without a router.

use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use engine::{Guest, GuestTask};
use frame::offload::VIRTIO;
use port::{Bell, Frame, Sink, Source};
use ring::BURST;
use rustix::io::{Errno, read, write};
use uplink::{Netns, TapSink, TapSource};

use super::Case;
use crate::device::{self, NEAR_MAC, STATION_MAC};
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::generator::{Generator, Settings};
use crate::ledger_snapshot::Snapshot;
use crate::metric::{HasCounters, Reading};
use crate::rig::Mover;
use crate::rig::host_end::{HOST, tap};
use crate::scenario::{for_about, until_quiet};

/// Frames in the loop.
const ROUND: usize = 4 * BURST;
/// Passes between two readings of the clock.
const PASSES: usize = 16;
/// Time without any frame after which missing ones count as lost. A busy host may keep the vCPU, or this thread, waiting for its CPU
/// for seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Names of the TAP that the router's second NIC is written to, and of the one that feeds its first NIC.
const NAMES: [&str; 2] = ["lab-out", "lab-in"];
/// Offsets of TTL and header checksum in an Ethernet frame.
const TTL: usize = 22;
const CHECKSUM: usize = 24;

/// Cases with a router in the loop and with a bare loop (one write, one read), measured alternately. This thread runs on the first
/// CPU of the options, the router on the second.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let case = |device: &str, router: Option<usize>| {
        let (name, options) = (format!("{device}/tap/{}", options.frame), options.clone());
        Experiment::new(("forward", "mpps"), name, move || Loop::open(&options, router)).between(cpus)
    };
    Ok(vec![Case::Alternating(case(&options.device(), Some(cpus.1)), case("bare-loop", None))])
}

struct Loop {
    taps: Taps,
    generator: Generator,
    router: Option<Wired>,
}

struct Taps {
    /// TAP that is written to.
    out: (TapSource, Arc<TapSink>),
    /// TAP that is read from.
    back: (TapSource, Arc<TapSink>),
    _netns: Netns,
}

struct Wired {
    router: Guest,
    into: Arc<dyn Sink>,
    out_of: Mover,
}

impl Wired {
    fn start(options: &Options, cpu: usize, out: &Arc<TapSink>) -> Result<Self> {
        let plan = device::plan(options, &[cpu])?;
        let mut router = Guest::new(&plan, GuestTask::default(), &device::backend(options)?)?;
        router.start()?;
        let (into, out_of) = (router.nics()[0].sink(), Mover::new(&router.nics()[1], out.clone()));
        Ok(Self { router, into, out_of })
    }
}

impl Rig for Loop {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        if self.router.is_some() { self.routed(length) } else { self.bare(length) }
    }
}

impl HasCounters for Loop {
    fn guests(&self) -> &[Guest] {
        self.router.as_ref().map_or(&[], |wired| slice::from_ref(&wired.router))
    }

    fn count(&self, ledger: &mut Snapshot) {
        ledger.take("out.written", &*self.taps.out.1.counters());
        ledger.take("back.read", &*self.taps.back.0.counters());
        if let Some(Wired { router, .. }) = &self.router {
            router.each_group(&mut |prefix, group| ledger.take(prefix, group));
        }
    }
}

impl Taps {
    fn open() -> Result<Self> {
        let netns = Netns::new()?;
        let links = netns.settle(true)?;
        for devices in ["all", "default"] {
            netns.set_sysctl(&format!("net.ipv4.conf.{devices}.rp_filter"), "0")?;
        }
        let [out_name, back_name] = NAMES;
        let out = tap(&netns, out_name, (STATION_MAC, device::STATION, 24), None)?;
        let (router, host) = (device::NEAR, ([2, 0, 0, 0, 1, 9], HOST, 24));
        let back = tap(&netns, back_name, host, Some((router, NEAR_MAC)))?;
        links.add_route([198, 18, 1, 0].into(), 24, router)?;
        links.add_route([0, 0, 0, 0].into(), 0, router)?;
        Ok(Self { out, back, _netns: netns })
    }
}

impl Loop {
    fn open(options: &Options, router: Option<usize>) -> Result<Self> {
        let taps = Taps::open().context("the two TAPs")?;
        // The frames enter the kernel through the TAP, so they are addressed to it.
        let destination_mac = frame::Mac(STATION_MAC);
        let traffic = Settings { destination_mac, rate: None, ..device::traffic(options) };
        let generator = Generator::new(&traffic)?;
        let router = router.map(|cpu| Wired::start(options, cpu, &taps.out.1)).transpose()?;
        Ok(Self { taps, generator, router })
    }

    /// Measures frames that go round through the router.
    fn routed(&mut self, length: Duration) -> Result<Sample> {
        let before = Reading::of(self);
        self.supply();
        let mut laps = 0;
        let seconds = for_about(length, PASSES, || laps += self.lap());
        let lost = (ROUND - self.settle(ROUND)) as u64;
        let (ledger, exits) = before.since(self)?;
        Ok(Sample { lost, exits: Some(exits), ledger, ..Sample::mpps(laps as u64, seconds) })
    }

    /// Measures alternating writes and reads. Each frame is preceded by a virtio-net header without pending offloads.
    fn bare(&mut self, length: Duration) -> Result<Sample> {
        let mut octets = Vec::new();
        self.generator.drain(1, &mut |frames| {
            for frame in frames {
                octets.resize(VIRTIO + frame.len(), 0);
                frame.octets().copy_to_slice(&mut octets[VIRTIO..]);
            }
        });
        let (out, back) = (descriptor(&self.taps.out.0)?, descriptor(&self.taps.back.0)?);
        let mut buffer = [0; VIRTIO + uplink::tap::LARGEST_FRAME];
        let (start, mut came, mut sent) = (Instant::now(), 0, 0);
        while start.elapsed() < length {
            for _ in 0..PASSES * BURST {
                write(out, &octets).context("cannot write to a TAP")?;
                sent += 1;
                match read(back, &mut buffer) {
                    Ok(_) => came += 1,
                    Err(Errno::AGAIN) => {}
                    Err(error) => return Err(error).context("cannot read from a TAP"),
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let missing = sent - came;
        let lost = (missing - self.settle(missing)) as u64;
        Ok(Sample { lost, ..Sample::mpps(came as u64, seconds) })
    }

    /// Puts the frames into the loop.
    fn supply(&mut self) {
        let out = &self.taps.out.1;
        let mut sent = 0;
        while sent < ROUND {
            sent += self.generator.drain(ROUND - sent, &mut |frames| {
                out.deliver(frames);
            });
        }
    }

    /// Moves one burst into the router and one out of it; returns the frames read.
    fn lap(&mut self) -> usize {
        let Some(wired) = &mut self.router else { return 0 };
        let budget = wired.into.room().min(BURST);
        let came = self.taps.back.0.drain(budget, &mut |frames| {
            frames.iter().for_each(rejuvenate);
            wired.into.deliver(frames);
        });
        wired.out_of.pump();
        came
    }

    /// Ends the round: takes up to `expected` frames off the loop, and returns how many there were.
    fn settle(&mut self, expected: usize) -> usize {
        let mut came = 0;
        until_quiet(PATIENCE, Duration::MAX, || {
            if came >= expected {
                return None;
            }
            let sent = self.router.as_mut().map_or(0, |wired| wired.out_of.pump());
            let read = self.taps.back.0.drain((expected - came).min(BURST), &mut |_| {});
            came += read;
            Some(sent + read > 0)
        });
        came
    }
}

/// Restores the TTL of a frame to the generator's value, as router and kernel have each decremented it, and updates the checksum (RFC
/// 1624, equation 3).
fn rejuvenate(frame: &Frame<'_>) {
    let octets = frame.octets();
    let (Some([ttl]), Some(old)) = (octets.read::<1>(TTL), octets.read::<2>(CHECKSUM)) else { return };
    let lost = u32::from(64u8.saturating_sub(ttl)) << 8;
    let sum = u32::from(!u16::from_be_bytes(old)) + lost;
    let folded = (sum & 0xffff) + (sum >> 16);
    octets.write(CHECKSUM, (!(folded as u16)).to_be_bytes());
    octets.write(TTL, [64]);
}

fn descriptor(source: &TapSource) -> Result<BorrowedFd<'_>> {
    match source.bell() {
        Bell::Readable(fd) => Ok(fd),
        _ => bail!("a TAP was deleted"),
    }
}
