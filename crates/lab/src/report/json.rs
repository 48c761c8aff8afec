//! One JSON object a line.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::host::Host;
use crate::ledger_snapshot::Snapshot;
use crate::stats::Summary;

/// Whether a result meets what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Fails,
    /// A paper's claim does not hold here, for a reason that its figure states.
    Contradicts,
    /// Nothing was measured, or nothing is asked, or too little to tell.
    NotRun,
}

impl Verdict {
    /// Of an interval, both of whose ends count: it holds if all of it lies from `least` to `most`, and fails if none of it does.
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

/// All there is to know about one case.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Experiment.
    pub id: String,
    /// What was varied: `kvm/virtio-net/64`.
    pub case: String,
    /// Unit of the samples.
    pub unit: String,
    /// Samples in the order they were taken.
    pub samples: Vec<f64>,
    /// Their median.
    pub median: Option<f64>,
    /// 95 % interval of the median.
    pub ci95: Option<(f64, f64)>,
    /// Cache-line round trip before and after each sample, ns; null where it could not be told.
    pub c2c_ns: Vec<[f64; 2]>,
    /// Samples taken while the CPUs were near each other, as `[median, min, max, n]`.
    pub near: Option<[f64; 4]>,
    /// Samples taken while the CPUs were far from each other, as `[median, min, max, n]`.
    pub far: Option<[f64; 4]>,
    /// Further figures by name.
    pub more: BTreeMap<String, f64>,
    /// What the counters of all samples grew by.
    pub ledger: Snapshot,
    /// Whether the result meets what is asked.
    pub verdict: Verdict,
    /// Why.
    pub why: String,
    /// The machine; its commit and date are those below.
    pub host: Host,
    /// Commit that was measured.
    pub commit: String,
    /// When, UTC.
    pub date: String,
}

impl Record {
    /// A case of which nothing is known yet.
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

/// A summary as `[median, min, max, n]`.
pub(crate) fn quadruple(summary: Summary) -> [f64; 4] {
    [summary.median, summary.min, summary.max, summary.n as f64]
}

/// Appends the record to a file as one line: wholly or, where the disk is full, not at all.
pub fn append(path: &Path, record: &Record) -> Result<()> {
    let name = path.display();
    let mut line = serde_json::to_string(record).context("cannot write a result as JSON")?;
    line.push('\n');
    let open = OpenOptions::new().append(true).create(true).open(path);
    let mut file = open.with_context(|| format!("cannot open {name}"))?;
    let before = file.metadata().with_context(|| format!("cannot look at {name}"))?.len();
    let written = file.write_all(line.as_bytes());
    if written.is_err() {
        // The file stays as it was; if even that fails, the first error is the one to tell.
        let _ = file.set_len(before);
    }
    written.with_context(|| format!("cannot write {name}"))
}
