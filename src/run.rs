//! `ringroad run`: brings a file up and shows what it does until it is told to stop.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use supervisor::Log;

/// Options of `ringroad run`.
#[derive(Args)]
pub(crate) struct Options {
    /// Configuration file (TOML)
    file: PathBuf,
    /// Stop after so many seconds
    #[arg(long, value_parser = command_line::seconds)]
    seconds: Option<Duration>,
    /// Print one JSON object per second instead of the live table
    #[arg(long)]
    json: bool,
    /// Print all events on standard error, not only trouble
    #[arg(long, value_parser = log())]
    log: Option<Log>,
    /// Name of the run, instead of the file's
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// User that the data plane runs as, by name or number, if root starts it; default: a number that no
    /// other process has
    #[arg(long)]
    user: Option<String>,
    /// Memory ceiling of all its processes together, as 512M or 4G, instead of what the file needs at most
    /// (docs/limits.md)
    #[arg(long, value_parser = config::read_memory_max)]
    memory_max: Option<u64>,
}

/// Runs a file.
///
/// # Errors
/// What is wrong with it or missing on this host, one line each.
pub(crate) fn run(options: Options) -> Result<()> {
    let Options { file, seconds, json, log, name, user, memory_max } = options;
    supervisor::run(&file, supervisor::Options { time: seconds, json, log, name, user, memory_max })
}

/// Parser of the format of events.
fn log() -> impl TypedValueParser<Value = Log> {
    let words = [("text", "Every event, a line of text"), ("json", "Every event, a JSON object a line")];
    let words = words.map(|(word, meaning)| PossibleValue::new(word).help(meaning));
    PossibleValuesParser::new(words).map(|word| if word == "json" { Log::Json } else { Log::Text })
}

/// Validates a name that can also be that of a folder.
fn name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=31).contains(&text.len()) && text.chars().all(plain) && !text.starts_with('-') {
        return Ok(text.to_owned());
    }
    Err("use 1 to 31 of a-z, 0-9 and -, a letter or digit first".to_owned())
}
