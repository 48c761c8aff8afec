//! The two routers of the soak: traffic flows through one, the other commits misdeeds.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bootinfo::Misdeed;
use support::{Counters, Flow, Namespace, Need, Stage, Tally, children_of};

use super::usage::{Usage, growth};

/// Duration of each misdeed. In its middle the router is restarted.
const TURN: Duration = Duration::from_secs(10);
/// Interval between two samples of resource usage.
const SAMPLE: Duration = Duration::from_secs(10);
/// Datagrams a second in each direction.
const RATE: u32 = 2000;
/// Time limit of a command.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running soak.
pub(super) struct Soak {
    binary: String,
    stage: Stage,
    hosts: Vec<Namespace>,
    flows: Vec<Flow>,
    engines: Vec<&'static str>,
    plane: u32,
    started: Instant,
    samples: Vec<(Usage, Usage)>,
    refusals: Vec<String>,
    turns: usize,
}

fn file(engine: &str, misdeed: &str, bad_engine: &str) -> String {
    format!(
        "[switch.lan]\n\
         [[router]]\nname = \"good\"\nengine = \"{engine}\"\n\
         [[router.nic]]\nname = \"in\"\nattach = \"tap:soak-in\"\naddress = \"10.1.1.1/24\"\nqueue_len = 4096\n\
         [[router.nic]]\nname = \"out\"\nattach = \"tap:soak-out\"\naddress = \"10.1.2.1/24\"\nqueue_len = 4096\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"10.1.3.1/24\"\n\
         [[router]]\nname = \"bad\"\nengine = \"{bad_engine}\"\nrole = \"hostile\"\nmisdeed = \"{misdeed}\"\n\
         restart = \"always\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"10.1.3.2/24\"\n"
    )
}

impl Soak {
    pub(super) fn start(binary: &str) -> Result<Self> {
        let engines = match support::missing(&[Need::Kvm]) {
            None => vec!["kvm", "process"],
            Some(why) => {
                println!("no engine kvm: {why}");
                vec!["process"]
            }
        };
        let text = file(engines[0], Misdeed::ALL[0].name(), engines[0]);
        let mut stage = Stage::start_with(binary, &text, &["--json", "--log", "text"])?;
        let from = stage.host("soak-in", "10.1.1.2/24", "10.1.1.1")?;
        let to = stage.host("soak-out", "10.1.2.2/24", "10.1.2.1")?;
        let mut ping = from.command("busybox");
        let met = support::run(ping.args(["ping", "-c", "1", "-w", "20", "10.1.2.2"]), PATIENCE);
        ensure!(met.is_ok_and(|done| done.status.success()), "no way through the router");
        let flows = vec![
            Flow::start(&from, &to, SocketAddr::from(([10, 1, 2, 2], 7000)), RATE)?,
            Flow::start(&to, &from, SocketAddr::from(([10, 1, 1, 2], 7000)), RATE)?,
        ];
        let plane = plane(stage.run().id()).context("no data plane")?;
        Ok(Self {
            binary: binary.to_owned(),
            stage,
            hosts: vec![from, to],
            flows,
            engines,
            plane,
            started: Instant::now(),
            samples: Vec::new(),
            refusals: Vec::new(),
            turns: 0,
        })
    }

    /// Continues for this time; returns the report.
    pub(super) fn go_on(mut self, time: Duration) -> Result<Report> {
        let end = self.started + time;
        let mut sample = self.started;
        while Instant::now() < end {
            self.turn()?;
            if Instant::now() >= sample {
                self.sample()?;
                sample = Instant::now() + SAMPLE;
            }
        }
        self.finish()
    }

    /// Starts the next misdeed, alternating over the engines; half-way the router is restarted.
    fn turn(&mut self) -> Result<()> {
        let misdeed = Misdeed::ALL[self.turns % Misdeed::ALL.len()].name();
        let engine = self.engines[self.turns / Misdeed::ALL.len() % self.engines.len()];
        self.turns += 1;
        let path = self.stage.path("next.toml");
        fs::write(&path, file(self.engines[0], misdeed, engine))?;
        let path = path.to_string_lossy().into_owned();
        self.ask(&["apply", "--run", "file", &path]);
        sleep(TURN / 2);
        self.ask(&["restart", "bad"]);
        sleep(TURN / 2);
        ensure!(
            !self.stage.run().ended()?,
            "the run has ended: {:?}",
            self.stage.run().wait(PATIENCE)?.stderr
        );
        Ok(())
    }

