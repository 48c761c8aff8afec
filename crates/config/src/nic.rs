//! `[[router.nic]]`.

use crate::address::{Address, parse_cidr};
use crate::attachment;
use crate::forwarding::{FILTERS, vrf};
use crate::keys;
use crate::mac::Mac;
use crate::model;
use crate::plan::{
    Attach, Deliver, FlowHash, LinkState, Nic, NicModel, Plan, QueueLen, Router, VhostThreads,
};
use crate::read::{remember, required_name, valued};
use crate::section::{Keywords, NumberOr, Section, WithLine};
use crate::six;
use crate::values;

/// Most NICs of a router, as the firmware's tables have room for.
const MOST_NICS: usize = bootinfo::MAX_NICS;
/// Most IPv4 addresses of a NIC, as the firmware's tables have room for.
const MOST_ADDRESSES: usize = bootinfo::MAX_ADDRESSES;
/// Largest MTU, as the buffers of the firmware for jumbo frames have room for.
const MOST_MTU: u32 = bootinfo::buffers::MOST_MTU;
/// MTU of Ethernet.
const DEFAULT_MTU: u32 = 1500;
/// Least MTU of IPv4 (RFC 791).
const LEAST_MTU: u32 = 68;
/// Default ring size, measured to be fastest with the router's own driver.
const DEFAULT_RING: u32 = 1024;

const DELIVERS: Keywords<Deliver> = Keywords {
    noun: ("way to deliver", "ways"),
    now: &[("queued", Deliver::Queued), ("direct", Deliver::Direct)],
    later: &[],
};

pub(crate) const LINKS: Keywords<LinkState> = Keywords {
    noun: ("state of a link", "states"),
    now: &[(LinkState::Up.name(), LinkState::Up), (LinkState::Down.name(), LinkState::Down)],
    later: &[],
};

const HASHES: Keywords<FlowHash> = Keywords {
    noun: ("way to spread flows", "ways"),
    now: &[("flow", FlowHash::Flow), ("symmetric", FlowHash::Symmetric)],
    later: &[],
};

/// Parses all NICs of a router; conflicts between their names and networks are checked later.
pub(crate) fn read_all(section: &Section<'_>, index: usize, router: &Router, plan: &mut Plan) -> Vec<Nic> {
    let sections = section.tables("nic");
    if !section.has("nic") {
        section.fault(section.line, "nic", "missing; a router has at least one [[router.nic]]");
    }
    if let Some(first_extra) = sections.get(MOST_NICS) {
        let what = format!("{} NICs are too many; a router has at most {MOST_NICS}", sections.len());
        section.fault(first_extra.line, "nic", what);
    }
    let mut nics = Vec::new();
    for section in sections.iter().take(MOST_NICS) {
        let nic = read(section, router, plan);
        for key in keys::names(&keys::nic()) {
            remember(plan, (index, Some(nics.len())), key, section.line_of(key));
        }
        nics.push(nic);
    }
    model::verify(section, &sections, router, &mut nics);
    nics
}

fn read(section: &Section<'_>, router: &Router, plan: &Plan) -> Nic {
    section.expect_keys(&keys::names(&keys::nic()), &[]);
    let name = required_name(section, "\"wan\"", values::nic_name);
    let attach = attachment::read(section, plan);
    let mac = valued(section, "mac", "\"02:00:00:00:00:01\"", station_mac);
    let device = model::read(section);
    if section.has("deliver") && attach.as_ref().is_some_and(|attach| attach.switch().is_none()) {
        let what = "only a NIC on a switch has it; remove it, or write attach = \"switch:NAME\"";
        section.fault(section.line_of("deliver"), "deliver", what);
    }
    let queue_len = queue_len(section, attach.as_ref(), router);
    let mtu = section.number("mtu", LEAST_MTU..=MOST_MTU, DEFAULT_MTU);
    Nic {
        mac: mac.unwrap_or_else(|| Mac::derived(&router.name, &name)),
        name,
        model: device.model,
        mode: device.mode,
        itr: device.itr,
        combine: device.combine,
        combine_above: device.combine_above,
        attach: attach.unwrap_or_else(Attach::null),
        link: section.has("link").then(|| section.word("link", &LINKS)),
        addresses: own_addresses(section),
        six: six::read(section, mtu),
        vrf: vrf::of_nic(section, router),
        reverse_path: section.word("rpf", &FILTERS),
        queues: if router.is_in_kernel() { 0 } else { queues(section, router.vcpus, device.model) },
        hash: section.word("hash", &HASHES),
        queue_len,
        mtu,
        deliver: section.word("deliver", &DELIVERS),
        ring: ring(section),
        offload: section.flag("offload", true),
        memory_max: attachment::memory_max(section),
    }
}

