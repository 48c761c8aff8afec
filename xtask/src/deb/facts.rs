//! Metadata of a package: version, commit, dates, maintainer, and contained libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::step::{COMMAND, LAB, output};

/// Facts about the commit and the host.
pub(super) struct Facts {
    version: String,
    architecture: String,
    commit: String,
    maintainer: String,
    /// Time of the last commit, in seconds since 1970.
    pub(super) epoch: String,
}

impl Facts {
    pub(super) fn gather() -> Result<Self> {
        let commit = output("git", &["rev-parse", "--short", "HEAD"]);
        ensure!(!commit.is_empty(), "a package is made from a commit, and this is no git checkout");
        let facts = Self {
            version: version(&commit),
            architecture: output("dpkg", &["--print-architecture"]),
            maintainer: maintainer(),
            epoch: output("git", &["log", "-1", "--format=%ct"]),
            commit,
        };
        ensure!(!facts.architecture.is_empty(), "dpkg does not tell the architecture");
        Ok(facts)
    }

    pub(super) fn file_name(&self) -> String {
        format!("ringroad_{}_{}.deb", self.version, self.architecture)
    }

    /// Replaces each `{fact}` in a text.
    pub(super) fn fill_in(&self, text: &str) -> Result<String> {
        let at = format!("@{}", self.epoch);
        let filled = text
            .replace("{version}", &self.version)
            .replace("{architecture}", &self.architecture)
            .replace("{commit}", &self.commit)
            .replace("{maintainer}", &self.maintainer)
            .replace("{date}", &output("date", &["-u", "-R", "-d", &at]))
            .replace("{year}", &output("date", &["-u", "+%Y", "-d", &at]));
        Ok(if filled.contains("{crates}") { filled.replace("{crates}", &crates()?) } else { filled })
    }
}

/// Version of the workspace; if it has no tag yet, a version that sorts before it.
fn version(commit: &str) -> String {
    let release = env!("CARGO_PKG_VERSION");
    if output("git", &["tag", "--points-at", "HEAD"]).lines().any(|tag| tag == format!("v{release}")) {
        return release.to_owned();
    }
    let moment = output("git", &["log", "-1", "--date=format-local:%Y%m%d%H%M%S", "--format=%cd"]);
    format!("{release}~git{moment}.{commit}")
}

/// Maintainer as Debian's own tools determine it, or else the author of the last commit.
fn maintainer() -> String {
    match (std::env::var("DEBFULLNAME"), std::env::var("DEBEMAIL")) {
        (Ok(name), Ok(address)) => format!("{name} <{address}>"),
        _ => output("git", &["log", "-1", "--format=%an <%ae>"]),
    }
}

/// Lists the libraries contained in the programs, with their licences, one per line.
fn crates() -> Result<String> {
    let format = "{p} ({l})";
    let words = [
        "tree",
        "--locked",
        "-p",
        COMMAND,
        "-p",
        LAB.0,
        "-e",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "-f",
        format,
    ];
    let listed = output("cargo", &words);
    // The trees of the two packages are separated by an empty line.
    let is_foreign = |line: &&str| !line.is_empty() && !line.starts_with("ringroad");
    let foreign = listed.lines().map(|line| line.trim_end_matches(" (*)")).filter(is_foreign);
    let sorted: BTreeSet<String> = foreign.map(|line| format!(" {line}")).collect();
    ensure!(!sorted.is_empty(), "cargo tree names no library");
    Ok(sorted.into_iter().collect::<Vec<_>>().join("\n"))
}

/// Names in a folder, sorted.
pub(super) fn names_in(folder: &Path) -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}
