//! `ringroad lab run`: runs experiments by name, optionally two alternating variants, and prints the results.

use std::cell::LazyCell;
use std::io;
use std::time::Duration;

use anyhow::{Result, bail};
use command_line::print;
use host::cores;
use lab::experiment::{Comparison, Experiment, Options, Outcome, compare, report, run};
use lab::experiments::{Case, ExperimentEntry, LIST, find};
use lab::figures::Figure;
use lab::host::Host;
use lab::self_rate;

use crate::figures;
use crate::options::RunOptions;

/// Duration of the measurement of the generator's own rate.
const OWN_RATE: Duration = Duration::from_millis(50);

/// Lists all experiments and figures, one per line, with what each measures.
///
/// # Errors
/// A figure's file is invalid.
pub(crate) fn list() -> Result<String> {
    let line = |name: &str, what: &str| format!("{name:<19} {what}\n");
    let figures = lab::figures::all()?;
    let experiments = LIST.iter().map(|listed| line(listed.name, listed.what));
    Ok(experiments.chain(figures.iter().map(|figure| line(&figure.id, &figure.title))).collect())
}

/// Meaning of a name on the command line.
enum Named {
    Experiment(&'static ExperimentEntry),
    Figures(Vec<Figure>),
}

impl Named {
    fn has_guest(&self) -> bool {
        match self {
            Self::Experiment(listed) => listed.has_guest,
            Self::Figures(figures) => figures.iter().any(Figure::plays_something),
        }
    }
}

/// Looks up all names before the first experiment runs.
fn named(names: &[String]) -> Result<Vec<Named>> {
    let find = |name: &String| {
        if let Some(listed) = find(name) {
            return Ok(Named::Experiment(listed));
        }
        let figures = lab::figures::find(name)?;
        if figures.is_empty() {
            let figures = lab::figures::all()?;
            let ids = figures.iter().map(|figure| figure.id.as_str());
            let known: Vec<&str> = LIST.iter().map(|listed| listed.name).chain(ids).collect();
            bail!("there is no experiment `{name}`; there are: {}", known.join(" "))
        }
        Ok(Named::Figures(figures))
    };
    names.iter().map(find).collect()
}

/// Runs everything that is named, one after the other.
///
/// # Errors
/// A name is unknown, its options do not fit together, or this host refused all of its cases.
pub(crate) fn run_all(names: &[String], chosen: &RunOptions) -> Result<()> {
    let named = named(names)?;
    let mut options = chosen.options();
    if options.cpus.is_empty() {
        // This thread will later be pinned to one of them.
        options.cpus = cores::allowed()?;
    }
    let other = chosen.other(&options)?;
    [Some(&options), other.as_ref()].into_iter().flatten().try_for_each(Options::check)?;
    if named.iter().any(Named::has_guest) {
        for options in [Some(&options), other.as_ref()].into_iter().flatten() {
            lab::device::backend(options)?;
        }
    }
    // Describe the host only when a result is printed: `boot` measures how soon this command gets to its first
    // frame.
    let host: LazyCell<Host> = LazyCell::new(Host::describe);
    for named in &named {
        match (named, &other) {
            (Named::Experiment(listed), Some(other)) => {
                ExperimentRun { listed, options: &options, host: &host }.versus(other)?;
            }
            (Named::Experiment(listed), None) => {
                ExperimentRun { listed, options: &options, host: &host }.cases()?
            }
            (Named::Figures(_), Some(_)) => bail!("a figure says itself what is varied; leave --versus out"),
            (Named::Figures(all), None) => {
                let run =
                    |figure: &Figure| figures::run(figure, &chosen.for_a_figure(figure, &options), &host);
                all.iter().try_for_each(run)?;
            }
        }
    }
    Ok(())
}

/// Experiment with the options that it runs with.
struct ExperimentRun<'a> {
    listed: &'static ExperimentEntry,
    options: &'a Options,
    host: &'a LazyCell<Host>,
}

impl ExperimentRun<'_> {
    fn cases(&self) -> Result<()> {
        let (mut told, mut refused) = (0, None);
        for case in (self.listed.cases)(self.options)? {
            cores::pin(self.options.cpu(0)?)?;
            match case {
                Case::Alone(mut experiment) => match run(&mut experiment, self.options) {
                    Ok(outcome) => {
                        self.tell(outcome, self.options)?;
                        told += 1;
                    }
                    // The cases are independent: if the host refuses one, the others may still run.
                    Err(error) if experiment.is_whole => {
                        let name = format!("{}/{}", experiment.id, experiment.case);
                        print(&format!("NOT-RUN {name}: {error:#}\n"))?;
                        refused = Some(error);
                    }
                    Err(error) => return Err(error),
                },
                Case::Alternating(a, b) => self.in_turn((a, self.options), (b, self.options))?,
            }
        }
        match refused {
            Some(error) if told == 0 => Err(error),
            _ => Ok(()),
        }
    }

    /// Alternates an experiment with itself under other options.
    fn versus(&self, other: &Options) -> Result<()> {
        let (a, b) = ((self.listed.cases)(self.options)?, (self.listed.cases)(other)?);
        for pair in a.into_iter().zip(b) {
            let (Case::Alone(a), Case::Alone(b)) = pair else {
                bail!("{} is compared with something else already; leave --versus out", self.listed.name);
            };
            cores::pin(self.options.cpu(0)?)?;
            self.in_turn((a, self.options), (b, other))?;
        }
        Ok(())
    }

    fn in_turn(&self, a: Variant<'_>, b: Variant<'_>) -> Result<()> {
        let (mut first, mut second) = (a.0, b.0);
        let comparison = compare(&mut first, &mut second, self.options)?;
        self.tell(comparison.a.clone(), a.1)?;
        self.tell(comparison.b.clone(), b.1)?;
        print(&ratio_line(&comparison))
    }

    /// Prints a result. It is marked as a lower bound if the generator itself is not much faster.
    fn tell(&self, mut outcome: Outcome, options: &Options) -> Result<()> {
        let Some(traffic) = (self.listed.traffic)(options) else {
            return report(&outcome, options, self.host, &mut io::stdout());
        };
        let own = self_rate::mpps(&traffic, OWN_RATE)?;
        for measured in &mut outcome.measured {
            measured.sample.more.push("generator_mpps", own);
        }
        report(&outcome, options, self.host, &mut io::stdout())?;
        let reached = outcome.summary().map_or(0.0, |summary| summary.median);
        if own < self_rate::HEADROOM * reached {
            print(&format!(
                "NOTE generator and sink alone reach {own:.1} mpps, less than {} times the result: it is a lower bound\n",
                self_rate::HEADROOM
            ))?;
        }
        Ok(())
    }
}

/// Experiment with the options it was created with.
type Variant<'a> = (Experiment, &'a Options);

/// Formats `RATIO a=… b=… median=… ci95=…..… n=…`, over the pairs whose CPUs were at the same distance.
fn ratio_line(comparison: &Comparison) -> String {
    let name = |outcome: &Outcome| format!("{}/{}", outcome.id, outcome.case);
    let names = format!("RATIO a={} b={}", name(&comparison.a), name(&comparison.b));
    let Some(ratio) = comparison.ratio() else {
        return format!("{names} n=0: the CPUs never stood alike in both halves of a pair\n");
    };
    let interval = ratio.ci95.map_or("unknown".to_owned(), |(low, high)| format!("{low:.3}..{high:.3}"));
    format!("{names} median={:.3} ci95={interval} pairs={}\n", ratio.median, ratio.n)
}

#[cfg(test)]
mod tests;
