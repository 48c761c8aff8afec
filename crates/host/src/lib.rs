//! Inspection of this host, and of what a plan names on it; nothing is changed.
//!
//! This module reads the facts that a plan depends on from /proc and /sys. [`references`] checks what a plan
//! names: interfaces, files, sockets, devices; [`needs`] checks its other requirements. [`findings`] describe
//! the host without a plan. [`users`] are the users of the host. [`cores`] are its CPUs, and pinning to them;
//! [`c2c`] measures the distance between two of them. [`own_files`] decides whether a program next to this
//! one may be started.
#![forbid(unsafe_code)]

pub mod c2c;
mod control_plane;
pub mod cores;
mod cpu;
mod devices;
mod finding;
mod kernel;
pub mod needs;
pub mod own_files;
pub mod references;
pub mod users;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};

use config::{HostFacts, Plan};
use measure::processor::field;

pub use devices::tun_device;
pub use finding::{Finding, State, need};
pub use kernel::net_admin;

/// Device by which TAPs are created.
pub const TUN: &str = "/dev/net/tun";

/// Checks everything: devices, CPUs, what the kernel permits. Starts a process of this program to find out
/// how far a data plane can be isolated.
pub fn findings() -> Vec<Finding> {
    let mut findings = devices::findings();
    findings.extend(cpu::findings());
    findings.extend(kernel::findings());
    findings
}

/// Facts that a plan depends on.
pub fn facts(plan: &Plan) -> HostFacts {
    let linux = plan.routers.iter().any(|router| router.linux.is_some());
    HostFacts {
        no_linux: if linux { no_linux() } else { None },
        cpus: cpus(),
        memory_available: memory_available(),
        no_kvm: vmm::open_kvm().err().map(|error| format!("{error:#}")),
    }
}

/// Why stock Linux guests would not boot here, although there is KVM.
fn no_linux() -> Option<String> {
    match vmm::probe::ring0_is_emulated() {
        Ok(false) => None,
        Ok(true) => Some(
            "this host emulates guest ring 0 instruction by instruction, in which a Linux guest does not come up in \
             time: run it where KVM is native, or write another engine"
                .to_owned(),
        ),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// Fails, in one line, if a plan has TAPs and this host cannot provide them.
///
/// # Errors
/// That line.
pub fn need_tun(plan: &Plan) -> anyhow::Result<()> {
    if plan.links().any(|wanted| wanted.needs_tun()) || plan.shadowed().next().is_some() {
        tun().map_err(anyhow::Error::msg)
    } else {
        Ok(())
    }
}

/// Checks whether TAPs can be created.
///
/// # Errors
/// In one line, why not.
pub fn tun() -> Result<(), String> {
    let why = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => format!("there is no {TUN}: the tun driver is not loaded (modprobe tun)"),
        ErrorKind::PermissionDenied => format!("no permission to open {TUN}: run as root"),
        _ => format!("cannot open {TUN}: {error}"),
    };
    let opened = OpenOptions::new().read(true).write(true).open(TUN);
    opened.map(drop).map_err(|error| format!("{}; no TAP uplinks", why(error)))
}

/// CPUs that this process may use.
pub fn cpus() -> BTreeSet<u32> {
    let allowed = cores::allowed().unwrap_or_default();
    allowed.into_iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

/// Memory available without swapping, in octets.
fn memory_available() -> Option<u64> {
    memory("MemAvailable")
}

/// Total memory of the host, in octets.
pub fn memory_total() -> Option<u64> {
    memory("MemTotal")
}

fn memory(name: &str) -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = field(&meminfo, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

/// Content of a small file, without leading and trailing white space.
pub fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
