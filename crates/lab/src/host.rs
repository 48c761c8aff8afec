//! Description of the machine that a result was measured on.

use std::fs;
use std::process::Command;
use std::time::SystemTime;

use host::cores;
use measure::processor::{self, field};
use serde::Serialize;
use telemetry::Moment;

/// Facts about the host that belong to every figure.
#[derive(Clone, Debug, Serialize)]
pub struct Host {
    /// Model name of the processor, with family and model.
    pub cpu: String,
    /// Clock of the first CPU as the kernel reports it, in MHz, which converts a rate into cycles per packet; 0 if
    /// unknown.
    pub mhz: f64,
    /// CPUs online.
    pub cores: usize,
    /// Kernel release.
    pub kernel: String,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Vendor and product of the hypervisor if the machine is virtual, else `none`.
    pub hypervisor: String,
    /// Commit that was measured, with `-dirty` where the tree differs from it; `unknown` outside a checkout.
    pub commit: String,
    /// Date and time (UTC) of this description.
    pub date: String,
}

impl Host {
    /// Describes this machine. Unknown values are `unknown` or 0.
    pub fn describe() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            cpu: processor::name(&cpuinfo),
            mhz: field(&cpuinfo, "cpu MHz").and_then(|mhz| mhz.parse().ok()).unwrap_or(0.0),
            cores: cores::online().map_or(0, |cpus| cpus.len()),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            memory_mib: memory_mib(&meminfo),
            hypervisor: hypervisor(&cpuinfo),
            commit: commit(),
            date: utc(SystemTime::now()),
        }
    }
}

fn memory_mib(meminfo: &str) -> u64 {
    let total = field(meminfo, "MemTotal").and_then(|value| value.split_whitespace().next());
    total.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn hypervisor(cpuinfo: &str) -> String {
    let virtual_machine =
        field(cpuinfo, "flags").is_some_and(|f| f.split_whitespace().any(|f| f == "hypervisor"));
    if !virtual_machine {
        return "none".to_owned();
    }
    let read = |name: &str| fs::read_to_string(format!("/sys/class/dmi/id/{name}")).ok();
    let words: Vec<String> = ["sys_vendor", "product_name"].iter().filter_map(|name| read(name)).collect();
    let name = words.iter().map(|word| word.trim()).collect::<Vec<_>>().join(" ");
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Commit set when the program was built, else that of the checkout in the working directory.
fn commit() -> String {
    if let Some(commit) = option_env!("RINGROAD_COMMIT") {
        return commit.to_owned();
    }
    let output = Command::new("git").args(["describe", "--always", "--dirty", "--exclude=*"]).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Formats a time as `2026-11-21T04:05:06Z`.
pub fn utc(time: SystemTime) -> String {
    let moment = Moment::from(time).to_string();
    let (seconds, _) = moment.split_once('.').unwrap_or((&moment, ""));
    format!("{seconds}Z")
}

#[cfg(test)]
mod tests;
