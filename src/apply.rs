//! `ringroad apply FILE`: changes a run to what a file says.

mod stream;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use api::{Answer, Request};
use clap::Args;
use command_line::client::{self, Kind, Target, unexpected};

/// Octets of the longest file: in a message each may take two, and a message must not exceed
/// [`api::LONGEST_APPLY`].
const LONGEST: u64 = (api::LONGEST_APPLY / 2 - 4096) as u64;

/// Options of `ringroad apply`.
#[derive(Args)]
pub(crate) struct Options {
    /// Configuration file (TOML)
    #[arg(required_unless_present = "stream")]
    file: Option<PathBuf>,
    /// Apply each file of standard input, as `ringroad remote --follow` prints them, each followed by a line "# end of file"
    #[arg(long, conflicts_with = "file")]
    stream: bool,
    /// Name of the run; default: the one named like the file, or the only one
    #[arg(long)]
    run: Option<String>,
    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object per change and line
    #[arg(long)]
    json: bool,
}

/// Applies a file, or each of a stream, to a run, and prints the changes.
///
/// # Errors
/// The file cannot be read or is invalid, or there is no such run.
pub(crate) fn apply(options: &Options) -> Result<()> {
    let Some(file) = options.file.as_deref() else { return stream::apply(options) };
    // Its faults are reported with their lines before the run is contacted.
    let plan = config::load(file)?;
    let text = read(file)?;
    let mut target = options.target(&plan.name)?;
    let absolute = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    options.change(&mut target, absolute.to_string_lossy().into_owned(), text)
}

impl Options {
    /// The run that is meant; unless it is named, the one with this name or the only one.
    fn target(&self, name: &str) -> Result<Target> {
        match &self.run {
            Some(run) => client::find(run, Kind::Run),
            None => client::named_or_only(name),
        }
    }

    /// Applies the text of a file, and prints the changes.
    fn change(&self, target: &mut Target, file: String, text: String) -> Result<()> {
        let request = Request::Apply { file, text, dry_run: self.dry_run };
        match client::request_change(&mut target.client, &request)? {
            Answer::Applied { changes, dry_run } => {
                let run = &target.status.run;
                client::print_from_run(&if self.json {
                    lines(&changes)?
                } else {
                    text_of(run, &changes, dry_run)
                })
            }
            _ => Err(unexpected().into()),
        }
    }
}

fn read(file: &Path) -> Result<String> {
    let mut text = String::new();
    let opened = fs::File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    opened
        .take(LONGEST + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(text.len() as u64 <= LONGEST, "{} is too long: at most {LONGEST} octets", file.display());
    Ok(text)
}

fn lines(changes: &[api::Change]) -> Result<String> {
    changes.iter().map(|change| Ok(serde_json::to_string(change)? + "\n")).collect()
}

fn text_of(run: &str, changes: &[api::Change], dry_run: bool) -> String {
    if changes.is_empty() {
        return format!("run {run} is what the file says already\n");
    }
    let mut text =
        if dry_run { format!("run {run} would change:\n") } else { format!("run {run} has changed:\n") };
    for change in changes {
        let loss = match (&change.why, change.hitless) {
            (_, true) => "no packet is lost".to_owned(),
            (Some(why), false) => format!("packets may be lost: {why}"),
            (None, false) => "packets may be lost".to_owned(),
        };
        text.push_str(&format!("  {} ({loss})\n", change.what));
    }
    text
}

#[cfg(test)]
mod tests;
