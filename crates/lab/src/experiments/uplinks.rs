//! `uplink`: frames received on one interface of the host leave by another, in one thread and without a router: through AF_XDP on
//! veth pairs, and, alternately, through TAPs. A thread on the other CPU floods the first interface from another namespace, through
//! an AF_XDP socket in both cases; behind the second one the kernel drops frames that are not addressed to it.
//!
//! ```text
//!   far namespace                 near namespace
//!   flood (CPU 1) --> interface --> source -> sink (CPU 0) --> interface --> far namespace: dropped
//! ```

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use engine::pin_current;
use port::pump;
use port::{Sink, Source};
use uplink::xdp::{XdpHealth, XdpPorts};
use uplink::{Netns, Tap, TapConfig, Xdp, XdpConfig};

use super::Case;
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::generator::{Generator, Settings};
use crate::ledger_snapshot::Snapshot;
use crate::metric::cpu_time;
use crate::rig::Worker;
use crate::rig::host_end::veth;
use crate::scenario::for_about;

/// Bursts between two readings of the clock.
const BURSTS: usize = 64;
/// Queue length of an interface, in frames.
const QUEUE: u32 = 2048;
/// Names of the interfaces: frames arrive on the first and leave by the second.
const NAMES: [&str; 2] = ["lab-in", "lab-out"];

/// Cases with veth pairs through AF_XDP and with TAPs, measured alternately. The moving thread runs on the first CPU of the
/// options, the flood on the second.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let (frame, flows, rate) = (options.frame, options.flows, options.rate);
    let case = |kind: &str, open: fn(&Netns, &Netns) -> Result<Ends>| {
        let traffic = Settings { frame, flows, rate, ..Settings::default() };
        let build = move || Interfaces::open(open, traffic.clone(), cpus.1);
        Experiment::new(("uplink", "mpps"), format!("{kind}/{frame}"), build).between(cpus)
    };
    Ok(vec![Case::Alternating(case("xdp", xdp_ends), case("tap", tap_ends))])
}

struct Interfaces {
    flood: Arc<dyn Sink>,
    ends: Ends,
    flooding_cpu: usize,
    traffic: Settings,
    _namespaces: [Netns; 2],
}

/// Source and sink of the path, with the objects kept alive for it and its counters.
struct Ends {
    source: Box<dyn Source>,
    sink: Arc<dyn Sink>,
    ledger: Box<dyn Fn(&mut Snapshot)>,
    held: Vec<Xdp>,
}

impl Interfaces {
    /// Opens both interfaces, of one kind, and the flood towards the first.
    fn open(
        open: fn(&Netns, &Netns) -> Result<Ends>,
        traffic: Settings,
        flooding_cpu: usize,
    ) -> Result<Self> {
        let namespaces = [Netns::new()?, Netns::new()?];
        namespaces.iter().try_for_each(|netns| netns.settle(false).map(drop))?;
        let [far, near] = &namespaces;
        let mut ends = open(far, near)?;
        let far_end = Xdp::open(NAMES[0], &xdp_config(far))?;
        let flood = far_end.ports(1)?.sinks.into_iter().next().context("an interface without a queue")?;
        ends.held.push(far_end);
        Ok(Self { ends, flood, flooding_cpu, traffic, _namespaces: namespaces })
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        (self.ends.ledger)(&mut ledger);
        ledger
    }
}

impl Rig for Interfaces {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let flood = flood(&self.flood, &self.traffic, self.flooding_cpu)?;
        let before = self.ledger();
        let (cpu, mut moved) = (cpu_time(), 0);
        let Ends { source, sink, .. } = &mut self.ends;
        let seconds = for_about(length, BURSTS, || moved += pump(source.as_mut(), &**sink));
        let cpu = cpu_time().saturating_sub(cpu).as_nanos() as f64;
        let offered = flood.end()?;
        while pump(source.as_mut(), &**sink) > 0 {}
        let each = if moved > 0 { cpu / moved as f64 } else { f64::NAN };
        let more = [("offered_mpps", offered as f64 / seconds * 1e-6), ("cpu_ns_per_packet", each)];
        let ledger = self.ledger().since(&before);
        // Frames that the second interface did not take have left the first one all the same.
        let lost = ledger.iter().filter(|(name, _)| name.starts_with("out.written.drop_"));
        let lost = lost.map(|(_, frames)| frames).sum();
        Ok(Sample { lost, more: more.into(), ledger, ..Sample::mpps(moved as u64, seconds) })
    }
}

fn xdp_config(netns: &Netns) -> XdpConfig<'_> {
    XdpConfig { queue_len: QUEUE, netns: Some(netns), ..XdpConfig::default() }
}

fn xdp_ends(far: &Netns, near: &Netns) -> Result<Ends> {
    for name in NAMES {
        // The ends of a pair have the same name in each namespace.
        veth((far, name), (near, name))?;
        [far, near].into_iter().try_for_each(|netns| netns.links()?.set_up(name, true))?;
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

/// Opens TAPs in the far namespace: a TAP's reader receives what its namespace sends.
fn tap_ends(far: &Netns, _: &Netns) -> Result<Ends> {
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

/// Starts a thread that sends as fast as its interface accepts frames; it returns how many it has sent.
fn flood(interface: &Arc<dyn Sink>, traffic: &Settings, cpu: usize) -> Result<Worker<usize>> {
    let interface = interface.clone();
    let mut generator = Generator::new(traffic)?;
    Worker::start("lab/flood", move |stop| {
        let mut sent = 0;
        // If the CPU is not allowed, run anywhere: the placement is reported with the result.
        let _ = pin_current(&[cpu]);
        while !stop.is_set() {
            sent += pump(&mut generator, &*interface);
        }
        Ok(sent)
    })
}
