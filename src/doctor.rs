//! `ringroad doctor`: what this host can do, one finding a line.

mod cpu;
mod devices;
mod kernel;

use std::borrow::Cow;

use anyhow::Result;
use serde::Serialize;

pub(crate) use cpu::cpus;
pub(crate) use devices::{huge_pages, kvm_device, tun_device};
pub(crate) use kernel::net_admin;

/// How a finding is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Missing, and something will not work.
    No,
    /// Works, but costs something or changes what figures mean.
    Note,
}

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::No => "no",
            Self::Note => "note",
        }
    }

    /// Ok if it holds, else the other.
    const fn ok_or(holds: bool, other: Self) -> Self {
        if holds { Self::Ok } else { other }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) state: State,
    pub(crate) what: Cow<'static, str>,
    pub(crate) figure: String,
    pub(crate) meaning: String,
}

impl Finding {
    pub(crate) fn new(
        state: State,
        what: impl Into<Cow<'static, str>>,
        figure: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        Self { state, what: what.into(), figure: figure.into(), meaning: meaning.into() }
    }
}

/// Fails with the finding's one line where something needed is missing.
pub(crate) fn need(finding: Finding) -> Result<()> {
    if finding.state == State::No { Err(anyhow::anyhow!(finding.meaning)) } else { Ok(()) }
}

/// Looks at everything and prints it.
pub(crate) fn doctor(json: bool) -> Result<()> {
    let mut findings = devices::findings();
    findings.extend(cpu::findings());
    findings.extend(kernel::findings());
    crate::print(&if json { lines(&findings)? } else { table(&findings) })
}

/// An object a line.
fn lines(findings: &[Finding]) -> Result<String> {
    findings.iter().map(|finding| Ok(serde_json::to_string(finding)? + "\n")).collect()
}

/// `state  what  figure  meaning`, in columns.
pub(crate) fn table(findings: &[Finding]) -> String {
    let width = |column: fn(&Finding) -> &str| {
        findings.iter().map(|finding| column(finding).chars().count()).max().unwrap_or(0)
    };
    let (what, figure) = (width(|finding| &finding.what), width(|finding| &finding.figure));
    let rows = findings.iter().map(|finding| {
        let Finding { state, what: name, figure: value, meaning } = finding;
        format!("{:<4}  {name:<what$}  {value:<figure$}  {meaning}\n", state.word())
    });
    rows.collect()
}

#[cfg(test)]
mod tests;
