//! What is kept of a run of all attacks in `results/`, and what SECURITY.md shows of it.
//!
//! ```text
//! SECONDS 60
//! | wait | 0.2 | 21 | -359 | 279 / 279 | 600 / 460 | 6 / -1 | 6 | 0.999 (0.995 to 1.004) |
//! SKIPPED: console: why
//! FAULT hasty: what
//! ```

use std::fmt::Write as _;

use super::Report;
use super::list::{ALL, Spec};
use super::trial::Outcome;

/// Beginnings of lines that are no rows.
const SECONDS: &str = "SECONDS ";
const SKIPPED: &str = "SKIPPED: ";
const FAULT: &str = "FAULT ";

const HEAD: &str = "| attack | a second | control | supervisor | neighbour, with / without | KiB, most / left | \
                    descriptors, most / left | `ps`, ms | ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|---|\n";

/// Formats an outcome as a row that names its attack, without what that does.
pub(super) fn row(outcome: &Outcome) -> String {
    let (low, median, high) = outcome.ratio;
    format!(
        "| {} | {:.1} | {:.0} | {:.0} | {:.0} / {:.0} | {} / {} | {} / {} | {:.0} | {median:.3} ({low:.3} to {high:.3}) |",
        outcome.name,
        outcome.acts as f64 / outcome.seconds.max(1e-9),
        outcome.control,
        outcome.supervisor,
        outcome.near[0],
        outcome.near[1],
        outcome.most.0 / 1024,
        outcome.left.0 / 1024,
        outcome.most.1,
        outcome.left.1,
        outcome.seen.longest.as_secs_f64() * 1e3,
    )
}

/// Formats the rows among these lines as a Markdown table that says what each attack does.
pub(super) fn table(lines: &[String]) -> String {
    let mut text = HEAD.to_owned();
    for (name, figures) in lines.iter().filter_map(|line| cells(line)) {
        let does = ALL.iter().find(|spec| spec.name == name).map_or("of an earlier commit", |spec| spec.does);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{name}`: {does} | {figures}");
    }
    text
}

/// Splits a row into the name of its attack and its figures; `None` for any other line.
fn cells(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("| ")?.split_once(" | ")
}

/// Formats a report as the lines that are kept of it; none if it has no rows.
pub(super) fn lines(report: &Report, seconds: u64) -> Vec<String> {
    if report.rows.is_empty() {
        return Vec::new();
    }
    let in_one_line = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let skipped = report.skipped.iter().map(|why| format!("{SKIPPED}{}", in_one_line(why)));
    let faults = report.faults.iter().map(|fault| format!("{FAULT}{}", in_one_line(fault)));
    let mut lines = vec![format!("{SECONDS}{seconds}")];
    lines.extend(report.rows.iter().cloned().chain(skipped).chain(faults));
    lines
}

/// Attacks that have no row among these lines.
pub(super) fn without_row(lines: &[String]) -> impl Iterator<Item = &'static Spec> {
    ALL.iter()
        .filter(move |spec| !lines.iter().filter_map(|line| cells(line)).any(|(name, _)| name == spec.name))
}

/// Formats what SECURITY.md shows of a run: machine, commit and date, the table, faults, and attacks without a row.
pub(crate) fn section((machine, commit, date): (&str, &str, &str), lines: &[String]) -> String {
    let after = |start: &'static str| lines.iter().filter_map(move |line| line.strip_prefix(start));
    let (seconds, faults) = (after(SECONDS).next().unwrap_or("?"), after(FAULT).count());
    let mut text = format!(
        "{machine}; commit `{commit}`, {date}; {seconds} s of each attack; faults: {faults}.\n\n{}",
        table(lines)
    );
    if faults > 0 {
        text.push_str("\nFaults:\n\n");
        after(FAULT).for_each(|fault| text.push_str(&format!("* {fault}\n")));
    }
    let item = |spec: &Spec| {
        let why = after(SKIPPED).find_map(|skipped| skipped.strip_prefix(spec.name)?.strip_prefix(": "));
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        format!("* `{}`: {}{why}\n", spec.name, spec.does)
    };
    let others: String = without_row(lines).map(item).collect();
    if !others.is_empty() {
        text.push_str(&format!("\nAttacks of the runner that this run did not measure:\n\n{others}"));
    }
    text
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
