//! `cargo xtask soak --group`: a group of two members under a light load, while spinners take all CPUs away for a while again and again.
//! Nothing is wrong with its members, nor with the two balancers before them that `--multistage` adds, so each that it suspects or restarts
//! is a false alarm.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use support::{Counters, Flow, Namespace, Need, Stage};

use crate::test::Spinners;

/// Members of the group.
const MEMBERS: usize = 2;
/// Balancers of a multistage group, each a virtual machine or a process.
const BALANCERS: usize = 2;
/// Flows in each direction, so many that hardly ever a member is without any, and datagrams a second of each: members have time.
const FLOWS: u16 = 8;
const RATE: u32 = 50;
/// Time limit for members to serve.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two questions before the load, and between two readings of counters meanwhile.
const LOOK: Duration = Duration::from_millis(100);
const SAMPLE: Duration = Duration::from_secs(60);

/// Kind of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Members side by side.
    Parallel,
    /// Members behind balancers, which are watched as well.
    Multistage,
}

impl Kind {
    /// The keys of the group by which it is of this kind.
    fn keys(self) -> String {
        match self {
            Self::Parallel => format!("kind = \"parallel\"\nmembers = {MEMBERS}\n"),
            Self::Multistage => format!(
                "kind = \"multistage\"\nbackends = {MEMBERS}\nbalancer = \"vm\"\nbalancers = {BALANCERS}\n"
            ),
        }
    }

    /// How many routers the group consists of.
    const fn routers(self) -> usize {
        match self {
            Self::Parallel => MEMBERS,
            Self::Multistage => MEMBERS + BALANCERS,
        }
    }
}

fn file(kind: Kind, engine: &str) -> String {
    let nic = |name: &str, net: &str| {
        format!(
            "[[group.nic]]\nname = \"{name}\"\nattach = \"tap:soak-{name}\"\naddress = \"{net}.1/24\"\nqueue_len = 4096\n"
        )
    };
    format!("[[group]]\nname = \"duo\"\nengine = \"{engine}\"\n")
        + &kind.keys()
        + &nic("in", "10.1.1")
        + &nic("out", "10.1.2")
}

/// What the group has counted about its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Members and balancers suspected, one as often as it was.
    suspected: u64,
    /// Rounds of probes, and how many of them count against none of them, because whoever probes was late.
    rounds: u64,
    excused: u64,
}

impl Counted {
    fn of(counters: &Counters) -> Self {
        let own = |name: &str| counters.get(&format!("duo.group.{name}"));
        Self { suspected: own("suspected"), rounds: own("rounds"), excused: own("rounds_excused") }
    }

    fn since(self, before: Self) -> Self {
        Self {
            suspected: self.suspected.saturating_sub(before.suspected),
            rounds: self.rounds.saturating_sub(before.rounds),
            excused: self.excused.saturating_sub(before.excused),
        }
    }

    fn shown(self) -> String {
        let Self { suspected, rounds, excused } = self;
        format!(
            "{suspected} times a member was suspected, in {rounds} rounds of probes, {excused} of them excused"
        )
    }
}

/// Runs a group for `time`; returns the faults.
pub(super) fn watch(binary: &str, kind: Kind, time: Duration) -> Result<Vec<String>> {
    let engine = if support::missing(&[Need::Kvm]).is_none() { "kvm" } else { "process" };
    let mut stage = Stage::start_with(binary, &file(kind, engine), &["--json", "--log", "text"])?;
    let near = stage.host("soak-in", "10.1.1.2/24", "10.1.1.1")?;
    let far = stage.host("soak-out", "10.1.2.2/24", "10.1.2.1")?;
    all_serve(&stage, kind)?;
    let mut flows = flows(&near, &far, [10, 1, 2, 2])?;
    flows.extend(self::flows(&far, &near, [10, 1, 1, 2])?);
    let spinners = Spinners::start()?;
    let counted = look_on(&mut stage, time)?;
    drop(spinners);
    let tallies = flows.into_iter().map(Flow::stop).collect::<Result<Vec<_>>>()?;
    let done = stage.finish_troubled(vec![near, far])?;
    let (sent, lost) = tallies.iter().fold((0, 0), |(sent, lost), own| (sent + own.sent, lost + own.lost()));
    println!(
        "{kind:?} group ({engine}), {} s: {}; {sent} datagrams sent, {lost} lost",
        time.as_secs(),
        counted.shown()
    );
    let ended: Vec<&str> = done.stderr.lines().filter(|line| tells_of_an_end(line)).collect();
    Ok(faults(counted, &ended))
}

/// Whether a line of the run says that a member was ended, by the kinds of such events.
fn tells_of_an_end(line: &str) -> bool {
    line.contains(": failed: ") || line.contains(": charged: ")
}

/// Starts flows to an address of the second host.
fn flows(from: &Namespace, to: &Namespace, address: [u8; 4]) -> Result<Vec<Flow>> {
    (0..FLOWS).map(|n| Flow::start(from, to, SocketAddr::from((address, 7000 + n)), RATE)).collect()
}

/// Waits until all members, and all balancers, serve.
fn all_serve(stage: &Stage, kind: Kind) -> Result<()> {
    let (mut client, end) = (stage.client()?, Instant::now() + PATIENCE);
    loop {
        let status = client.status()?;
        let serves = |told: &Option<String>| told.as_deref().is_some_and(|told| told.starts_with("serving"));
        if status.routers.iter().filter(|router| serves(&router.member)).count() == kind.routers() {
            return Ok(());
        }
        ensure!(Instant::now() < end, "members do not serve: {:?}", status.routers);
        sleep(LOOK);
    }
}

/// Reads counters for this time, and prints them; returns what was counted meanwhile.
fn look_on(stage: &mut Stage, time: Duration) -> Result<Counted> {
    let (began, first) = (Instant::now(), counted(stage)?);
    loop {
        sleep(SAMPLE.min(time.saturating_sub(began.elapsed())));
        ensure!(!stage.run().ended()?, "the run has ended: {:?}", stage.run().stderr_lines(0));
        let now = counted(stage)?.since(first);
        println!("{:>5} s  {}", began.elapsed().as_secs(), now.shown());
        if began.elapsed() >= time {
            return Ok(now);
        }
    }
}

fn counted(stage: &Stage) -> Result<Counted> {
    stage.wait_for_counters(|_| true).map(|counters| Counted::of(&counters))
}

/// Lists the faults: false alarms, and a group that was not watched at all. `ended`: what the run has said of members that ended.
fn faults(counted: Counted, ended: &[&str]) -> Vec<String> {
    let mut faults: Vec<String> = ended.iter().map(|line| format!("a member was ended: {line}")).collect();
    if counted.suspected > 0 {
        faults.push(format!(
            "{} times a member was suspected and nothing was wrong with it",
            counted.suspected
        ));
    }
    if counted.rounds == counted.excused {
        faults.push(format!("no round counts of {}, so nothing is known of the members", counted.rounds));
    }
    faults
}

#[cfg(test)]
#[path = "alarms_tests.rs"]
mod tests;
