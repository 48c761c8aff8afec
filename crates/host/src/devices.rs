//! Findings about KVM, the devices of uplinks, and huge pages.

use std::path::Path;

use vmm::probe::{KvmCosts, kvm_costs};

use crate::{Finding, State};

const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
const HUGE_PAGE: u64 = 2 << 20;

pub(crate) fn findings() -> Vec<Finding> {
    let mut findings = vec![kvm_device()];
    match kvm_costs() {
        Ok(costs) => findings.extend(kvm_findings(&costs)),
        Err(error) => findings.push(Finding::new(State::No, "kvm guest", "none runs", format!("{error:#}"))),
    }
    findings.push(tun_device());
    findings.push(vhost_device());
    findings.push(huge_pages(None));
    findings
}

/// Finding: can virtual machines be created?
pub(crate) fn kvm_device() -> Finding {
    match vmm::open_kvm() {
        Ok(kvm) => Finding::new(
            State::Ok,
            "/dev/kvm",
            format!("API {}", kvm.get_api_version()),
            "routers run as virtual machines",
        ),
        Err(error) => Finding::new(State::No, "/dev/kvm", "none", format!("{error:#}")),
    }
}

fn kvm_findings(costs: &KvmCosts) -> [Finding; 4] {
    let nanoseconds = |time: f64| format!("{time:.1} ns");
    let ring0 = if costs.ring0_is_emulated() {
        let meaning = "emulated by the host: firmware runs (in ring 3), stock Linux guests would crawl";
        Finding::new(State::Note, "guest ring 0", nanoseconds(costs.ring0_ns), meaning)
    } else {
        let meaning = "native: firmware and Linux guests run at full speed";
        Finding::new(State::Ok, "guest ring 0", nanoseconds(costs.ring0_ns), meaning)
    };
    let ring3 = costs.ring3_ns < 20.0;
    let ring3_meaning = if ring3 {
        "an iteration of a loop, native"
    } else {
        "an iteration of a loop: slow, routers will be too"
    };
    [
        Finding::new(
            State::ok_or(ring3, State::No),
            "guest ring 3",
            nanoseconds(costs.ring3_ns),
            ring3_meaning,
        ),
        ring0,
        Finding::new(
            State::Ok,
            "exit",
            format!("{:.1} us", costs.mmio_us),
            "a store that goes to user space and back",
        ),
        Finding::new(
            State::Ok,
            "kick",
            format!("{:.1} us", costs.kick_us),
            "a doorbell that the kernel answers (ioeventfd)",
        ),
    ]
}

/// Finding: can TAP interfaces be opened?
pub fn tun_device() -> Finding {
    match crate::tun() {
        Ok(()) => Finding::new(State::Ok, crate::TUN, "opens", "TAP uplinks work"),
        Err(why) => Finding::new(State::No, crate::TUN, "none", why),
    }
}

fn vhost_device() -> Finding {
    let path = "/dev/vhost-net";
    if Path::new(path).exists() {
        return Finding::new(State::Ok, path, "there", "vhost = \"kernel\" works");
    }
    Finding::new(State::Note, path, "none", "only needed for vhost = \"kernel\"")
}

/// Free huge pages, compared with the guest memory wanted, in octets.
pub(crate) fn huge_pages(wanted: Option<u64>) -> Finding {
    let name = "huge pages";
    let Some(free) = crate::read(HUGE_PAGES).and_then(|text| text.parse::<u64>().ok()) else {
        return Finding::new(
            State::Note,
            name,
            "unknown",
            "the kernel has none; guest memory uses 4 KiB pages",
        );
    };
    let figure = format!("{free} x 2 MiB free");
    let needed = wanted.map_or(1, |octets| octets.div_ceil(HUGE_PAGE));
    if free >= needed {
        return Finding::new(State::Ok, name, figure, "guest memory lies in huge pages");
    }
    let meaning =
        format!("guest memory uses 4 KiB pages; for huge ones: sysctl vm.nr_hugepages={}", needed.max(64));
    Finding::new(State::Note, name, figure, meaning)
}
