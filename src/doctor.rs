//! `ringroad doctor`: prints findings about this host, one per line.

use anyhow::Result;
use host::Finding;

/// Makes all checks and prints the findings.
pub(crate) fn doctor(json: bool) -> Result<()> {
    let findings = host::findings();
    command_line::print(&if json { lines(&findings)? } else { table(&findings) })
}

/// One JSON object per line.
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
