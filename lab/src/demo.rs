//! `ringroad demo`: two networks with the kernel's own stacks, a router VM between them, and a flood.
//!
//! Namespaces, TAPs and sockets belong to this process: nothing remains when it ends, however it ends.

mod stacks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use attach::Attachment;
use clap::Args;
use command_line::print;
use config::{Itr, NicModel, Plan, TransmitMode};
use engine::{Confinement, Idle, Instance, IoThread, Plugs, Pump};
use host::cores;
use lab::generator::{Generator, Settings};
use lab::sink::{Expected, Sink};
use supervisor::table::{Interval, MemberStates, Screen};
use supervisor::{RunLock, StopRequest};
use uplink::{Netns, Tap, TapConfig};

use stacks::{Host, LEFT, RIGHT};

/// Configuration file of the demo's router.
const FILE: &str = include_str!("demo/demo.toml");
/// Duration of the flood.
const FLOOD: Duration = Duration::from_secs(6);
/// Duration of the TCP transfer.
const TRANSFER: Duration = Duration::from_secs(3);

/// The options of `ringroad demo`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Model of the router's NICs.
    #[arg(long, value_parser = config::nic_model, value_name = "MODEL")]
    nic: Option<NicModel>,
    /// Transmit mode of an e1000: base, async, send-combining, csb (the default) or coalesced.
    #[arg(long, value_parser = config::transmit_mode)]
    mode: Option<TransmitMode>,
    /// Minimum interval between two interrupts of a NIC, in units of 250 ns, or `adaptive`.
    #[arg(long)]
    itr: Option<Itr>,
}

impl Options {
    /// Builds the router's file, with the requested settings in each NIC.
    fn file(&self) -> Result<String> {
        if self.nic == Some(NicModel::VirtioNet) && self.mode.is_some() {
            bail!("--mode: only an e1000 has it; remove it, or write --nic e1000");
        }
        let mut keys = String::new();
        let model = self.nic.or(self.mode.map(|_| NicModel::E1000));
        let lines = [
            model.map(|model| format!("model = {:?}\n", model.name())),
            self.mode.map(|mode| format!("mode = {:?}\n", mode.name())),
            self.itr.map(|itr| match itr {
                Itr::Every(units) => format!("itr = {units}\n"),
                Itr::Adaptive => "itr = \"adaptive\"\n".to_owned(),
            }),
        ];
        lines.into_iter().flatten().for_each(|line| keys += &line);
        Ok(FILE.replace("attach = \"null\"\n", &format!("attach = \"null\"\n{keys}")))
    }
}

/// Runs the demo.
pub(crate) fn demo(options: &Options) -> Result<()> {
    host::need(host::net_admin())?;
    host::need(host::tun_device())?;
    vmm::open_kvm()?;
    let file = options.file()?;
    let mut plan = config::parse(&file, "demo.toml")?;
    spread(&mut plan);
    let _lock = RunLock::take(plan.routers.iter().map(|router| router.name.as_str()))?;
    let stop = StopRequest::listen()?;
    let start = Instant::now();
    let (left, right) = (Host::new(&LEFT)?, Host::new(&RIGHT)?);
    let plugs = Plugs::from([left.plug()?, right.plug()?, later("demo.in"), later("demo.out")]);
    let instance = Instance::start(&plan, plugs)?;
    print(&format!("A router VM stands between two networks, {:.1} ms after the start.\n\n", ms(start)))?;
    print(
        &file
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| format!("    {line}\n"))
            .collect::<String>(),
    )?;
    let tour = Tour { plan: &plan, instance: &instance, stop: &stop, left: &left, right: &right };
    tour.kernel_stacks()?;
    let flood = tour.flood()?;
    tour.summary(&flood)
}

fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn later(nic: &str) -> (String, Arc<dyn Attachment>) {
    (nic.to_owned(), attach::later())
}

/// Pins the vCPU to the last CPU and the I/O threads to the first one, if there are two.
fn spread(plan: &mut Plan) {
    let cpus = cores::allowed().unwrap_or_default();
    if let [first, .., last] = cpus[..] {
        for router in &mut plan.routers {
            router.pin.vcpu = last.to_string().parse().ok();
            router.pin.vhost = first.to_string().parse().ok();
        }
    }
}

/// Results of the flood.
struct Flood {
    offered: u64,
    arrived: u64,
    lost: u64,
    bad: u64,
    seconds: f64,
}

struct Tour<'a> {
    plan: &'a Plan,
    instance: &'a Instance,
    stop: &'a StopRequest,
    left: &'a Host,
    right: &'a Host,
}

