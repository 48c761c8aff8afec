//! Test programs: built by cargo, found in its messages, listed by themselves.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::step::{COMMAND, LAB, Step, target_dir};
use crate::tally::Tally;

use super::job::Job;
use super::{TestOptions, models, tier};

/// Target whose tests each run in a process of their own.
const END_TO_END: &str = "e2e";
/// Time limit of a build.
const LIMIT: Duration = Duration::from_secs(2400);

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Package and target, with a space between; for unit tests, the package alone.
    pub(crate) name: String,
    /// Name of the target.
    pub(crate) target: String,
    /// Path of the program.
    pub(crate) path: PathBuf,
    /// Folder of its package, in which cargo would run it.
    folder: PathBuf,
}

/// Builds everything that is tested, in three configurations: crates with debug assertions, the command (and the lab that it starts)
/// like the release but less optimised, and the models.
///
/// A configuration that does not build counts as a failure; the others are tested all the same.
pub(super) fn build(tally: &mut Tally) -> Result<Vec<Program>> {
    let tests = || Step::new("cargo").args(["test", "--no-run"]).limit(LIMIT);
    let crates = tests().args(["--workspace", "--exclude", "ringroad", "--exclude", "ringroad-inbox"]);
    let command = tests().args(["--profile", "quick", "--package", COMMAND]);
    let lab = Step::new("cargo").args(["build", "--profile", "quick", "--package", LAB.0]).limit(LIMIT);
    let packages = models::packages()?;
    let models = tests().args(["--profile", "model", "--test", "*_loom"]);
    let models = models.args(packages.iter().flat_map(|package| ["--package", package]));
    let models = models.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", target_dir().join("loom"));
    let mut programs = Vec::new();
    for (name, step) in [("crates", crates), ("the command", command), ("the lab", lab), ("models", models)] {
        println!("\n== build: {name}");
        match built(step)? {
            Some(found) => programs.extend(found),
            None => tally.fail(&format!("build: {name}"), []),
        }
    }
    // Models are empty when compiled without `--cfg loom`.
    programs.retain(|program| program.is_model() == program.path.starts_with(target_dir().join("loom")));
    Ok(programs)
}

/// Builds tests; none if they do not build.
pub(crate) fn built(step: Step) -> Result<Option<Vec<Program>>> {
    let step = step.args(["--message-format", "json-render-diagnostics"]);
    let mut programs = Vec::new();
    let well = step.lines(&mut |line| match program(line) {
        Some(found) => programs.push(found),
        None if line.starts_with('{') => {}
        None => println!("{line}"),
    })?;
    programs.sort_by(|a: &Program, b| a.name.cmp(&b.name));
    Ok(well.then_some(programs))
}

/// Parses a message of cargo that describes a test program.
fn program(line: &str) -> Option<Program> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let target = message.get("target")?;
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let kind = target.get("kind")?.get(0)?.as_str()?;
    let target = target.get("name")?.as_str()?.to_owned();
    let folder = manifest.parent()?.to_owned();
    // `path+file:///…/ring#ringroad-ring@0.1.0`, or `…/xtask#0.1.0` if the folder has the package's name.
    let (folder_name, version) = message.get("package_id")?.as_str()?.rsplit_once('#')?;
    let package = version.split_once('@').map_or(folder_name.rsplit('/').next()?, |(name, _)| name);
    let package = package.strip_prefix("ringroad-").unwrap_or(package);
    let name = if kind == "test" { format!("{package} {target}") } else { package.to_owned() };
    is_test.then_some(Program { name, target, path, folder })
}

impl Program {
    fn is_model(&self) -> bool {
        self.target.ends_with("_loom")
    }

    /// Lists the names of its tests.
    ///
    /// # Errors
    /// The program does not list them.
    pub(crate) fn tests(&self) -> Result<Vec<String>> {
        let listed = Command::new(&self.path).args(["--list", "--format", "terse"]).output();
        let listed = listed.with_context(|| format!("cannot start {}", self.path.display()))?;
        ensure!(listed.status.success(), "{} does not list its tests", self.path.display());
        Ok(listed_in(&String::from_utf8_lossy(&listed.stdout)))
    }

    /// Creates the jobs for its tests.
    pub(super) fn jobs(&self, wish: &TestOptions) -> Result<Vec<Job>> {
        Ok(self.jobs_of(&self.tests()?, wish))
    }

    fn jobs_of(&self, tests: &[String], wish: &TestOptions) -> Vec<Job> {
        let each = self.target == END_TO_END;
        let (wanted, others): (Vec<&String>, Vec<&String>) = tests.iter().partition(|test| wish.takes(test));
        let (own, rest): (Vec<&String>, Vec<&String>) =
            wanted.into_iter().partition(|test| each || tier::is_alone(test));
        let mut jobs: Vec<Job> = own.iter().map(|test| self.one(test)).collect();
        if !rest.is_empty() {
            let skipped = others.into_iter().chain(own);
            let skips = skipped.flat_map(|test| ["--skip".to_owned(), test.clone()]);
            let arguments = ["--exact".to_owned()].into_iter().chain(skips).collect();
            jobs.push(self.job(self.name.clone(), arguments));
        }
        jobs
    }

    /// Creates the job for one test in a process of its own.
    fn one(&self, test: &str) -> Job {
        let name = if self.target == END_TO_END { test.to_owned() } else { format!("{}: {test}", self.name) };
        let job = self.job(name, vec!["--exact".to_owned(), test.to_owned()]);
        Job { alone: tier::is_alone(test), ..job }
    }

    fn job(&self, name: String, arguments: Vec<String>) -> Job {
        Job::of(name, &self.path.to_string_lossy(), self.folder.clone(), arguments)
    }
}

fn listed_in(said: &str) -> Vec<String> {
    said.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "programs_tests.rs"]
mod tests;
