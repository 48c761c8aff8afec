//! `guest-to-guest`: virtio ring -> switch -> virtio ring. The switch runs in this thread on one CPU; both guests' ends are
//! one polling firmware on another, which sends by its first NIC and receives by its second, as the peer's generator
//! does on both ports of Open vSwitch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bootinfo::{Role, TrafficInfo};
use config::Router;
use engine::{Duty, Guest};
use frame::{Mac, ethernet};
use ledger::Group;
use ring::Bytes;
use switch::port::pump;
use switch::{Config, Frame, Sink, Source, Switch};

use super::exits::exits;
use crate::device::{self, FAR_MAC};
use crate::experiment::{Experiment, Options, Sample};
use crate::ledger_snapshot::Snapshot;

/// Flows that the firmware's sink checks.
const MOST_FLOWS: u32 = 4096;
/// Bursts between two looks at the clock.
const BURSTS: usize = 64;
/// How long the guest's window takes to fill and the guest to fall asleep when nobody moves its frames.
const REST: Duration = Duration::from_millis(5);

/// See the head of this file.
pub struct GuestToGuest {
    options: Options,
    cpus: (usize, usize),
    parts: Option<Parts>,
}

struct Parts {
    guests: Guest,
    switch: Switch,
    first: Way,
    second: Way,
    passes: Passes,
}

ledger::counters! {
    /// How this thread spends its time.
    pub struct Passes {
        /// Passes over both NICs.
        passes,
        /// Passes that moved nothing.
        passes_empty,
    }
}

/// From a NIC into its port of the switch.
struct Way {
    source: Box<dyn Source>,
    port: Arc<dyn Sink>,
}

impl Way {
    fn pump(&mut self) -> usize {
        pump(self.source.as_mut(), &*self.port)
    }
}

impl GuestToGuest {
    /// The switch on the first CPU of the options, the guests on the second.
    pub fn new(options: &Options) -> Result<Self> {
        let flows = options.flows;
        ensure!(flows <= MOST_FLOWS, "the guest checks at most {MOST_FLOWS} flows, not {flows}");
        Ok(Self { options: options.clone(), cpus: (options.cpu(0)?, options.cpu(1)?), parts: None })
    }

    fn duty(&self) -> Duty {
        let [a, b, c, d, e, f] = FAR_MAC;
        let traffic = TrafficInfo {
            frame_len: self.options.frame as u32,
            flows: self.options.flows,
            to_ip: u32::from_be_bytes([198, 19, 0, 1]),
            from_ip: u32::from_be_bytes([198, 18, 0, 1]),
            to_mac: [a, b, c, d, e, f, 0, 0],
            ..TrafficInfo::default()
        };
        Duty { role: Role::SourceSink, traffic }
    }

    fn plan(&self) -> Result<Router> {
        // One vCPU: it plays both guests.
        device::plan(&Options { vcpus: 1, queues: 1, ..self.options.clone() }, &[self.cpus.1])
    }
}

impl Experiment for GuestToGuest {
    fn id(&self) -> &'static str {
        "guest-to-guest"
    }

    fn case(&self) -> String {
        format!("{}/{}{}", self.options.device(), self.options.frame, self.options.several_vcpus())
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn prepare(&mut self) -> Result<()> {
        let mut guests = Guest::new(&self.plan()?, self.duty(), &device::ground(&self.options)?)?;
        let switch = Switch::new("lab", Config::default());
        let mut ways = Vec::new();
        for (name, nic) in ["first", "second"].iter().zip(guests.nics()) {
            ways.push(Way { source: nic.source(), port: Arc::new(switch.add_port(name, nic.sink())?) });
        }
        let (Some(second), Some(first)) = (ways.pop(), ways.pop()) else {
            bail!("the guests need two NICs");
        };
        guests.start()?;
        hello(&*second.port)?;
        let mut parts = Parts { guests, switch, first, second, passes: Passes::default() };
        parts.run(Duration::from_millis(20));
        std::thread::sleep(REST);
        self.parts = Some(parts);
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let parts = self.parts.as_mut().context("guest-to-guest was not prepared")?;
        let (before, left) = (parts.ledger(), exits(&parts.guests));
        let seconds = parts.run(length);
        let packets = parts.arrived() - before.get("guest.second.rx_frames").unwrap_or(0);
        std::thread::sleep(REST);
        if let Some(fault) = parts.guests.fault() {
            bail!("the guests stopped: {fault}");
        }
        let sample = sample(packets, seconds, parts.ledger().since(&before));
        Ok(Sample { exits: Some(exits(&parts.guests) - left), ..sample })
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.guests.stop();
        }
        Ok(())
    }
}

/// A frame from the second NIC's address, by which the switch learns where that is.
fn hello(port: &dyn Sink) -> Result<()> {
    let header =
        ethernet::Header { destination: Mac::BROADCAST, source: Mac(FAR_MAC), ethertype: ethernet::ARP };
    let mut hello = [0; ethernet::SHORTEST];
    header.write(&mut hello)?;
    port.deliver(&[Frame::new(Bytes::from_slice(&mut hello))]);
    Ok(())
}

impl Parts {
    /// Moves frames for about `length`; returns the seconds it took.
    fn run(&mut self, length: Duration) -> f64 {
        let start = Instant::now();
        while start.elapsed() < length {
            for _ in 0..BURSTS {
                let moved = self.first.pump() + self.second.pump();
                self.passes.passes.add(1);
                self.passes.passes_empty.add(u64::from(moved == 0));
            }
        }
        start.elapsed().as_secs_f64()
    }

    /// Frames that the second NIC's driver has received.
    fn arrived(&self) -> u64 {
        self.guests.machine().shared().vcpus[0].nics[1].rx_frames.get()
    }

    fn ledger(&self) -> Snapshot {
        let mut ledger = Snapshot::new();
        let vcpu = &self.guests.machine().shared().vcpus[0];
        ledger.take("guest", &vcpu.sink);
        ledger.take("guest", &vcpu.router);
        ledger.take("guest.exit", &*self.guests.machine().exits()[0] as &dyn Group);
        for (name, (queues, counters)) in
            ["first", "second"].iter().zip(self.guests.nics().iter().zip(&vcpu.nics))
        {
            ledger.take(&format!("guest.{name}"), counters);
            ledger.take(&format!("{name}.rx"), &queues.rx_ledger());
            ledger.take(&format!("{name}.tx"), &queues.tx_ledger());
        }
        self.switch.counters(&mut |port, counters| ledger.take(&format!("switch.{port}"), counters));
        ledger.take("host", &self.passes);
        ledger
    }
}

fn sample(packets: u64, seconds: f64, ledger: Snapshot) -> Sample {
    let get = |name: &str| ledger.get(name).unwrap_or(0);
    let share = |part: &str, whole: &str| get(part) as f64 / get(whole).max(1) as f64;
    Sample {
        value: packets as f64 / seconds * 1e-6,
        packets,
        lost: get("guest.lost"),
        exits: None,
        more: vec![
            ("reordered", get("guest.reordered") as f64),
            ("flooded", (get("switch.first.flood_unknown")) as f64),
            ("empty_polls_host", share("host.passes_empty", "host.passes")),
            ("empty_polls_guest", share("guest.polls_empty", "guest.polls")),
            ("burst", share("guest.second.rx_frames", "guest.second.rx_bursts")),
        ],
        ledger,
    }
}
