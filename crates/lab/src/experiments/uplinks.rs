//! `uplink`: what comes by one interface of the host leaves by another, in one thread and without a router. By AF_XDP on
//! veth pairs, and in turn with it by TAPs. A thread on the other CPU floods the first interface from another namespace, by
//! a socket of AF_XDP in both cases; behind the second one the kernel drops frames that are not for it.
//!
//! ```text
//!   far namespace                 near namespace
//!   flood (CPU 1) --> interface --> source -> sink (CPU 0) --> interface --> far namespace: dropped
//! ```

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use engine::pin_current;
use port::pump;
use port::{Sink, Source};
use uplink::xdp::{XdpHealth, XdpPorts};
use uplink::{Netns, Tap, TapConfig, Xdp, XdpConfig};

use crate::experiment::{Experiment, Options, Sample};
use crate::generator::{Generator, Settings};
use crate::ledger_snapshot::Snapshot;

/// Bursts between two looks at the clock.
const BURSTS: usize = 64;
/// Frames that may wait in an interface.
const QUEUE: u32 = 2048;
/// The interfaces: frames come by the first and leave by the second.
const NAMES: [&str; 2] = ["lab-in", "lab-out"];

/// What the interfaces are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uplink {
    /// Veth pairs, by AF_XDP.
    Xdp,
    /// TAPs.
    Tap,
}

/// See the head of this file.
pub struct Uplinks {
    options: Options,
    uplink: Uplink,
    cpus: (usize, usize),
    parts: Option<Parts>,
}

struct Parts {
    source: Box<dyn Source>,
    sink: Arc<dyn Sink>,
    ledger: Box<dyn Fn(&mut Snapshot)>,
    flood: Arc<dyn Sink>,
    traffic: Settings,
    /// What keeps the interfaces.
    _held: Vec<Xdp>,
    _namespaces: [Netns; 2],
}

impl Uplinks {
    /// The thread that moves frames on the first CPU of the options, the flood on the second.
    ///
    /// # Errors
    /// There are not two CPUs.
    pub fn new(uplink: Uplink, options: &Options) -> Result<Self> {
        let cpus = (options.cpu(0)?, options.cpu(1)?);
        Ok(Self { options: options.clone(), uplink, cpus, parts: None })
    }
}

impl Experiment for Uplinks {
    fn id(&self) -> &'static str {
        "uplink"
    }

    fn case(&self) -> String {
        let kind = match self.uplink {
            Uplink::Xdp => "xdp",
            Uplink::Tap => "tap",
        };
        format!("{kind}/{}", self.options.frame)
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn prepare(&mut self) -> Result<()> {
        let (frame, flows, rate) = (self.options.frame, self.options.flows, self.options.rate);
        let traffic = Settings { frame, flows, rate, ..Settings::default() };
        let namespaces = [Netns::new()?, Netns::new()?];
        namespaces.iter().try_for_each(|netns| netns.settle(false).map(drop))?;
        self.parts = Some(parts(self.uplink, namespaces, traffic)?);
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let parts = self.parts.as_mut().context("uplink was not prepared")?;
        let flood = Flood::start(&parts.flood, &parts.traffic, self.cpus.1)?;
        let before = parts.ledger();
        let (start, cpu, mut moved) = (Instant::now(), cpu_ns(), 0);
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                moved += pump(parts.source.as_mut(), &*parts.sink);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let cpu = cpu_ns().saturating_sub(cpu) as f64;
        let offered = flood.stop();
        while pump(parts.source.as_mut(), &*parts.sink) > 0 {}
        Ok(Sample {
            value: moved as f64 / seconds * 1e-6,
            packets: moved as u64,
            more: vec![
                ("offered_mpps", offered as f64 / seconds * 1e-6),
                ("cpu_ns_per_packet", if moved > 0 { cpu / moved as f64 } else { f64::NAN }),
            ],
            ledger: parts.ledger().since(&before),
            ..Sample::default()
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.parts = None;
        Ok(())
    }
}

impl Parts {
    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        (self.ledger)(&mut ledger);
        ledger
    }
}

fn xdp_config(netns: &Netns) -> XdpConfig<'_> {
    XdpConfig { queue_len: QUEUE, netns: Some(netns), ..XdpConfig::default() }
}

