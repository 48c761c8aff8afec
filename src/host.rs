//! What this host has, read from /proc and /sys.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use config::{HostFacts, InterfaceKind, Plan};
use measure::processor::field;

use crate::doctor;

/// `IFF_TAP` of `linux/if_tun.h`.
const IFF_TAP: u32 = 2;

/// What a plan depends on.
pub(crate) fn facts(plan: &Plan) -> HostFacts {
    let linux = plan.routers.iter().any(|router| router.linux.is_some());
    HostFacts {
        no_linux: if linux { no_linux() } else { None },
        cpus: cpus(),
        memory_available: memory_available(),
        interfaces: interfaces(),
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
pub(crate) fn need_tun(plan: &Plan) -> anyhow::Result<()> {
    let is_tap = |nic: &config::Nic| {
        matches!(nic.attach, config::Attach::Tap(_) | config::Attach::Bridge(_) | config::Attach::Ovs(_))
    };
    if plan.nics().any(|(_, nic)| is_tap(nic)) { doctor::need(doctor::tun_device()) } else { Ok(()) }
}

/// CPUs that this process may use.
pub(crate) fn cpus() -> BTreeSet<u32> {
    let allowed = lab::cores::allowed().unwrap_or_default();
    allowed.into_iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

/// Memory that can be had without swapping, in octets.
fn memory_available() -> Option<u64> {
    memory("MemAvailable")
}

/// All memory of the host, in octets.
pub(crate) fn memory_total() -> Option<u64> {
    memory("MemTotal")
}

fn memory(name: &str) -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = field(&meminfo, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

/// The content of a small file, without white space at its ends.
pub(crate) fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Interfaces of this network namespace.
fn interfaces() -> BTreeMap<String, InterfaceKind> {
    let Ok(folder) = fs::read_dir("/sys/class/net") else { return BTreeMap::new() };
    let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.map(|name| (kind(&name), name)).map(|(kind, name)| (name, kind)).collect()
}

fn kind(name: &str) -> InterfaceKind {
    if Path::new(&format!("/sys/class/net/{name}/bridge")).exists() {
        return InterfaceKind::Bridge;
    }
    let flags = read(&format!("/sys/class/net/{name}/tun_flags"));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    match flags {
        Some(flags) if flags & IFF_TAP != 0 => InterfaceKind::Tap,
        _ => InterfaceKind::Other,
    }
}