impl Tour<'_> {
    /// Shows ping, an expired TTL and TCP, between the kernel's own stacks on both sides.
    fn kernel_stacks(&self) -> Result<()> {
        print(&format!("\nThe kernel's stacks on both sides, {} and {}:\n", LEFT.ip, RIGHT.ip))?;
        for n in 1..=4 {
            let time = self.left.ping(RIGHT.ip, n).with_context(|| format!("no answer from {}", RIGHT.ip))?;
            print(&format!("  ping {n}: {} answers in {:.0} µs\n", RIGHT.ip, time.as_secs_f64() * 1e6))?;
            self.check()?;
        }
        let hop = self.left.expired_at(RIGHT.ip)?;
        print(&format!("  a packet with TTL 1 dies at {hop}, which says so\n"))?;
        let (octets, seconds) = stacks::tcp(self.left, self.right, TRANSFER, &self.stop.flag())?;
        let rate = octets as f64 * 8e-6 / seconds;
        print(&format!(
            "  TCP: {:.1} MB in {seconds:.1} s, {rate:.0} Mbit/s, every octet checked\n",
            octets as f64 * 1e-6
        ))?;
        self.check()
    }

    /// Runs the built-in generator against the router's other two NICs.
    fn flood(&self) -> Result<Flood> {
        let settings = Settings { frame: 60, destination_mac: mac("in", self.instance)?, ..flood_settings() };
        let generator = Generator::new(&settings)?;
        let offered = generator.counters();
        let sink = || {
            Arc::new(Sink::new(Expected {
                flows: settings.flow_count(),
                frame: settings.frame,
                six: settings.is_six(),
                ttl: 63,
                destination_mac: None,
            }))
        };
        print(&format!("\nA flood of {}-octet frames that does not touch the kernel:\n\n", settings.frame))?;
        let router = &self.instance.routers().next().context("the router has failed")?.router;
        let (near, far) = (&router.nics()[2], &router.nics()[3]);
        // Discard the router's announcements, which are not part of the flood.
        while far.source().drain(64, &mut |_| {}) > 0 {}
        far.transmit_in_access(sink());
        // Towards the generator the router sends only ARP. Draining that source also keeps the interrupt timers of
        // this NIC.
        let nowhere = sink();
        near.transmit_in_access(nowhere.clone());
        let sink = sink();
        far.transmit_in_access(sink.clone());
        let pumps = vec![
            Pump { source: Box::new(generator), sink: near.sink() },
            Pump { source: near.source(), sink: nowhere },
            Pump { source: far.source(), sink: sink.clone() },
        ];
        let cpus: Vec<usize> = cores::allowed()?.into_iter().take(1).collect();
        let start = Instant::now();
        let mut thread = IoThread::spawn("demo/flood", &cpus, pumps, Idle::Poll, Confinement::On)?;
        self.watch(FLOOD)?;
        thread.stop();
        let seconds = start.elapsed().as_secs_f64();
        let counters = sink.counters();
        let bad = counters.bad.get();
        Ok(Flood {
            offered: offered.frames.get(),
            arrived: counters.frames.get(),
            lost: counters.lost(),
            bad,
            seconds,
        })
    }

    /// Shows the live table for `time`.
    fn watch(&self, time: Duration) -> Result<()> {
        let (mut screen, end) = (Screen::of_stdout(), Instant::now() + time);
        let no_groups = MemberStates::new();
        let mut last = self.instance.counts().read();
        while Instant::now() < end {
            self.stop.wait(Duration::from_secs(1));
            let reading = self.instance.counts().read();
            print(&screen.draw(&Interval::between(&last, &reading).table(self.plan, &no_groups)))?;
            last = reading;
            self.check()?;
        }
        Ok(())
    }

    fn summary(&self, flood: &Flood) -> Result<()> {
        let counters = self.instance.counts().read().counters;
        let forwarded: u64 =
            counters.iter().filter(|(name, _)| name.ends_with(".forwarded")).map(|(_, n)| n).sum();
        let rate = flood.arrived as f64 / flood.seconds * 1e-6;
        let mbits = rate * 60.0 * 8.0;
        print(&format!(
            "\nThe router forwarded {forwarded} packets. The flood: {rate:.2} Mpps ({mbits:.0} Mbit/s), \
             {} offered, {} arrived, {} lost in order, {} damaged.\nNothing of this is left on the host.\n",
            flood.offered, flood.arrived, flood.lost, flood.bad
        ))
    }

    /// Aborts the demo if a signal has arrived or a router has failed.
    fn check(&self) -> Result<()> {
        if let Some(fault) = self.instance.fault() {
            bail!("{fault}");
        }
        if self.stop.is_asked() {
            bail!("interrupted; everything is cleaned up");
        }
        Ok(())
    }
}

fn flood_settings() -> Settings {
    Settings { source: 0xc612_0002, destinations: vec![0xc613_0002], ..Settings::default() }
}

/// Returns the MAC address of a NIC of the demo's router.
fn mac(nic: &str, instance: &Instance) -> Result<frame::Mac> {
    let nics = &instance.plan().routers[0].nics;
    let nic = nics.iter().find(|known| known.name == nic).context("the demo's file lost a NIC")?;
    Ok(frame::Mac(nic.mac.0))
}

/// Opens a TAP in a namespace as the attachment of a NIC.
fn plug(nic: &str, interface: &str, netns: &Netns) -> Result<(String, Arc<dyn Attachment>)> {
    let tap = Tap::open(interface, &TapConfig { netns: Some(netns), ..TapConfig::default() })?;
    let (source, sink) = tap.into_ports().pop().context("a TAP without a queue")?;
    Ok((nic.to_owned(), attach::port(Box::new(source), sink)))
}

#[cfg(test)]
mod tests;
