//! Kernel routers (`engine = "kernel"`) and container routers (`engine = "lxc"`), in both of which the host's kernel forwards:
//! their own keys, and the keys that do not apply to them. Below, kernel routers include container routers.

use std::path::PathBuf;

use crate::forwarding::ReversePath;
use crate::group::Balancer;
use crate::keys::{self, Change, Entry};
use crate::napi;
use crate::plan::{Container, Engine, ForwardingSettings, Nic, Router, RpFilter};
use crate::read::valued;
use crate::section::{Keywords, Section};
use crate::setting::Key;
use crate::six::{Six, is_six};

/// Keys of kernel routers that other routers do not have.
pub(crate) const KEYS: [&str; 5] = ["forwarding", "rp_filter", "proxy_arp", "threaded", "drop_reasons"];
/// Keys of container routers.
const OF_CONTAINERS: [&str; 2] = ["rootfs", "init"];
/// Default of `init` in a container with its own root.
const INIT: &str = "/sbin/init";
/// Keys about firmware, machine and their threads, which a kernel router does not have.
const OF_MACHINES: [&str; 10] = [
    "role",
    "misdeed",
    "vcpus",
    "memory",
    "vhost",
    "spin",
    "isolate",
    "neighbours",
    "long_routes",
    "redirects",
];
/// Keys about NICs of machines.
const OF_NICS: [&str; 11] = [
    "model",
    "mode",
    "itr",
    "combine",
    "combine_above",
    "queues",
    "hash",
    "queue_len",
    "deliver",
    "ring",
    "offload",
];
/// Counters of drops by reason, among the keys of a router.
pub(crate) const DROP_REASONS: Entry<Router> = Entry::new(
    "drop_reasons",
    ("true, false", "false"),
    "count the packets that the kernel drops by its reason, NAME.NIC.kernel.drop_REASON",
    Change::Free(Key::DropReasons),
    |router| keys::kernel(router, |kernel| kernel.drop_reasons.to_string()),
);
/// Interface names that are reserved in each namespace: `lo`, and entries of `/proc/sys/net/ipv4/conf`.
const TAKEN: [&str; 3] = ["lo", "all", "default"];

pub(crate) const RP_FILTERS: Keywords<RpFilter> = Keywords {
    noun: ("reverse path filter mode", "modes"),
    now: &[
        (RpFilter::Off.name(), RpFilter::Off),
        (RpFilter::Strict.name(), RpFilter::Strict),
        (RpFilter::Loose.name(), RpFilter::Loose),
    ],
    later: &[],
};

/// Keys that do not apply to a kernel router or its NICs.
pub(crate) fn inapplicable(router: &Router) -> impl Iterator<Item = &'static str> {
    let all = router.is_in_kernel().then(|| [&OF_MACHINES[..], napi::inapplicable(router), &OF_NICS[..]]);
    all.into_iter().flatten().flatten().copied()
}

/// Reads the keys of kernel routers; `None` for other engines, which refuse these keys.
pub(crate) fn read(section: &Section<'_>, engine: Option<Engine>) -> Option<ForwardingSettings> {
    if !engine.is_some_and(Engine::is_kernel) {
        for key in KEYS.into_iter().filter(|key| section.has(key)) {
            section.fault(section.line_of(key), key, not_forwarded_by_kernel());
        }
        return None;
    }
    for key in OF_MACHINES.into_iter().filter(|key| section.has(key)) {
        section.fault(section.line_of(key), key, not_ours(key));
    }
    let default = ForwardingSettings::default();
    Some(ForwardingSettings {
        forwarding: section.flag("forwarding", default.forwarding),
        rp_filter: section.word("rp_filter", &RP_FILTERS),
        proxy_arp: section.flag("proxy_arp", default.proxy_arp),
        threaded: section.has("threaded").then(|| section.flag("threaded", false)),
        drop_reasons: section.flag("drop_reasons", default.drop_reasons),
    })
}

