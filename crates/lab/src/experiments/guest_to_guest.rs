//! `guest-to-guest`: ring -> switch -> ring. The switch runs in this thread on one CPU; both guests' ends are
//! one polling firmware on another, which sends by its first NIC and receives by its second, as the peer's generator
//! does on both ports of Open vSwitch. With `--attach tap` the kernel forwards between two TAPs instead.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bootinfo::{Role, TrafficInfo};
use config::Router;
use engine::{Duty, Guest};
use frame::{Mac, ethernet};
use host::cores;
use ledger::Group;
use port::{Frame, Sink};
use ring::Bytes;
use switch::{Config, Switch};

use super::accesses;
use super::exits::exits;
use super::gate::{Gate, Keeper};
use super::host_end::{self, HostPair};
use super::mover::{self, Mover};
use crate::device::{self, FAR_MAC};
use crate::experiment::{Attachment, Experiment, Options, Sample};
use crate::ledger_snapshot::Snapshot;

/// Flows that the firmware's sink checks.
const MOST_FLOWS: u32 = 4096;
/// How long the guest's window takes to fill and the guest to fall asleep when nobody moves its frames.
const REST: Duration = Duration::from_millis(5);

/// See the head of this file.
pub struct GuestToGuest {
    options: Options,
    cpus: (usize, usize),
    parts: Option<Parts>,
}

/// In the order in which they go: nobody may wait at the gate when the guest is stopped.
struct Parts {
    gate: Keeper,
    guests: Guest,
    between: Between,
    movers: Vec<Mover>,
    passes: Passes,
}

/// What is between the two NICs.
enum Between {
    Switch(Switch),
    Kernel(HostPair),
}

ledger::counters! {
    /// How this thread spends its time.
    pub struct Passes {
        /// Passes over all that it moves.
        passes,
        /// Passes that moved nothing.
        passes_empty,
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
        let by_kernel = self.options.attach == Attachment::Tap;
        let [a, b, c, d, e, f] = if by_kernel { host_end::HOST_MAC } else { FAR_MAC };
        let traffic = TrafficInfo {
            frame_len: self.options.frame as u32,
            flows: self.options.flows,
            to_ip: host_end::GUESTS[1].to_bits(),
            from_ip: host_end::GUESTS[0].to_bits(),
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
        let by = if self.options.attach == Attachment::Tap { "/tap" } else { "" };
        format!("{}/{}{by}", self.options.device(), self.options.frame)
    }

    fn unit(&self) -> &'static str {
        "mpps"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn is_built_each_turn(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        cores::pin(self.cpus.0)?;
        let mut guests = Guest::new(&self.plan()?, self.duty(), &device::ground(&self.options)?)?;
        let (between, ways) = match self.options.attach {
            Attachment::Tap => by_kernel(&guests)?,
            Attachment::Native | Attachment::Switch => by_switch(&guests)?,
        };
        let Ways { out: [first, second], more } = ways;
        let gate = Keeper(Gate::new(first));
        let [a, b] = guests.nics() else { bail!("the guests need two NICs") };
        let mut movers = vec![Mover::new(a, gate.0.clone()), Mover::new(b, second)];
        movers.extend(more);
        guests.start()?;
        let parts = Parts { gate, guests, between, movers, passes: Passes::default() };
        self.parts.insert(parts).run(Duration::from_millis(20));
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let parts = self.parts.as_mut().context("guest-to-guest was not prepared")?;
        let (before, left) = (parts.ledger(), exits(&parts.guests));
        let (packets, seconds) = parts.run(length);
        if let Some(fault) = parts.guests.fault() {
            bail!("the guests stopped: {fault}");
        }
        let sample = sample(packets, seconds, parts.ledger().since(&before));
        Ok(Sample { exits: Some(exits(&parts.guests) - left), ..sample })
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(mut parts) = self.parts.take() {
            parts.gate.0.set(true);
            parts.guests.stop();
        }
        Ok(())
    }
}

/// Where the frames of both NICs go, and what else is to be moved.
struct Ways {
    out: [Arc<dyn Sink>; 2],
    more: Vec<Mover>,
}

/// A learning switch with both NICs at it.
fn by_switch(guests: &Guest) -> Result<(Between, Ways)> {
    let [a, b] = guests.nics() else { bail!("the guests need two NICs") };
    let switch = Switch::new("lab", Config::default());
    let first = Arc::new(switch.add_port("first", a.sink())?);
    let second = Arc::new(switch.add_port("second", b.sink())?);
    hello(&*second)?;
    Ok((Between::Switch(switch), Ways { out: [first, second], more: Vec::new() }))
}

/// Two TAPs, and the kernel between them.
fn by_kernel(guests: &Guest) -> Result<(Between, Ways)> {
    let mut pair = HostPair::open()?;
    let out = [pair.taps[0].1.clone() as Arc<dyn Sink>, pair.taps[1].1.clone()];
    let mut more = Vec::new();
    for ((from, _), nic) in pair.taps.iter_mut().zip(guests.nics()) {
        more.extend(from.take().map(|from| Mover::between(Box::new(from), nic.sink())));
    }
    Ok((Between::Kernel(pair), Ways { out, more }))
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
    /// Moves frames for about `length`, then lets the guest fall asleep; frames that arrived in that time, and the seconds
    /// it took.
    fn run(&mut self, length: Duration) -> (u64, f64) {
        let before = self.arrived();
        self.gate.0.set(true);
        let (seconds, passes) = mover::run(&mut self.movers, length);
        let frames = self.arrived() - before;
        self.gate.0.set(false);
        self.passes.passes.add(passes.all);
        self.passes.passes_empty.add(passes.empty);
        std::thread::sleep(REST);
        (frames, seconds)
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
        match &self.between {
            Between::Switch(switch) => {
                switch.counters(&mut |port, counters| ledger.take(&format!("switch.{port}"), counters));
            }
            Between::Kernel(pair) => {
                for (name, (_, to)) in ["first", "second"].iter().zip(&pair.taps) {
                    ledger.take(&format!("{name}.written"), &*to.counters());
                }
            }
        }
        accesses::take(&self.guests, &mut ledger);
        ledger.take("host", &self.passes);
        ledger
    }
}

fn sample(packets: u64, seconds: f64, ledger: Snapshot) -> Sample {
    let get = |name: &str| ledger.get(name).unwrap_or(0);
    let share = |part: &str, whole: &str| get(part) as f64 / get(whole).max(1) as f64;
    let mut more = vec![
        ("reordered", get("guest.reordered") as f64),
        ("flooded", (get("switch.first.flood_unknown")) as f64),
        ("empty_polls_host", share("host.passes_empty", "host.passes")),
        ("empty_polls_guest", share("guest.polls_empty", "guest.polls")),
        ("burst", share("guest.second.rx_frames", "guest.second.rx_bursts")),
    ];
    more.extend(accesses::per_frame(&ledger, packets));
    Sample {
        value: packets as f64 / seconds * 1e-6,
        packets,
        lost: get("guest.lost"),
        exits: None,
        more,
        ledger,
    }
}
