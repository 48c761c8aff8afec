//! `guest-to-guest`: ring -> switch -> ring. The switch runs in this thread on one CPU; both guests are played by one
//! polling firmware on another, which sends by its first NIC and receives by its second, as the peer's traffic generator
//! does on two ports of Open vSwitch. With `--attach tap` the kernel forwards between two TAPs instead.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use bootinfo::{Role, TrafficInfo};
use engine::{Guest, GuestTask};
use frame::Mac;
use host::cores;
use ledger::Group;
use port::Sink;
use switch::{Config, Switch};

use super::Case;
use crate::device::{self, FAR_MAC};
use crate::experiment::{Attachment, Experiment, ExtraFigures, Options, Rig, Sample};
use crate::ledger_snapshot::Snapshot;
use crate::metric::{HasCounters, Reading, accesses};
use crate::rig::host_end::{self, HostPair};
use crate::rig::{Gate, Mover, OpenOnDrop, hello, mover};

/// Most flows that the firmware's sink checks.
const MOST_FLOWS: u32 = 4096;
/// Time in which, while no one moves its frames, the guest's window fills and the guest falls asleep.
const REST: Duration = Duration::from_millis(5);
/// Time before a slice in which the frames that were queued meanwhile leave.
const LEAD: Duration = Duration::from_millis(5);

/// Creates the case, with the switch on the first CPU of the options and the guests on the second.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let flows = options.flows;
    ensure!(flows <= MOST_FLOWS, "the guest checks at most {MOST_FLOWS} flows, not {flows}");
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let by = if options.attach == Attachment::Tap { "/tap" } else { "" };
    let name = format!("{}/{}{by}", options.device(), options.frame);
    let options = options.clone();
    let described = Experiment::new(("guest-to-guest", "mpps"), name, move || Guests::start(&options, cpus));
    Ok(vec![described.between(cpus).built_each_turn().into()])
}

/// Test set-up. The order of the fields is the drop order: the gate opens first, so that no thread waits at it when the
/// guest is stopped.
struct Guests {
    gate: OpenOnDrop,
    guests: Guest,
    between: Between,
    movers: Vec<Mover>,
    passes: Passes,
}

/// Path between the two NICs.
enum Between {
    Switch(Switch),
    Kernel(HostPair),
}

ledger::counters! {
    /// Counters of this thread's polling loop.
    pub struct Passes {
        /// Passes over all movers.
        passes,
        /// Passes that moved nothing.
        passes_empty,
    }
}

fn duty(options: &Options) -> GuestTask {
    let by_kernel = options.attach == Attachment::Tap;
    let [a, b, c, d, e, f] = if by_kernel { host_end::HOST_MAC } else { FAR_MAC };
    let traffic = TrafficInfo {
        frame_len: options.frame as u32,
        flows: options.flows,
        to_ip: host_end::GUESTS[1].to_bits(),
        from_ip: host_end::GUESTS[0].to_bits(),
        to_mac: [a, b, c, d, e, f, 0, 0],
        ..TrafficInfo::default()
    };
    GuestTask { role: Role::SourceSink, traffic }
}

/// Sinks for the frames of both NICs, and additional sources to move frames from.
struct Ways {
    out: [Arc<dyn Sink>; 2],
    more: Vec<Mover>,
}

/// Connects both NICs to a learning switch.
fn by_switch(guests: &Guest) -> Result<(Between, Ways)> {
    let [a, b] = guests.nics() else { bail!("the guests need two NICs") };
    let switch = Switch::new("lab", Config::default());
    let first = Arc::new(switch.add_port("first", a.sink())?);
    let second = Arc::new(switch.add_port("second", b.sink())?);
    hello(&*second, Mac(FAR_MAC))?;
    Ok((Between::Switch(switch), Ways { out: [first, second], more: Vec::new() }))
}

/// Connects the NICs to two TAPs, between which the kernel forwards.
fn by_kernel(guests: &Guest) -> Result<(Between, Ways)> {
    let mut pair = HostPair::open()?;
    let out = [pair.taps[0].1.clone() as Arc<dyn Sink>, pair.taps[1].1.clone()];
    let mut more = Vec::new();
    for ((from, _), nic) in pair.taps.iter_mut().zip(guests.nics()) {
        more.extend(from.take().map(|from| Mover::between(Box::new(from), nic.sink())));
    }
    Ok((Between::Kernel(pair), Ways { out, more }))
}

impl Guests {
    fn start(options: &Options, cpus: (usize, usize)) -> Result<Self> {
        cores::pin(cpus.0)?;
        // A single vCPU plays both guests.
        let plan = device::plan(&Options { vcpus: 1, queues: 1, ..options.clone() }, &[cpus.1])?;
        let mut guests = Guest::new(&plan, duty(options), &device::backend(options)?)?;
        let (between, ways) = match options.attach {
            Attachment::Tap => by_kernel(&guests)?,
            Attachment::Native | Attachment::Switch => by_switch(&guests)?,
        };
        let Ways { out: [first, second], more } = ways;
        let gate = OpenOnDrop(Gate::new(first));
        let [a, b] = guests.nics() else { bail!("the guests need two NICs") };
        let mut movers = vec![Mover::new(a, gate.0.clone()), Mover::new(b, second)];
        movers.extend(more);
        guests.start()?;
        let mut guests = Self { gate, guests, between, movers, passes: Passes::default() };
        guests.run(Duration::from_millis(20));
        Ok(guests)
    }

    /// Moves frames for a moment, so that the next slice counts only frames sent in its own time: the guest has filled its ring since
    /// the last one.
    fn lead(&mut self) {
        self.gate.0.set(true);
        mover::run(&mut self.movers, LEAD);
    }

    /// Moves frames for about `length`, then lets the guest fall asleep; returns the frames that arrived in that time, and
    /// the seconds it took.
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
}

impl HasCounters for Guests {
    fn guests(&self) -> &[Guest] {
        slice::from_ref(&self.guests)
    }

    fn count(&self, ledger: &mut Snapshot) {
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
        accesses::take(&self.guests, ledger);
        ledger.take("host", &self.passes);
    }
}

impl Rig for Guests {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        self.lead();
        let before = Reading::of(self);
        let (packets, seconds) = self.run(length);
        let (ledger, exits) = before.since(self)?;
        let share = |part: &str, whole: &str| ledger.count(part) as f64 / ledger.count(whole).max(1) as f64;
        let mut more = ExtraFigures::from([
            ("reordered", ledger.count("guest.reordered") as f64),
            ("flooded", ledger.count("switch.first.flood_unknown") as f64),
            ("empty_polls_host", share("host.passes_empty", "host.passes")),
            ("empty_polls_guest", share("guest.polls_empty", "guest.polls")),
            ("burst", share("guest.second.rx_frames", "guest.second.rx_bursts")),
        ]);
        more.extend(accesses::per_frame(&ledger, packets));
        let lost = ledger.count("guest.lost");
        Ok(Sample { lost, exits: Some(exits), more, ledger, ..Sample::mpps(packets, seconds) })
    }
}
