//! Storage of runs: one file each, in a folder for each kind of machine.
//!
//! ```text
//! results/amd-epyc-family-26-model-2-2-cpus/000-fig13.txt
//!     # AMD EPYC (family 26 model 2), 2 CPUs, Linux 6.18.44
//!     # commit aeaba63
//!     # 2026-11-23
//!     printed lines, without the RESULT lines of single cells (of a bench: only these, and a line MISSING for cases without a result;
//!     of the attacks: as in `attacks::kept`, and such a line MISSING)
//! results/amd-epyc-family-26-model-2-2-cpus/000-fig13@0a1b2c3.txt
//!     the run that it replaced, whatever its results
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::step::{Step, output, release_lab, root};
use crate::{attacks, bench};

/// Default rounds of a bench; the interval of a median needs six.
pub(super) const ROUNDS: usize = 10;
/// Name of a bench among those of figures.
pub(super) const BENCH: &str = "bench";
/// Name of all attacks.
pub(super) const ATTACKS: &str = "attacks";

/// Directory of drawings, beside the pages of the documentation that refer to them.
const DRAWINGS: &str = "docs/diagrams";

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// `000/fig13`, `bench` or `attacks`.
    pub(super) name: String,
    /// Model and number of CPUs, and kernel.
    pub(super) machine: String,
    pub(super) commit: String,
    pub(super) date: String,
    /// Printed lines.
    pub(super) lines: Vec<String>,
    /// Earlier runs with this name on this machine, oldest first.
    pub(super) earlier: Vec<Run>,
}

/// Prefix of the line that names cases which a bench did not measure in every round, or attacks that were not measured.
const MISSING: &str = "MISSING ";

impl Run {
    /// Parses a file.
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

    /// Formats the run as it is stored.
    pub(super) fn text(&self) -> String {
        let Self { machine, commit, date, lines, .. } = self;
        format!("# {machine}\n# commit {commit}\n# {date}\n{}\n", lines.join("\n"))
    }

    /// Names of the cases that a bench did not measure in every round, or of attacks that were not measured.
    pub(super) fn missing(&self) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(MISSING))
    }

    /// Stores the run in this folder; the run that it replaces is kept beside it, under a name with its commit.
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

    /// Path of an earlier run, the n-th of its commit, whose place at `path` is taken by another.
    fn place_of_earlier(&self, path: &Path, n: usize) -> PathBuf {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let again = if n == 1 { String::new() } else { format!("-{n}") };
        path.with_file_name(format!("{stem}@{}{again}.txt", self.commit))
    }

    /// Path of the run if it is the newest one on this kind of machine.
    fn path(&self) -> PathBuf {
        let machine = self.machine.split(", Linux").next().unwrap_or_default().to_lowercase();
        let words =
            machine.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let folder = words.collect::<Vec<_>>().join("-");
        Path::new("results").join(folder).join(format!("{}.txt", self.name.replace('/', "-")))
    }
}

/// Reads all current runs in a folder, by machine and name, each with its earlier runs.
///
/// # Errors
/// A file cannot be read.
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

/// Sorted entries of a folder; empty if it does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// Runs a figure or the bench, in this many rounds, or the attacks, and stores the output; returns its path, or none if it failed. The
/// stored output names the cases that a bench did not measure in every round, and attacks that were not measured.
///
/// # Errors
/// The tree differs from its commit, or the run cannot be stored.
pub(super) fn play(name: &str, rounds: Option<usize>) -> Result<Option<(PathBuf, Run)>> {
    let written_from_results = [":!results", ":!docs", ":!README.md", ":!SECURITY.md"];
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    if !output("git", &[&status[..], &written_from_results].concat()).is_empty() {
        bail!("the tree differs from its commit: what is measured is to be found again");
    }
    // Read the commit first: the programs are built from it, even if another commit is made meanwhile.
    let (commit, date) = (output("git", &["rev-parse", "--short", "HEAD"]), output("date", &["-u", "+%F"]));
    let Some(lines) = printed(name, rounds)? else { return Ok(None) };
    let run =
        Run { name: name.to_owned(), machine: bench::machine(), commit, date, lines, earlier: Vec::new() };
    Ok(Some((run.keep(&root())?, run)))
}

/// Runs it and returns the lines to store; none if there is nothing to store.
fn printed(name: &str, rounds: Option<usize>) -> Result<Option<Vec<String>>> {
    let mut lines = Vec::new();
    if name == BENCH {
        let missing = bench::run_and_keep(rounds.unwrap_or(ROUNDS), &mut lines)?;
        return Ok(with_missing(lines, &missing));
    }
    if name == ATTACKS {
        let missing = attacks::run_and_keep(&mut lines)?;
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

/// Appends a line that names what was not measured, or not in every round; none if nothing was measured.
fn with_missing(mut lines: Vec<String>, missing: &[String]) -> Option<Vec<String>> {
    if lines.is_empty() {
        return None;
    }
    if !missing.is_empty() {
        lines.push(format!("{MISSING}{}", missing.join(", ")));
    }
    Some(lines)
}

/// Builds the command that runs a figure.
fn of_figure(lab: &str, name: &str, rounds: Option<usize>) -> Step {
    let repeat = rounds.map(|rounds| ["--repeat".to_owned(), rounds.to_string()]);
    let step = Step::new(lab).args(["run", name]).args(repeat.into_iter().flatten());
    let drawings = root().join(DRAWINGS).display().to_string();
    let drawn = is_drawn(name).then(|| ["--svg".to_owned(), drawings]);
    step.args(drawn.into_iter().flatten()).limit(bench::WHOLE)
}

/// Returns true if a figure is a diagram, according to its file.
fn is_drawn(name: &str) -> bool {
    let file = root().join("figures").join(format!("{}.toml", name.replace('/', "-")));
    fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line.starts_with("draws = ")))
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
