//! Tests that two builds of one commit give the same package.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Facts, build, made, missing};
use crate::step::target_dir;
use crate::tally::Tally;

/// Name of the test in reports.
const NAME: &str = "package of two builds";

/// Builds command and lab in two target folders, packs both builds, and records whether the packages are
/// identical.
pub(crate) fn reproducible(tally: &mut Tally) -> Result<()> {
    println!("\n== {NAME}");
    let targets = [target_dir(), target_dir().join("again")];
    count(&targets, missing(), build, tally)
}

fn count(
    targets: &[PathBuf; 2],
    missing: Option<String>,
    build: impl Fn(&Path) -> Result<PathBuf>,
    tally: &mut Tally,
) -> Result<()> {
    if let Some(why) = missing {
        tally.skipped.push(format!("{NAME}: {why}"));
        return Ok(());
    }
    // Use the same facts for both, even if a commit is made meanwhile.
    let facts = Facts::gather()?;
    let package = |target: &PathBuf| made(&build(target)?, &facts, &target.join("twice"));
    let packages = targets.iter().map(package).collect::<Result<Vec<_>>>();
    let differ = packages.and_then(|packages| difference(&packages[0], &packages[1]));
    match differ {
        Ok(None) => tally.passed += 1,
        Ok(Some(why)) => tally.fail(NAME, [why.as_str()]),
        Err(error) => tally.fail(NAME, [format!("{error:#}").as_str()]),
    }
    Ok(())
}

/// Describes the difference of two files, if there is one.
fn difference(first: &Path, second: &Path) -> Result<Option<String>> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let (a, b) = (read(first)?, read(second)?);
    if a == b {
        return Ok(None);
    }
    let at = a.iter().zip(&b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    Ok(Some(format!("{} and {} differ from octet {at} on", first.display(), second.display())))
}

#[cfg(test)]
#[path = "reproducible_tests.rs"]
mod tests;
