//! House rules that can be checked on the text of the tree.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Most lines of a source file.
const PRODUCT_LINES: usize = 500;
/// Most lines of a file of tests.
const TEST_LINES: usize = 900;
/// Folders without sources of this project.
const LEFT_OUT: [&str; 5] = ["target", ".git", "artifacts", "corpus", "data"];
/// Extensions of the files that are checked.
const TEXTS: [&str; 9] = ["rs", "toml", "md", "sh", "py", "c", "h", "yml", "svg"];
/// Crates that may contain `unsafe` blocks.
const MAY_BE_UNSAFE: &str = "bpf door ring nic_port vmm uplink sandbox sched signals threads vhost_user";
/// Text that product files must not contain, split so that this file passes, and the reason.
const FORBIDDEN: [(&str, &str, &str); 8] = [
    ("/wo", "rk/", "a path of one machine"),
    ("/tm", "p/", "a path that others can write to: ask the standard library for the temporary folder"),
    ("/ho", "me/", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("todo", "!(", "unfinished code"),
    ("unimplemented", "!(", "unfinished code"),
    ("#[ign", "ore", "a test that never runs"),
    ("allow(dead", "_code)", "code that nobody uses"),
];

/// Top-level folders with which the names of files in documents begin.
const FOLDERS: &str = "bench crates docs examples figures fuzz guest lab src tests xtask";

/// Violation of a rule, with its location.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    path: PathBuf,
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.what)
    }
}

/// Checks every text file under `root`.
pub(crate) fn faults(root: &Path) -> Result<Vec<Fault>> {
    let mut found = Vec::new();
    for file in texts(root)? {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let path = file.strip_prefix(root).unwrap_or(&file);
        found.extend(judge(path, &text));
        found.extend(lost_files(path, &text, |named| root.join(named).exists()));
    }
    Ok(found)
}

/// Lists the text files under `root`, sorted.
pub(crate) fn texts(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        if kind.is_dir() {
            if !LEFT_OUT.iter().any(|folder| name == *folder) {
                collect(&path, files)?;
            }
        } else if kind.is_file()
            && path.extension().is_some_and(|kind| TEXTS.iter().any(|text| kind == *text))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Checks one file.
fn judge(path: &Path, text: &str) -> Vec<Fault> {
    let fault = |line, what| Fault { path: path.to_owned(), line, what };
    let mut found = Vec::new();
    let tests = is_test(path);
    let (lines, most) = (text.lines().count(), if tests { TEST_LINES } else { PRODUCT_LINES });
    if is_code(path) && lines > most {
        found.push(fault(
            lines,
            format!("{lines} lines, at most {most}: give a second job a file of its own"),
        ));
    }
    if lacks_forbid(path, text) {
        found.push(fault(1, "says no #![forbid(unsafe_code)]".to_owned()));
    }
    for (number, line) in text.lines().enumerate().filter(|_| !tests) {
        let hits = FORBIDDEN.iter().filter(|(head, tail, _)| line.contains(&format!("{head}{tail}")));
        found.extend(hits.map(|(head, tail, why)| fault(number + 1, format!("`{head}{tail}`: {why}"))));
    }
    found
}

/// Finds what a document names as a file of the tree and is none. The changelog names what was there once.
fn lost_files(path: &Path, text: &str, is_there: impl Fn(&str) -> bool) -> Vec<Fault> {
    if path.extension().is_none_or(|kind| kind != "md") || path.ends_with("CHANGELOG.md") {
        return Vec::new();
    }
    let is_lost = |word: &&str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
        let top = word.split_once('/').map(|(top, _)| top);
        let is_name = word.chars().all(is_plain) && FOLDERS.split(' ').any(|folder| top == Some(folder));
        is_name && !is_there(word) && !is_there(&format!("{word}.rs"))
    };
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // Code stands between every other pair of backticks.
        let lost = line.split('`').skip(1).step_by(2).filter(is_lost);
        let fault = |word: &str| Fault {
            path: path.to_owned(),
            line: number + 1,
            what: format!("there is no `{word}`: name the file from the top of the tree"),
        };
        found.extend(lost.map(fault));
    }
    found
}

fn is_code(path: &Path) -> bool {
    path.extension().is_some_and(|kind| ["rs", "sh", "py", "c", "h"].iter().any(|code| kind == *code))
}

/// Returns true if a file consists of tests.
pub(crate) fn is_test(path: &Path) -> bool {
    let file = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let in_tests = path.components().any(|part| part.as_os_str() == "tests");
    in_tests || file == "tests" || file.ends_with("_tests")
}

/// Returns true if this is the root file of a crate that must forbid unsafe code and does not.
fn lacks_forbid(path: &Path, text: &str) -> bool {
    let Some(rest) = path.to_str().and_then(|path| path.strip_prefix("crates/")) else { return false };
    let Some(name) = rest.strip_suffix("/src/lib.rs") else { return false };
    MAY_BE_UNSAFE.split(' ').all(|may| may != name) && !text.contains("#![forbid(unsafe_code)]")
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