/// Reads the keys of container routers; `None` for other engines, which refuse these keys.
pub(crate) fn container(section: &Section<'_>, engine: Option<Engine>) -> Option<Container> {
    if engine != Some(Engine::Lxc) {
        for key in OF_CONTAINERS.into_iter().filter(|key| section.has(key)) {
            let what = "only a container router has this key; remove it, or write engine = \"lxc\"";
            section.fault(section.line_of(key), key, what);
        }
        return None;
    }
    let rootfs = valued(section, "rootfs", "\"/srv/edge/rootfs\"", folder);
    if section.has("init") && !section.has("rootfs") {
        let what = "a container without rootfs runs no program; remove it, or write rootfs";
        section.fault(section.line_of("init"), "init", what);
    }
    let init = valued(section, "init", "\"/sbin/init\"", words);
    let init = init.or_else(|| rootfs.as_ref().map(|_| vec![INIT.to_owned()]));
    Some(Container { rootfs, init: init.unwrap_or_default() })
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let is_plain = !text.contains(|c: char| c.is_control() || c == '#') && text.trim() == text;
    if text.len() > 1 && text.starts_with('/') && is_plain {
        return Ok(PathBuf::from(text));
    }
    Err(format!("{text:?} is not the absolute path of a directory; write e.g. \"/srv/edge/rootfs\""))
}

/// Parses a program by its path, and its arguments.
fn words(text: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let is_odd =
        |word: &String| word.contains(|c: char| c.is_control() || c.is_whitespace() || "#\"'\\".contains(c));
    if words.first().is_some_and(|first| first.starts_with('/')) && !words.iter().any(is_odd) {
        return Ok(words);
    }
    Err(format!("{text:?} is not the absolute path of a program; write e.g. \"/sbin/init\""))
}

fn not_forwarded_by_kernel() -> &'static str {
    "only a kernel router has this key; remove it, or write engine = \"kernel\""
}

/// Error text for a key of the firmware or its machine: what the kernel has in its place, if it has anything.
fn not_ours(key: &str) -> &'static str {
    match key {
        "neighbours" => {
            "the kernel has one neighbour table for the whole host (net.ipv4.neigh.default.gc_thresh3); remove this key, or write \
             another engine"
        }
        "long_routes" => {
            "the kernel's route tables have room for networks of any length; remove this key, or write another engine"
        }
        "redirects" => {
            "the kernel sends redirects by its own parameter (net.ipv4.conf.NIC.send_redirects in the router's namespace); remove \
             this key, or write another engine"
        }
        _ => no_machine(),
    }
}

fn no_machine() -> &'static str {
    "a kernel router has no machine; remove this key, or write another engine"
}

/// Refuses IPv6 routes without a gateway by NICs that do not take part in IPv6.
fn verify_routes(section: &Section<'_>, router: &Router) {
    for table in section.tables("route") {
        let is_on_link = !table.has("via") && !table.has("type") && table.peek_text("to").is_some_and(is_six);
        let Some(name) = table.peek_text("nic").filter(|_| is_on_link) else { continue };
        if router.nics.iter().any(|nic| nic.name == name && nic.six.addresses.is_empty()) {
            let what = format!("NIC {name:?} has no IPv6 address, so it takes no part in IPv6; give it one");
            table.fault(table.line_of("nic"), "nic", what);
        }
    }
}

/// Checks the names and keys of interfaces for VLANs.
fn verify_vlans(section: &Section<'_>) {
    for table in section.tables("interface") {
        if let Some(name) = table.peek_text("name").filter(|name| TAKEN.contains(name)) {
            let what = format!("the kernel reserves the name {name:?}; choose another");
            table.fault(table.line_of("name"), "name", what);
        }
    }
}

/// Checks the VRFs of NICs and of interfaces for VLANs: each is an interface of its own, of its name.
fn verify_vrfs(section: &Section<'_>) {
    let tables: Vec<Section<'_>> =
        ["nic", "interface"].into_iter().flat_map(|key| section.tables(key)).collect();
    let is_of_link = |vrf: &str| tables.iter().any(|table| table.peek_text("name") == Some(vrf));
    for table in &tables {
        let Some(vrf) = table.peek_text("vrf") else { continue };
        let what = if section.is("group") {
            "members in the host's kernel have no VRFs; remove this key, or write another engine".to_owned()
        } else if TAKEN.contains(&vrf) {
            format!("the kernel reserves the name {vrf:?}; choose another")
        } else if is_of_link(vrf) {
            format!("a VRF is an interface of the kernel, and {vrf:?} names another one; choose another name")
        } else {
            continue;
        };
        table.fault(table.line_of("vrf"), "vrf", what);
    }
}