    /// Sends a command to the run, and repeats it once if the run was too busy to answer.
    fn ask(&mut self, words: &[&str]) {
        for last in [false, true] {
            let refusal = match support::run(Command::new(&self.binary).args(words), PATIENCE) {
                Ok(done) if done.status.success() => return,
                Ok(done) => done.stderr,
                Err(error) => error.to_string(),
            };
            let what = format!("{}: {refusal}", words.join(" "));
            if last {
                self.refusals.push(what);
            } else {
                println!("once more: {what}");
                sleep(Duration::from_secs(1));
            }
        }
    }

    fn sample(&mut self) -> Result<()> {
        let (at, command) = (self.started.elapsed(), self.stage.run().id());
        let plane = plane(command).context("no data plane")?;
        let told = self.stage.run().stderr_lines(0);
        let told: Vec<_> = told.iter().filter(|line| !line.contains("/bad: ")).collect();
        ensure!(plane == self.plane, "the data plane has died: {told:#?}");
        let (supervisor, plane) = (Usage::of(command, at)?, Usage::of(plane, at)?);
        let lost: u64 = self.flows.iter().map(|flow| flow.so_far().lost()).sum();
        println!(
            "{:>5} s  supervisor: {}; data plane: {}; {lost} lost or under way",
            at.as_secs(),
            supervisor.shown(),
            plane.shown()
        );
        self.samples.push((supervisor, plane));
        Ok(())
    }

    fn finish(self) -> Result<Report> {
        let Self { stage, hosts, flows, samples, refusals, turns, started, .. } = self;
        let time = started.elapsed();
        let tallies = flows.into_iter().map(Flow::stop).collect::<Result<Vec<_>>>()?;
        let links = hosts.iter().zip(["soak-in", "soak-out"]);
        let dropped = links.map(|(host, link)| dropped_by_kernel(host, link)).sum::<Result<u64>>()?;
        let done = stage.finish_troubled(hosts)?;
        let counters = Counters::of(done.stdout.lines())?;
        let charges = done.stderr.lines().filter(|line| line.contains("/bad: ")).count();
        let named = counters.sum(|name| {
            name.starts_with("good.") && name.rsplit('.').next().is_some_and(|last| last.starts_with("drop_"))
        });
        let ledger = counters.faults("good");
        Ok(Report { time, turns, tallies, dropped, named, ledger, charges, samples, refusals })
    }
}

/// Process ID of a run's data plane.
fn plane(command: u32) -> Option<u32> {
    let planes = children_of(command).into_iter();
    planes
        .filter(|child| child.words.get(1).is_some_and(|verb| verb == "data-plane"))
        .map(|child| child.id)
        .next()
}

/// Frames that the kernel dropped because the queue of a TAP was full.
fn dropped_by_kernel(host: &Namespace, link: &str) -> Result<u64> {
    let text = host.ip(&["-s", "-j", "link", "show", "dev", link])?;
    let links: serde_json::Value = serde_json::from_str(&text).context("ip tells no JSON")?;
    links[0]["stats64"]["tx"]["dropped"].as_u64().context("no count of dropped frames")
}

/// Results of a soak.
pub(super) struct Report {
    time: Duration,
    turns: usize,
    tallies: Vec<Tally>,
    dropped: u64,
    named: u64,
    ledger: Vec<String>,
    charges: usize,
    samples: Vec<(Usage, Usage)>,
    refusals: Vec<String>,
}

impl Report {
    fn sum(&self, what: fn(&Tally) -> u64) -> u64 {
        self.tallies.iter().map(what).sum()
    }

    /// Formats a summary.
    pub(super) fn summary(&self) -> String {
        format!(
            "{:.1} minutes, {} misdeeds with {} lines about them, {} datagrams in, {} out, {} lost, {} dropped by \
             the kernel's queue, {} by the router",
            self.time.as_secs_f64() / 60.0,
            self.turns,
            self.charges,
            self.sum(|tally| tally.sent),
            self.sum(|tally| tally.received),
            self.sum(Tally::lost),
            self.dropped,
            self.named
        )
    }

    /// Lists the faults.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = self.ledger.clone();
        let lost = self.sum(Tally::lost);
        if lost > self.dropped + self.named {
            faults.push(format!("{lost} lost, but only {} dropped under a name", self.dropped + self.named));
        }
        if self.sum(|tally| tally.received) == 0 || self.sum(|tally| tally.repeated) > 0 {
            faults.push(format!("not what was sent: {:?}", self.tallies));
        }
        let (supervisor, plane): (Vec<_>, Vec<_>) = self.samples.iter().copied().unzip();
        faults.extend(growth("supervisor", &supervisor));
        faults.extend(growth("data plane", &plane));
        faults.extend(self.refusals.iter().cloned());
        faults
    }
}
