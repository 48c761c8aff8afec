//! `scale`: a group of routers by its number of members, side by side on the queues of two switches or behind balancers, offered more than it
//! can forward: frames that come out a second, and what each costs in CPU time of all of the group's threads. The generator and the sink are
//! this thread, on the first CPU of the options; the group's threads are where the kernel places them, on as many CPUs as it has.
//!
//! In turn: two members with one, and back ends behind a balancer with members side by side.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use config::Plan;
use engine::{Instance, Plugs};
use frame::{Mac, ethernet};
use host::cores;
use port::{Frame, Null, Sink as _, pump};
use ring::Bytes;
use switch::SwitchPort;

use super::Case;
use crate::device;
use crate::experiment::{Experiment, Options, Sample};
use crate::generator::{Generator, Settings};
use crate::scenario;
use crate::sink::Sink;

/// Most members.
const MOST: u32 = 4;
/// How long members may take to serve.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is in rings and queues when the generator stops.
const REST: Duration = Duration::from_millis(50);
/// Bursts between two readings of the clock.
const PUMPS: usize = 16;

/// How a group is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Parallel,
    Multistage,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Multistage => "multistage",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Parallel => "members",
            Self::Multistage => "backends",
        }
    }
}

/// One to four members of each kind, and what is compared.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let case = |kind, members| case(kind, members, options);
    let mut cases = Vec::new();
    for kind in [Kind::Parallel, Kind::Multistage] {
        cases.extend((1..=MOST).map(|members| Case::from(case(kind, members))));
    }
    cases.push(Case::Alternating(case(Kind::Parallel, 2), case(Kind::Parallel, 1)));
    cases.push(Case::Alternating(case(Kind::Multistage, 2), case(Kind::Parallel, 2)));
    Ok(cases)
}

fn case(kind: Kind, members: u32, options: &Options) -> Experiment {
    let engine = if options.engine == "process" { "process/" } else { "" };
    let name = format!("{engine}{}/{}/{}={members}", kind.name(), options.frame, kind.key());
    let options = options.clone();
    Experiment::new(("scale", "mpps"), name, move || {
        let mut group = Group::start(kind, members, &options)?;
        anyhow::Ok(move |length: Duration| group.slice(length))
    })
}

/// A group between two switches: frames enter by a port of the first, and those that leave by the second go to a sink.
pub(super) struct Between {
    pub(super) instance: Instance,
    pub(super) into: SwitchPort,
}