/// Checks that each pair has its own vCPU; the number of pairs of an e1000 is checked elsewhere.
fn queues(section: &Section<'_>, vcpus: u32, model: NicModel) -> u32 {
    let pairs = section.number("queues", 1..=16, vcpus);
    if pairs <= vcpus || model == NicModel::E1000 {
        return pairs;
    }
    let what = format!(
        "{pairs} queue pairs for {vcpus} vCPU, but each needs one of its own; write vcpus = {pairs}, or at most \
         queues = {vcpus}"
    );
    section.fault(section.line_of("queues"), "queues", what);
    vcpus
}

/// Parses `queue_len`; an automatic length is only possible for a kernel queue that our threads read.
fn queue_len(section: &Section<'_>, attach: Option<&Attach>, router: &Router) -> QueueLen {
    let frames = match section.number_or("queue_len", 1..=65_536, "auto") {
        Some(NumberOr::Number(frames)) => return QueueLen::Frames(frames),
        Some(NumberOr::Word) => QueueLen::Auto,
        None => return QueueLen::default(),
    };
    let why = if !attach.is_none_or(|attach| attach.traits().is_link) {
        "only the queue of a TAP or macvtap can be tuned (tap:, bridge:, ovs:, macvtap:)"
    } else if router.vhost == VhostThreads::Kernel {
        "with vhost = \"kernel\" the kernel reads the queue, and nobody tunes it"
    } else {
        return frames;
    };
    let what = format!("\"auto\" does not work here: {why}; write a number such as 1000");
    section.fault(section.line_of("queue_len"), "queue_len", what);
    QueueLen::default()
}

fn ring(section: &Section<'_>) -> u32 {
    let entries = section.number("ring", 256..=1024, DEFAULT_RING);
    if !entries.is_power_of_two() {
        let what = format!("{entries} is not a power of two; write 256, 512 or 1024");
        section.fault(section.line_of("ring"), "ring", what);
        return DEFAULT_RING;
    }
    entries
}

/// Parses the Ethernet address of a station.
pub(crate) fn station_mac(text: &str) -> Result<Mac, String> {
    let example = "write e.g. \"02:00:00:00:00:01\"";
    let mac: Mac = text.parse().map_err(|_| format!("{text:?} is not an Ethernet address; {example}"))?;
    if mac.is_group() {
        return Err(format!("{text:?} names a group of stations; {example}"));
    }
    if mac == Mac([0; 6]) {
        return Err(format!("{text:?} names no station; {example}"));
    }
    Ok(mac)
}

/// Parses the IPv4 addresses among all addresses of a NIC.
pub(crate) fn own_addresses(section: &Section<'_>) -> Vec<Address> {
    let texts = section.texts("address", "\"192.0.2.1/24\"").into_iter().filter(|at| !six::is_six(at.value));
    let texts: Vec<WithLine<&str>> = texts.collect();
    if let Some(extra) = texts.get(MOST_ADDRESSES) {
        let what = format!("{} addresses are too many; a NIC has at most {MOST_ADDRESSES}", texts.len());
        section.fault(extra.line, "address", what);
    }
    let mut addresses = Vec::new();
    for WithLine { value, line } in texts.into_iter().take(MOST_ADDRESSES) {
        match own_address(value) {
            Ok(address) if addresses.contains(&address) => {
                section.fault(line, "address", format!("{value:?} is there twice; remove one"));
            }
            Ok(address) => addresses.push(address),
            Err(what) => section.fault(line, "address", what),
        }
    }
    addresses
}

/// Parses an address that a router may have.
fn own_address(text: &str) -> Result<Address, String> {
    let example = "write e.g. \"192.0.2.1/24\"";
    let address: Address =
        parse_cidr(text).ok_or_else(|| format!("{text:?} is not an IPv4 prefix; {example}"))?;
    let ip = address.ip;
    if ip.octets()[0] == 0 || ip.octets()[0] >= 224 || ip.is_loopback() {
        return Err(format!("{text:?} cannot be a router's own address; {example}"));
    }
    let network = address.network();
    if address.len == 0 {
        return Err(format!("{text:?} is every network at once; {example}"));
    }
    if address.len < 31 && ip == network.network {
        return Err(format!("{text:?} is the network itself, not an address in it; {example}"));
    }
    if address.len < 31 && ip == network.last() {
        return Err(format!("{text:?} is the broadcast address of {network}; {example}"));
    }
    Ok(address)
}
