//! `cargo xtask attacks`: cost that an attacker at each door can impose on others, measured on a run of the released program.
//!
//! ```text
//!  CPU 0   a machine that sends a million frames a second -> router `near` -> nothing
//!  CPU 1   the attacker -> router `bad`; supervisor, the data plane's control, and the client that asks for `ps` five times a second
//! ```
//!
//! Slices with and without the attacker alternate; those without are a third as long. The neighbour must forward at least 0.97 of its
//! rate without the attacker, and lose frames only in its own full queues; the data plane must survive, and `ps` must be answered
//! within 100 ms. All other observations are only reported: CPU time of other threads, and memory and descriptors held.

mod clients;
mod guests;
mod kept;
mod list;
mod own;
mod pipe;
mod scene;
mod trial;
mod usage;

use anyhow::{Result, bail, ensure};
use support::Need;

use crate::arguments::number;
use crate::step::{output, release_build};
use crate::workers;
use guests::NotHere;
pub(crate) use kept::section;
use list::{ALL, Spec};
use trial::Outcome;

/// Seconds of each attack, if nothing else is wanted.
const SECONDS: u64 = 60;

struct Options {
    seconds: u64,
    binary: Option<String>,
    names: Vec<String>,
}

/// Results of all attacks.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Row of each attack that was measured.
    rows: Vec<String>,
    /// Violated requirements.
    pub(crate) faults: Vec<String>,
    /// Attacks that this host does not support, with the reasons.
    pub(crate) skipped: Vec<String>,
}

/// Returns the reason why attacks cannot run here.
pub(crate) fn missing() -> Option<String> {
    let needs = [Need::Root, Need::Tun, Need::Program("ip"), Need::Program("nsenter"), Need::Program("bash")];
    support::missing(&needs).or_else(|| (workers::cpus() < 2).then(|| "there is one CPU only".to_owned()))
}

/// Runs the attacks; returns true if all requirements are met. The last line is a summary.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = parse(arguments)?;
    demand()?;
    Ok(attacks(&options)?.faults.is_empty())
}

/// Runs all attacks and appends what is to be kept of them to `lines`; returns the names of those that were not measured.
pub(crate) fn run_and_keep(lines: &mut Vec<String>) -> Result<Vec<String>> {
    demand()?;
    lines.extend(kept::lines(&all(SECONDS)?, SECONDS));
    Ok(kept::without_row(lines).map(|spec| spec.name.to_owned()).collect())
}

/// Fails if attacks cannot run here.
fn demand() -> Result<()> {
    match missing() {
        Some(why) => bail!("attacks are not possible here: {why}"),
        None => Ok(()),
    }
}

/// Runs each attack for this many seconds.
pub(crate) fn all(seconds: u64) -> Result<Report> {
    attacks(&Options { seconds, binary: None, names: Vec::new() })
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { seconds: SECONDS, binary: None, names: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--seconds" => options.seconds = number(word, &mut rest)?,
            "--binary" => options.binary = rest.next().cloned(),
            name if ALL.iter().any(|spec| spec.name == name) => options.names.push(name.to_owned()),
            _ => {
                let names: Vec<_> = ALL.iter().map(|spec| spec.name).collect();
                bail!("unexpected `{word}`; there are --seconds N, --binary FILE, and {}", names.join(", "))
            }
        }
    }
    ensure!(options.seconds > 0, "--seconds 0: an attack takes time");
    Ok(options)
}

fn attacks(options: &Options) -> Result<Report> {
    let binary = match &options.binary {
        Some(binary) => std::path::absolute(binary)?.to_string_lossy().into_owned(),
        None => release_build()?,
    };
    let wanted =
        |spec: &&Spec| options.names.is_empty() || options.names.iter().any(|name| name == spec.name);
    let mut report = Report::default();
    println!(
        "commit {}, load {}",
        output("git", &["rev-parse", "--short", "HEAD"]),
        output("cat", &["/proc/loadavg"])
    );
    for spec in ALL.iter().filter(wanted) {
        match trial::run(&binary, spec, options.seconds) {
            Ok(outcome) => {
                println!("{}", told(&outcome));
                report.faults.extend(outcome.faults.iter().map(|fault| format!("{}: {fault}", outcome.name)));
                report.rows.push(kept::row(&outcome));
            }
            Err(error) => report.add(spec.name, &error),
        }
    }
    print!("\n{}", kept::table(&report.rows));
    report.tell();
    Ok(report)
}

impl Report {
    /// Records an attack that could not be carried out.
    fn add(&mut self, name: &str, error: &anyhow::Error) {
        let place = if error.is::<NotHere>() { &mut self.skipped } else { &mut self.faults };
        place.push(format!("{name}: {error:#}"));
    }

    fn tell(&self) {
        self.skipped.iter().for_each(|why| println!("SKIPPED: {why}"));
        self.faults.iter().for_each(|fault| println!("FAULT {fault}"));
        let verdict = if self.faults.is_empty() { "hold" } else { "FAIL" };
        println!("attacks {verdict}: {} faults", self.faults.len());
    }
}

/// Formats an outcome in one line.
fn told(outcome: &Outcome) -> String {
    let (low, median, high) = outcome.ratio;
    let (seen, lost) = (&outcome.seen, outcome.lost.values().sum::<u64>());
    format!(
        "{}: {} acts in {:.0} s; neighbour {:.0} kpps, {median:.3} ({low:.3} to {high:.3}) of its rate, {lost} lost {:?}; \
         it waits for its CPU {:.2} of the time ({:.2} without); ps {} times, {:.1?} at most ({:.1?} with who asks), counters \
         {:.1?}; {} lines",
        outcome.name,
        outcome.acts,
        outcome.seconds,
        outcome.rate / 1e3,
        outcome.lost,
        outcome.waited[0],
        outcome.waited[1],
        seen.answers,
        seen.longest,
        seen.longest_in_all,
        outcome.counters,
        outcome.lines
    )
}
