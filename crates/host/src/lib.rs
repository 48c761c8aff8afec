//! What this host has, and what of it a plan names: looked at, and never changed.
//!
//! Facts on which a plan depends are read from /proc and /sys here. [`named`] judges what a plan names: interfaces, files, sockets,
//! devices; [`needs`] what else it needs. [`findings`] are what can be told of the host without a plan. [`users`] are those of the
//! host. [`cores`] are its CPUs, and how to stay on one; [`c2c`] is how far apart two of them are.
//! [`own_files`] tells whether a program may be started that lies beside this one.
#![forbid(unsafe_code)]

pub mod c2c;
pub mod cores;
mod cpu;
mod devices;
mod finding;
mod kernel;
pub mod named;
pub mod needs;
pub mod own_files;
pub mod users;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};

use config::{HostFacts, Plan};
use measure::processor::field;

pub use devices::tun_device;
pub use finding::{Finding, State, need};
pub use kernel::net_admin;

/// Where TAPs are made.
pub const TUN: &str = "/dev/net/tun";

/// Looks at everything: devices, CPUs, what the kernel permits. A process of this program is started to see what shuts a data plane in.
pub fn findings() -> Vec<Finding> {
    let mut findings = devices::findings();
    findings.extend(cpu::findings());
    findings.extend(kernel::findings());
    findings
}

/// What a plan depends on.
pub fn facts(plan: &Plan) -> HostFacts {
    let linux = plan.routers.iter().any(|router| router.linux.is_some());
    HostFacts {
        no_linux: if linux { no_linux() } else { None },
        cpus: cpus(),
        memory_available: memory_available(),
        no_kvm: vmm::open_kvm().err().map(|error| format!("{error:#}")),
    }
}

/// Why stock guests would not come up here, although there is KVM.
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

/// Fails where a plan has TAPs and this host has none, in one line.
///
/// # Errors
/// That line.
pub fn need_tun(plan: &Plan) -> anyhow::Result<()> {
    if plan.nics().any(|(_, nic)| nic.attach.traits().needs_tun) {
        tun().map_err(anyhow::Error::msg)
    } else {
        Ok(())
    }
}

/// Whether TAPs can be made.
///
/// # Errors
/// Why not, in one line.
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

/// Memory that can be had without swapping, in octets.
fn memory_available() -> Option<u64> {
    memory("MemAvailable")
}

/// All memory of the host, in octets.
pub fn memory_total() -> Option<u64> {
    memory("MemTotal")
}

fn memory(name: &str) -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = field(&meminfo, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

/// The content of a small file, without white space at its ends.
pub fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}
