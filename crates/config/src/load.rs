//! Entry points: from a file or a text to a plan.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::de::DeTable;

use crate::error::Errors;
use crate::plan::Plan;
use crate::section::{Report, Section};
use crate::source_lines::SourceLines;
use crate::{read, verify};

/// Most octets of a file.
pub const MOST_OCTETS: u64 = 1 << 20;

/// Loads and validates a file.
///
/// # Errors
/// Everything that is wrong with it, one line each; see [`Errors`].
pub fn load(path: &Path) -> Result<Plan, Errors> {
    parse(&text(path)?, &path.display().to_string())
}

/// Reads a file for [`parse`].
///
/// # Errors
/// It cannot be read, is too long, or is not UTF-8 text.
pub fn text(path: &Path) -> Result<String, Errors> {
    let file = path.display().to_string();
    let whole = |what: String| {
        let mut errors = Errors::new(&file);
        errors.push(0, "", what);
        errors
    };
    let mut octets = Vec::new();
    let opened = File::open(path).map_err(|error| whole(format!("cannot be opened: {error}")))?;
    let read = opened.take(MOST_OCTETS + 1).read_to_end(&mut octets);
    read.map_err(|error| whole(format!("cannot be read: {error}")))?;
    if octets.len() as u64 > MOST_OCTETS {
        return Err(whole("larger than 1 MiB, the most that a file may be".to_owned()));
    }
    String::from_utf8(octets).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|octet| **octet == b'\n').count() + 1;
        let mut errors = Errors::new(&file);
        let what = "an octet that is not UTF-8; save the file as UTF-8";
        errors.push(u32::try_from(line).unwrap_or(u32::MAX), "", what);
        errors
    })
}

/// Parses and validates a text; `file` is its name in errors and, without folder and `.toml`, the default
/// name of the run.
///
/// # Errors
/// Everything that is wrong with it, one line each; see [`Errors`].
pub fn parse(text: &str, file: &str) -> Result<Plan, Errors> {
    if text.len() as u64 > MOST_OCTETS {
        let mut errors = Errors::new(file);
        errors.push(0, "", "larger than 1 MiB, the most that a file may be");
        return Err(errors);
    }
    let report = Report::new(text, file);
    if text.trim().is_empty() {
        report.error(0, "", "the file is empty; it describes at least one [[router]]");
        return Err(report.into_errors());
    }
    let (document, faults) = DeTable::parse_recoverable(text);
    if !faults.is_empty() {
        for fault in &faults {
            syntax_error(&report, text, fault);
        }
        return Err(report.into_errors());
    }
    let stem =
        Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let places = SourceLines { file: file.to_owned(), ..SourceLines::default() };
    let plan = read::document(&Section::document(document.get_ref(), &report), &stem, places);
    verify::verify(&plan).into_iter().for_each(|fault| report.note(&plan, fault));
    let errors = report.into_errors();
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

fn syntax_error(report: &Report, text: &str, fault: &toml::de::Error) {
    let span = fault.span().unwrap_or(0..0);
    let message = fault.message().replace(['\n', '\r'], " ");
    let here = text.get(span.clone()).unwrap_or("");
    let line = report.line(span);
    if message == "duplicate key" {
        report.error(line, here, "is there twice; remove one");
    } else {
        report.error(line, "", format!("not TOML: {message}"));
    }
}