/// What the frames pass, and what is kept and counted for that.
struct Ends {
    source: Box<dyn Source>,
    sink: Arc<dyn Sink>,
    ledger: Box<dyn Fn(&mut Snapshot)>,
    held: Vec<Xdp>,
}

/// Both interfaces, of one kind, and the flood before the first.
fn parts(uplink: Uplink, namespaces: [Netns; 2], traffic: Settings) -> Result<Parts> {
    let [far, near] = &namespaces;
    let Ends { source, sink, ledger, mut held } = match uplink {
        Uplink::Xdp => xdp_ends(far, near)?,
        Uplink::Tap => tap_ends(far)?,
    };
    let far_end = Xdp::open(NAMES[0], &xdp_config(far))?;
    let flood = far_end.ports(1)?.sinks.into_iter().next().context("an interface without a queue")?;
    held.push(far_end);
    Ok(Parts { source, sink, ledger, flood, traffic, _held: held, _namespaces: namespaces })
}

fn xdp_ends(far: &Netns, near: &Netns) -> Result<Ends> {
    for name in NAMES {
        veth(far, near, name)?;
    }
    let [first, second] = NAMES.map(|name| Xdp::open(name, &xdp_config(near)));
    let (first, second) = (first?, second?);
    let (XdpPorts { mut sources, health, .. }, XdpPorts { mut sinks, .. }) =
        (first.ports(1)?, second.ports(1)?);
    ensure!(!sources.is_empty() && !sinks.is_empty(), "an interface without a queue");
    let (source, sink) = (sources.remove(0), sinks.remove(0));
    let (read, written) = (source.counters(), sink.counters());
    let ledger = Box::new(move |ledger: &mut Snapshot| {
        XdpHealth::look(&health);
        ledger.take("in.read", &*read);
        ledger.take("in.kernel", &*health.counters());
        ledger.take("out.written", &*written);
    });
    Ok(Ends { source: Box::new(source), sink, ledger, held: vec![first, second] })
}

/// The reader of a TAP takes what the namespace sends out of it, so both lie on the far side.
fn tap_ends(far: &Netns) -> Result<Ends> {
    let config = TapConfig { queue_len: QUEUE, netns: Some(far), ..TapConfig::default() };
    let [first, second] = NAMES.map(|name| Tap::open(name, &config));
    let ((source, _), (_, sink)) = (first?.split(), second?.split());
    let (read, written) = (source.counters(), sink.counters());
    let ledger = Box::new(move |ledger: &mut Snapshot| {
        ledger.take("in.read", &*read);
        ledger.take("out.written", &*written);
    });
    Ok(Ends { source: Box::new(source), sink, ledger, held: Vec::new() })
}

/// A veth pair between both namespaces, of the same name in each.
fn veth(far: &Netns, near: &Netns, name: &str) -> Result<()> {
    use std::os::fd::{AsFd, AsRawFd};
    let there = format!("/proc/{}/fd/{}", std::process::id(), near.as_fd().as_raw_fd());
    let mut ip = far.command("ip");
    ip.args(["link", "add", name, "type", "veth", "peer", "name", name, "netns", &there]);
    let done = ip.stdin(Stdio::null()).output().context("iproute2 is needed to make a veth")?;
    ensure!(done.status.success(), "cannot make a veth: {}", String::from_utf8_lossy(&done.stderr).trim());
    for netns in [far, near] {
        netns.links()?.set_up(name, true)?;
    }
    Ok(())
}

/// What this thread has had of CPUs, in nanoseconds.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A thread that sends as fast as its interface takes frames.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Flood {
    fn start(interface: &Arc<dyn Sink>, traffic: &Settings, cpu: usize) -> Result<Self> {
        let interface = interface.clone();
        let mut generator = Generator::new(traffic)?;
        let stop = Arc::<AtomicBool>::default();
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut sent = 0;
            // Anywhere, if it may not be there: the placement is told with the result.
            let _ = pin_current(&[cpu]);
            while !seen.load(Ordering::Relaxed) {
                sent += pump(&mut generator, &*interface);
            }
            sent
        });
        Ok(Self { stop, thread })
    }

    /// Ends it; returns frames sent.
    fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or(0)
    }
}
