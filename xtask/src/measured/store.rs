//! Runs that are kept: a file for each, below a folder for each kind of machine.
//!
//! ```text
//! results/amd-epyc-family-26-model-2-2-cpus/000-fig13.txt
//!     # AMD EPYC (family 26 model 2), 2 CPUs, Linux 6.18.44
//!     # commit aeaba63
//!     # 2026-11-23
//!     what was printed, without the RESULT lines of single cells (of a bench: these alone, and a line MISSING for what gave none)
//! results/amd-epyc-family-26-model-2-2-cpus/000-fig13@0a1b2c3.txt
//!     the run that stood before, whatever it found
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::bench;
use crate::step::{Step, output, release_lab, root};

/// Rounds of a bench, if the caller does not say how many: six are what an interval of a median wants.
pub(super) const ROUNDS: usize = 10;
/// The name of a bench among those of figures.
pub(super) const BENCH: &str = "bench";

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// `000/fig13`, or `bench`.
    pub(super) name: String,
    /// CPU, how many, and kernel.
    pub(super) machine: String,
    pub(super) commit: String,
    pub(super) date: String,
    /// What was printed.
    pub(super) lines: Vec<String>,
    /// Runs of that name on that machine whose place it has taken, from the oldest on.
    pub(super) earlier: Vec<Run>,
}

/// What a bench has not measured in every round, in what is kept of it.
const MISSING: &str = "MISSING ";

impl Run {
    /// Reads a file.
    ///
    /// # Errors
    /// It does not begin with machine, commit and date.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let mut head = || lines.next()?.strip_prefix("# ").map(str::to_owned);
        let head = head().zip(head()).zip(head());
        let Some(((machine, commit), date)) = head else { bail!("{name}: no machine, commit and date") };
        let commit = commit.trim_start_matches("commit ").to_owned();
        let (name, lines, earlier) = (name.to_owned(), lines.map(str::to_owned).collect(), Vec::new());
        Ok(Self { name, machine, commit, date, lines, earlier })
    }

    /// As it is kept.
    pub(super) fn text(&self) -> String {
        let Self { machine, commit, date, lines, .. } = self;
        format!("# {machine}\n# commit {commit}\n# {date}\n{}\n", lines.join("\n"))
    }

    /// What a bench has not measured in every round.
    pub(super) fn missing(&self) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(MISSING))
    }

    /// Keeps it in this folder; the run whose place it takes stays beside it, under the name of its commit.
    ///
    /// # Errors
    /// A file cannot be read, renamed or written.
    fn keep(&self, top: &Path) -> Result<PathBuf> {
        let path = self.path();
        let whole = top.join(&path);
        let folder = whole.parent().context("a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        if let Ok(text) = fs::read_to_string(&whole) {
            let stood = Self::parse(&self.name, &text)?;
            let place = (1..).map(|n| stood.place_of_earlier(&whole, n)).find(|place| !place.exists());
            fs::rename(&whole, place.context("a name")?)
                .with_context(|| format!("cannot rename {}", path.display()))?;
        }
        fs::write(&whole, self.text()).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Where the n-th run of its commit is kept when another one stands at `path`.
    fn place_of_earlier(&self, path: &Path, n: usize) -> PathBuf {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let again = if n == 1 { String::new() } else { format!("-{n}") };
        path.with_file_name(format!("{stem}@{}{again}.txt", self.commit))
    }

    /// Where it is kept: the newest run on such a machine.
    fn path(&self) -> PathBuf {
        let machine = self.machine.split(", Linux").next().unwrap_or_default().to_lowercase();
        let words =
            machine.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let folder = words.collect::<Vec<_>>().join("-");
        Path::new("results").join(folder).join(format!("{}.txt", self.name.replace('/', "-")))
    }
}

/// All runs that stand in a folder, by machine and name, each with those before it.
///
/// # Errors
/// One cannot be read.
pub(super) fn runs(folder: &Path) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for machine in entries(folder) {
        let (first, mut earlier) = (runs.len(), Vec::new());
        for file in entries(&machine) {
            let shown = file.display();
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {shown}"))?;
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().replacen('-', "/", 1);
            match stem.split_once('@') {
                None => runs.push(Run::parse(&stem, &text)?),
                Some((name, _)) => earlier.push(Run::parse(name, &text)?),
            }
        }
        earlier.sort_by(|a, b| a.date.cmp(&b.date));
        for run in earlier {
            let stands = runs.iter_mut().skip(first).find(|stands| stands.name == run.name);
            stands
                .with_context(|| format!("{}: no run stands after that of {}", run.name, run.commit))?
                .earlier
                .push(run);
        }
    }
    Ok(runs)
}

/// What is in a folder, in order; nothing if it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Plays a figure or the bench, in so many rounds, and keeps what was printed; where, or nothing if it failed. What a bench has not
/// measured in every round is named in what is kept.
///
/// # Errors
/// The tree was changed since its commit, or the run cannot be kept.
pub(super) fn play(name: &str, rounds: Option<usize>) -> Result<Option<(PathBuf, Run)>> {
    let written_from_results = [":!results", ":!docs", ":!README.md"];
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    if !output("git", &[&status[..], &written_from_results].concat()).is_empty() {
        bail!("the tree differs from its commit: what is measured is to be found again");
    }
    // What is measured is built from this, whatever is committed meanwhile.
    let (commit, date) = (output("git", &["rev-parse", "--short", "HEAD"]), output("date", &["-u", "+%F"]));
    let Some(lines) = printed(name, rounds)? else { return Ok(None) };
    let run =
        Run { name: name.to_owned(), machine: bench::machine(), commit, date, lines, earlier: Vec::new() };
    Ok(Some((run.keep(&root())?, run)))
}

/// What a run prints; nothing if there is nothing to keep of it.
fn printed(name: &str, rounds: Option<usize>) -> Result<Option<Vec<String>>> {
    let mut lines = Vec::new();
    if name == BENCH {
        let missing = bench::run_and_keep(rounds.unwrap_or(ROUNDS), &mut lines)?;
        return Ok(with_missing(lines, &missing));
    }
    let step = of_figure(&release_lab()?, name, rounds);
    let well = step.lines(&mut |line| {
        println!("{line}");
        if !line.starts_with("RESULT ") {
            lines.push(line.to_owned());
        }
    })?;
    Ok((well && !lines.is_empty()).then_some(lines))
}

/// The lines of a bench, with one that names what was not measured in every round; none if nothing was measured.
fn with_missing(mut lines: Vec<String>, missing: &[String]) -> Option<Vec<String>> {
    if lines.is_empty() {
        return None;
    }
    if !missing.is_empty() {
        lines.push(format!("{MISSING}{}", missing.join(", ")));
    }
    Some(lines)
}

/// The command that plays a figure.
fn of_figure(lab: &str, name: &str, rounds: Option<usize>) -> Step {
    let repeat = rounds.map(|rounds| ["--repeat".to_owned(), rounds.to_string()]);
    let step = Step::new(lab).args(["run", name]).args(repeat.into_iter().flatten());
    step.limit(bench::WHOLE)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
