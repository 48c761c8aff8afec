//! `cargo xtask lines`: counts lines of Rust, in product and tests, by crate.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::sources::{self, is_test};
use crate::step::root;

/// Number of lines of some text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    all: usize,
    /// Lines that are neither blank nor comments.
    code: usize,
}

/// Line counts of a crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    product: Lines,
    test: Lines,
}

impl AddAssign for Lines {
    fn add_assign(&mut self, more: Self) {
        self.all += more.all;
        self.code += more.code;
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.product += more.product;
        self.test += more.test;
    }
}

impl fmt::Display for Count {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { product, test } = self;
        write!(out, "{:>9} {:>9} {:>9} {:>9}", product.code, product.all, test.code, test.all)
    }
}

/// Counts the lines of this tree, or of a commit.
///
/// # Errors
/// There is no such commit, or a file cannot be read.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let unpacked = tempfile::tempdir()?;
    let folder = match arguments {
        [] => root(),
        [commit] => unpack(commit, unpacked.path()).map(|()| unpacked.path().to_owned())?,
        _ => bail!("expected at most one commit"),
    };
    let counts = count(&folder)?;
    let mut total = Count::default();
    println!("{:<20} {:>9} {:>9} {:>9} {:>9}", "", "product", "with", "tests", "with");
    for (name, count) in counts {
        println!("{name:<20} {count}");
        total += count;
    }
    println!("{:<20} {total}", "all");
    println!("with: blank lines and comments are counted");
    Ok(true)
}

/// Extracts the files of a commit into a folder.
fn unpack(commit: &str, folder: &Path) -> Result<()> {
    let mut archive = Command::new("git")
        .args(["archive", "--format=tar", commit])
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .context("git")?;
    let packed = archive.stdout.take().context("what git has packed")?;
    let unpacked = Command::new("tar").arg("-x").current_dir(folder).stdin(packed).status().context("tar")?;
    ensure!(archive.wait()?.success() && unpacked.success(), "there is no commit {commit}");
    Ok(())
}

/// Counts the lines under a folder, by crate.
fn count(folder: &Path) -> Result<BTreeMap<String, Count>> {
    let mut counts = BTreeMap::<String, Count>::new();
    for file in
        sources::texts(folder)?.into_iter().filter(|file| file.extension().is_some_and(|kind| kind == "rs"))
    {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let path: PathBuf = file.strip_prefix(folder).unwrap_or(&file).to_owned();
        *counts.entry(crate_of(&path)).or_default() += of_file(&path, &text);
    }
    Ok(counts)
}

/// Name of the crate, or folder, that a file belongs to.
fn crate_of(path: &Path) -> String {
    let mut parts = path.components().map(|part| part.as_os_str().to_string_lossy());
    match (parts.next(), parts.next()) {
        (Some(first), Some(second)) if first == "crates" => second.into_owned(),
        (Some(first), _) => first.into_owned(),
        (None, _) => String::new(),
    }
}

/// Counts the lines of a file: those in a test module count as tests.
fn of_file(path: &Path, text: &str) -> Count {
    let mut count = Count::default();
    let (mut is_next, mut within) = (false, false);
    let all = is_test(path) || path.components().any(|part| part.as_os_str() == "benches");
    for line in text.lines() {
        within |= is_next && line.starts_with("mod ") && line.ends_with('{');
        is_next = line == "#[cfg(test)]";
        let part = if all || within || is_next { &mut count.test } else { &mut count.product };
        *part += Lines { all: 1, code: usize::from(is_code(line)) };
        within &= line != "}";
    }
    count
}

fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