/// Error text for a filter of sources where it cannot be that of all packets: the kernel has one for IPv4 only.
fn not_filtered(filter: ReversePath, six: &Six) -> Option<&'static str> {
    let is_for_both = filter != ReversePath::Off && !six.addresses.is_empty();
    is_for_both.then_some(
        "the kernel filters IPv4 sources only, and this NIC has an IPv6 address; write rp_filter for the router instead",
    )
}

/// Refuses filters of sources at interfaces for VLANs, which have been read, with an IPv6 address.
pub(crate) fn verify_filters(section: &Section<'_>, router: &Router) {
    if !router.is_in_kernel() {
        return;
    }
    for table in section.tables("interface") {
        let mut known = router.forwarding.interfaces.iter();
        let own = known.find(|own| table.peek_text("name") == Some(own.name.as_str()));
        if let Some(what) = own.and_then(|own| not_filtered(own.reverse_path, &own.six)) {
            table.fault(table.line_of("rpf"), "rpf", what);
        }
    }
}

/// Checks the attachments, names, addresses and keys of all NICs of a router, and its routes.
pub(crate) fn verify(section: &Section<'_>, router: &Router) {
    if router.is_in_kernel() {
        verify_routes(section, router);
    }
    if router.is_in_kernel() {
        verify_vlans(section);
        verify_vrfs(section);
    }
    for (nic, table) in router.nics.iter().zip(section.tables("nic")) {
        // Behind a balancer that is a virtual machine the machine is plugged in there.
        let is_before = section.is("group") && section.peek_text("balancer") == Some(Balancer::Vm.name());
        let is_in_kernel = router.is_in_kernel() && !is_before;
        if let Some(what) = misplaced(is_in_kernel, nic).filter(|_| table.has("attach")) {
            table.fault(table.line_of("attach"), "attach", what);
        }
        if !router.is_in_kernel() {
            continue;
        }
        for key in OF_NICS.into_iter().filter(|key| table.has(key)) {
            table.fault(table.line_of(key), key, no_machine());
        }
        if let Some(what) = not_filtered(nic.reverse_path, &nic.six) {
            table.fault(table.line_of("rpf"), "rpf", what);
        }
        if router.container.is_some() && nic.attach.kind() == "link" && table.has("mac") {
            let what = "LXC returns an interface with the address that it had inside; remove it, or write engine = \"kernel\"";
            table.fault(table.line_of("mac"), "mac", what);
        }
        if router.container.is_some() && nic.name.len() == 1 {
            let what = "LXC does not accept interface names of one letter; choose a longer one".to_owned();
            table.fault(table.line_of("name"), "name", what);
        }
        if TAKEN.contains(&nic.name.as_str()) {
            let what = format!("the kernel reserves the name {:?}; choose another", nic.name);
            table.fault(table.line_of("name"), "name", what);
        }
    }
}

/// Error text if the attachment of a NIC does not fit the engine.
fn misplaced(is_in_kernel: bool, nic: &Nic) -> Option<String> {
    let is_for_kernel = nic.attach.is_for_kernel();
    if is_in_kernel && !nic.attach.takes_kernel() {
        return Some(format!(
            "a kernel router cannot use {:?}; write e.g. \"veth:rr-{}\"",
            nic.attach.to_string(),
            nic.name
        ));
    }
    let is_foreign = is_for_kernel && !is_in_kernel;
    let other = if nic.attach.lower().is_some() { "macvtap" } else { "tap" };
    is_foreign.then(|| {
        format!(
            "only a kernel router can use {:?}; write engine = \"kernel\", or e.g. \"{other}:{}\"",
            nic.attach.to_string(),
            nic.attach.name()
        )
    })
}

/// Error text if the router's engine does not have this key.
pub(crate) fn not_to_be_set(router: &Router, key: Key) -> Option<&'static str> {
    let is_its = key.is_of_kernel();
    match router.is_in_kernel() {
        true if matches!(key, Key::PinVcpu | Key::AffinityVcpu) => Some(napi::no_vcpu()),
        true if key == Key::Spin => Some(no_machine()),
        false if is_its => Some(not_forwarded_by_kernel()),
        _ => None,
    }
}

/// Parses `true` or `false`.
pub(crate) fn flag(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{text:?} is neither true nor false; write one of them"))
}
