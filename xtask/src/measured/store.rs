//! Runs that are kept: a file for each, below a folder for each kind of machine.
//!
//! ```text
//! results/amd-epyc-family-26-model-2-2-cpus/000-fig13.txt
//!     # AMD EPYC (family 26 model 2), 2 CPUs, Linux 6.18.44
//!     # commit aeaba63
//!     # 2026-11-23
//!     what was printed, without the RESULT lines of single cells (of a bench: these alone)
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::bench;
use crate::step::{Step, output, release_lab, root};

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
}

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
        Ok(Self { name: name.to_owned(), machine, commit, date, lines: lines.map(str::to_owned).collect() })
    }

    /// As it is kept.
    pub(super) fn text(&self) -> String {
        let Self { machine, commit, date, lines, .. } = self;
        format!("# {machine}\n# commit {commit}\n# {date}\n{}\n", lines.join("\n"))
    }

    /// Where it is kept: the next run on such a machine takes its place.
    fn path(&self) -> PathBuf {
        let machine = self.machine.split(", Linux").next().unwrap_or_default().to_lowercase();
        let words =
            machine.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let folder = words.collect::<Vec<_>>().join("-");
        Path::new("results").join(folder).join(format!("{}.txt", self.name.replace('/', "-")))
    }
}

/// All runs in a folder, by machine and name.
///
/// # Errors
/// One cannot be read.
pub(super) fn runs(folder: &Path) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for machine in entries(folder) {
        for file in entries(&machine) {
            let shown = file.display();
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {shown}"))?;
            let stem = file.file_stem().unwrap_or_default().to_string_lossy().replacen('-', "/", 1);
            runs.push(Run::parse(&stem, &text)?);
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

/// Plays a figure, or the bench in so many rounds, and keeps what was printed; where, or nothing if it failed.
///
/// # Errors
/// The tree was changed since its commit, or the run cannot be kept.
pub(super) fn play(name: &str, rounds: usize) -> Result<Option<PathBuf>> {
    if !output(
        "git",
        &["status", "--porcelain", "--untracked-files=no", "--", ":!results", ":!docs", ":!README.md"],
    )
    .is_empty()
    {
        bail!("the tree differs from its commit: what is measured is to be found again");
    }
    let mut lines = Vec::new();
    let well = if name == BENCH {
        bench::run_and_keep(rounds, &mut lines)?
    } else {
        let step = Step::new(&release_lab()?).args(["run", name]).limit(bench::WHOLE);
        step.lines(&mut |line| {
            println!("{line}");
            if !line.starts_with("RESULT ") {
                lines.push(line.to_owned());
            }
        })?
    };
    if !well || lines.is_empty() {
        return Ok(None);
    }
    let machine = bench::machine();
    let (commit, date) = (output("git", &["rev-parse", "--short", "HEAD"]), output("date", &["-u", "+%F"]));
    let run = Run { name: name.to_owned(), machine, commit, date, lines };
    let path = run.path();
    let whole = root().join(&path);
    if let Some(folder) = whole.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(&whole, run.text()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Some(path))
}