impl Between {
    /// Starts the group of a plan, and waits until all of its members serve.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn start(plan: &Plan, sink: Arc<dyn port::Sink>) -> Result<Self> {
        let instance = Instance::start(plan, Plugs::new())?;
        let port = |name: &str, to: Arc<dyn port::Sink>| {
            let switch = instance.switches().iter().find(|switch| switch.name() == name);
            Ok::<_, anyhow::Error>(switch.context("a switch of the plan")?.add_port("lab", to)?)
        };
        let into = port("near", Arc::new(Null::new()))?;
        let station = port("far", sink)?;
        // So that the switch knows where the station is.
        let mut hello = [0; ethernet::SHORTEST];
        let from = Mac(device::STATION_MAC);
        ethernet::Header { destination: from, source: from, ethertype: 0x88b5 }.write(&mut hello)?;
        station.deliver(&[Frame::new(Bytes::from_slice(&mut hello))]);
        let between = Self { instance, into };
        between.wait_until_all_serve()?;
        Ok(between)
    }

    /// Waits until all members of the plan serve.
    ///
    /// # Errors
    /// They do not.
    pub(super) fn wait_until_all_serve(&self) -> Result<()> {
        let members = self.instance.plan().routers.len();
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.instance.status();
            let serve = status
                .iter()
                .filter(|router| router.member.as_deref().is_some_and(|told| told.starts_with("serving")));
            if serve.count() == members {
                return Ok(());
            }
            if Instant::now() >= end {
                bail!("not all {members} members serve: {status:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A group with a generator before it and a sink behind it.
struct Group {
    between: Between,
    generator: Generator,
    sink: Arc<Sink>,
}

impl Group {
    fn start(kind: Kind, members: u32, options: &Options) -> Result<Self> {
        let plan = plan(kind, members, options)?;
        let settings = settings(&plan, options)?;
        let sink = Arc::new(device::sink(&settings));
        // Threads inherit the CPUs of the thread that starts them.
        cores::allow(&options.all_cpus()?)?;
        let between = Between::start(&plan, sink.clone())?;
        cores::pin(options.cpu(0)?)?;
        Ok(Self { between, generator: Generator::new(&settings)?, sink })
    }

    /// Nanoseconds that the group's threads have run.
    fn spent(&self) -> u64 {
        let mut sum = 0;
        self.between.instance.each_thread(&mut |name, ns| {
            sum += if name.starts_with("core") { ns } else { 0 };
        });
        sum
    }

    fn slice(&mut self, length: Duration) -> Result<Sample> {
        let counters = self.sink.counters();
        let (lost, late) = (counters.missed.get(), counters.late.get());
        let (offered, spent) = (self.generator.counters().frames.get(), self.spent());
        let Self { between, generator, sink } = self;
        let came = scenario::offered(
            length,
            PUMPS,
            || {
                pump(generator, &between.into);
            },
            || thread::sleep(REST),
            || sink.counters().frames.get(),
        );
        let counters = self.sink.counters();
        let offered = self.generator.counters().frames.get() - offered;
        // The CPU time is also that of the frames that came out afterwards.
        let each = (self.spent() - spent) as f64 / came.in_all.max(1) as f64;
        let more = [
            ("cpu_ns_per_packet", each),
            ("offered_mpps", offered as f64 / came.seconds * 1e-6),
            ("late", (counters.late.get() - late) as f64),
        ];
        let lost = (counters.missed.get() - lost).saturating_sub(counters.late.get() - late);
        Ok(Sample { lost, more: more.into(), ..Sample::mpps(came.in_time, came.seconds) })
    }
}

/// The frames that the generator sends: to the group's address on the first switch.
pub(super) fn settings(plan: &Plan, options: &Options) -> Result<Settings> {
    let nic =
        plan.groups.first().and_then(|group| group.pattern.nics.first()).context("a group with NICs")?;
    Ok(Settings { destination_mac: Mac(nic.mac.0), ..device::traffic(options) })
}

/// The plan of a group between two switches.
pub(super) fn plan(kind: Kind, members: u32, options: &Options) -> Result<Plan> {
    let (near, far) = (device::NEAR, "198.19.0.1");
    let text = format!(
        "[switch.near]\n[switch.far]\n[[group]]\nname = \"core\"\nkind = \"{}\"\n{} = {members}\nengine = \"{}\"\n\
         [[group.nic]]\nname = \"near\"\nattach = \"switch:near\"\naddress = \"{near}/24\"\n\
         [[group.nic]]\nname = \"far\"\nattach = \"switch:far\"\naddress = \"{far}/24\"\n\
         [[group.route]]\nto = \"198.18.1.0/24\"\nvia = \"{station}\"\n\
         [[group.neighbour]]\naddress = \"{station}\"\nmac = \"{mac}\"\n",
        kind.name(),
        kind.key(),
        device::engine(options).name(),
        station = device::STATION,
        mac = Mac(device::STATION_MAC),
    );
    let mut plan = config::parse(&text, "scale.toml")?;
    // Nobody starts processes for them here: all of them are in this one.
    let routers = plan.routers.iter_mut().chain(plan.groups.iter_mut().map(|group| &mut group.pattern));
    routers.for_each(|router| router.isolate = false);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_group_is_right() {
        for (kind, members) in [(Kind::Parallel, 1), (Kind::Multistage, 4)] {
            let options = Options::default();
            let plan = plan(kind, members, &options).expect("a good file");
            assert_eq!(plan.routers.len(), members as usize);
            assert_eq!(plan.isolated().count(), 0);
            assert!(plan.not_yet().is_empty());
            assert_eq!(
                settings(&plan, &options).expect("a NIC").destination_mac.0,
                plan.routers[0].nics[0].mac.0
            );
        }
    }
}
