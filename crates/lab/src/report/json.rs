//! Results in JSON, one object per line.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::host::Host;
use crate::ledger_snapshot::Snapshot;
use crate::stats::Summary;

/// Verdict on a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The requirement is met.
    Holds,
    /// The requirement is not met.
    Fails,
    /// A paper's claim does not hold here, for a reason that the figure's file states.
    Contradicts,
    /// Not measured, no requirement, or too little data to decide.
    NotRun,
}

impl Verdict {
    /// Judges an interval (both ends included): it holds if it lies entirely between `least` and `most`, and fails if no part of
    /// it does.
    pub fn of((low, high): (f64, f64), (least, most): (f64, f64)) -> Self {
        if low >= least && high <= most {
            Self::Holds
        } else if high < least || low > most {
            Self::Fails
        } else {
            Self::NotRun
        }
    }
}

/// Complete result of one case.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Experiment.
    pub id: String,
    /// Parameters of the case: `kvm/virtio-net/64`.
    pub case: String,
    /// Unit of the samples.
    pub unit: String,
    /// Samples in the order they were taken.
    pub samples: Vec<f64>,
    /// Median of the samples.
    pub median: Option<f64>,
    /// 95 % interval of the median.
    pub ci95: Option<(f64, f64)>,
    /// Cache-line round trip before and after each sample, in ns; null where it could not be measured.
    pub c2c_ns: Vec<[f64; 2]>,
    /// Samples taken while the CPUs were near each other, as `[median, min, max, n]`.
    pub near: Option<[f64; 4]>,
    /// Samples taken while the CPUs were far from each other, as `[median, min, max, n]`.
    pub far: Option<[f64; 4]>,
    /// Additional figures by name.
    pub more: BTreeMap<String, f64>,
    /// Sum of the counters' increases over all samples.
    pub ledger: Snapshot,
    /// Verdict.
    pub verdict: Verdict,
    /// Reasons for the verdict.
    pub why: String,
    /// The machine; its commit and date are repeated below.
    pub host: Host,
    /// Commit that was measured.
    pub commit: String,
    /// Date and time, in UTC.
    pub date: String,
}

impl Record {
    /// Creates the record of a case without results.
    pub fn blank(id: &str, case: String, unit: &str, host: &Host) -> Self {
        Self {
            id: id.to_owned(),
            case,
            unit: unit.to_owned(),
            samples: Vec::new(),
            median: None,
            ci95: None,
            c2c_ns: Vec::new(),
            near: None,
            far: None,
            more: BTreeMap::new(),
            ledger: Snapshot::new(),
            verdict: Verdict::NotRun,
            why: String::new(),
            commit: host.commit.clone(),
            date: host.date.clone(),
            host: host.clone(),
        }
    }
}

/// Converts a summary to `[median, min, max, n]`.
pub(crate) fn quadruple(summary: Summary) -> [f64; 4] {
    [summary.median, summary.min, summary.max, summary.n as f64]
}

/// Appends the record to a file as one line: completely or, if the disk is full, not at all.
pub fn append(path: &Path, record: &Record) -> Result<()> {
    let name = path.display();
    let mut line = serde_json::to_string(record).context("cannot write a result as JSON")?;
    line.push('\n');
    let open = OpenOptions::new().append(true).create(true).open(path);
    let mut file = open.with_context(|| format!("cannot open {name}"))?;
    let before = file.metadata().with_context(|| format!("cannot look at {name}"))?.len();
    let written = file.write_all(line.as_bytes());
    if written.is_err() {
        // Restore the file's length; if even that fails, report the first error.
        let _ = file.set_len(before);
    }
    written.with_context(|| format!("cannot write {name}"))
}
