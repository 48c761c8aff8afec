//! What a group asks of the keys of its routers, and what only one kind of group has.

use super::{Group, GroupKind, Interconnect, MOST_BALANCERS, MOST_MEMBERS, Spread, Stages, tunnels};
use crate::plan::{Deliver, Engine, Nic, NicModel, QueueLen, Role, VhostThreads};
use crate::section::Section;

/// Most NICs of a group, through each of which its members are probed.
const MOST_NICS: usize = ::group::probe::MOST_NICS as usize;
/// Most NICs of one whose balancers are virtual machines, which have two NICs for each.
const MOST_NICS_WITH_MACHINES: usize = bootinfo::MAX_NICS / 2;
const _: () = assert!(MOST_NICS_WITH_MACHINES <= MOST_NICS && MOST_NICS <= bootinfo::MAX_NICS);
/// Longest name of a group, in octets: a member has it with a number, and no longer name than any router.
const LONGEST: usize = 11;
/// Longest name of one whose balancers are routers, in octets: they have it with a number and two letters more.
const LONGEST_WITH_MACHINES: usize = 9;

/// Static neighbours that a member needs for probes of a NIC at most: up to two for each NIC, and one for each VRF ([`super::probed`]).
const NEIGHBOURS_OF_NIC: usize = 3;
const _: () = assert!(NEIGHBOURS_OF_NIC * MOST_NICS < bootinfo::MAX_NEIGHBOURS);

/// Attachments whose queues several members can own.
const SHARED: [&str; 6] = ["switch", "tap", "bridge", "ovs", "macvtap", "xdp"];

/// Error text for IPv6 addresses of back ends that leave no room.
const FULL: &str = "there is no room for the link-local address, which back ends have in common; write it as well, or \
                    remove an IPv6 address";

/// Reports what is wrong with a group.
pub(crate) fn verify(section: &Section<'_>, group: &Group) {
    name(section, group);
    nics(section, group);
    keys_of_stages(section, group);
    router(section, group);
    if group.pattern.is_in_kernel() && !group.has_machines() {
        return;
    }
    for (nic, section) in group.pattern.nics.iter().zip(section.tables("nic")) {
        if let Some((key, what)) = trouble(group, nic) {
            section.fault(section.line_of(key), key, what);
        }
    }
    let vlans = group.pattern.forwarding.interfaces.iter().zip(section.tables("interface"));
    for (_, section) in vlans.filter(|(own, _)| group.is_apart() && own.six.is_full()) {
        section.fault(section.line_of("address"), "address", FULL);
    }
}

fn name(section: &Section<'_>, group: &Group) {
    let (longest, parts, last) = if group.has_machines() {
        (LONGEST_WITH_MACHINES, "balancers", group.balancer(MOST_BALANCERS - 1))
    } else {
        (LONGEST, "members", group.member(MOST_MEMBERS - 1))
    };
    if group.name.len() > longest {
        let last = last.strip_prefix(&group.name).unwrap_or_default();
        let what = format!(
            "{:?} is too long for a group, whose {parts} are called NAME{last}; use at most {longest} letters",
            group.name
        );
        section.fault(section.line_of("name"), "name", what);
    }
}

fn nics(section: &Section<'_>, group: &Group) {
    let (most, what) = if group.has_machines() {
        (MOST_NICS_WITH_MACHINES, "a group with balancer = \"vm\"")
    } else {
        (MOST_NICS, "a group")
    };
    let count = group.pattern.nics.len();
    if let Some(extra) = section.tables("nic").get(most).filter(|_| count > most) {
        let what = format!("{count} NICs are too many for {what}, which has at most {most}");
        section.fault(extra.line, "nic", what);
    }
}

/// Keys that say nothing of members side by side.
fn keys_of_stages(section: &Section<'_>, group: &Group) {
    let foreign = ["balancers", "balancer", "balancer_pin", "interconnect", "remote", "tunnels"];
    let refuse = |key: &str, what: &str| section.fault(section.line_of(key), key, what);
    let GroupKind::Multistage(stages) = &group.kind else {
        let what = "only a multistage group has it; remove it, or write kind = \"multistage\"";
        return foreign.into_iter().filter(|key| section.has(key)).for_each(|key| refuse(key, what));
    };
    let has_bridge = stages.interconnect != Interconnect::Switch;
    if stages.remote > 0 && !(group.has_machines() && has_bridge) {
        let what = "other hosts are reached by a bridge: write balancer = \"vm\" and interconnect = \"bridge:NAME\", or \
                    tunnels in place of it";
        refuse("remote", what);
    }
    if let Some(what) = trouble_of_tunnels(group, stages) {
        refuse("tunnels", what);
    }
    if stages.elsewhere() > 0 && group.pattern.control.is_some() {
        let what =
            "a back end on another host does not learn routes; remove it, or write its routes into the file";
        refuse("control", what);
    }
    if group.most() + stages.elsewhere() > MOST_MEMBERS {
        let what = format!("there are at most {MOST_MEMBERS} back ends, here and elsewhere; write fewer");
        refuse(if stages.remote > 0 { "remote" } else { "tunnels" }, &what);
    }
    if group.has_machines() {
        return;
    }
    if has_bridge {
        refuse(
            "interconnect",
            "a balancer in our switch hands frames to back ends itself; write balancer = \"vm\", or remove interconnect",
        );
    }
    if section.has("balancer_pin") {
        refuse(
            "balancer_pin",
            "only a balancer that is a virtual machine has it; write balancer = \"vm\", or pin",
        );
    }
}

/// What is wrong with the tunnels of a group.
fn trouble_of_tunnels(group: &Group, stages: &Stages) -> Option<&'static str> {
    let nics = group.pattern.nics.len();
    if stages.tunnels.is_empty() {
        None
    } else if !group.has_machines() || stages.interconnect != Interconnect::Switch {
        Some("tunnels begin at our switch: write balancer = \"vm\" and interconnect = \"switch\"")
    } else if stages.tunnels.iter().any(|tunnel| tunnels::of_nic(tunnel, nics.saturating_sub(1)).is_none()) {
        Some("each NIC takes the next port, and there are too few above these; write lower ones")
    } else {
        None
    }
}

/// What members cannot be, or cannot have.
fn router(section: &Section<'_>, group: &Group) {
    let refuse = |key: &str, what: &str| section.fault(section.line_of(key), key, what);
    for key in ["guarantee", "limit"].into_iter().filter(|key| section.has(key)) {
        refuse(key, "a group has none in this version; remove it");
    }
    let neighbours = group.pattern.neighbours.len() + group.pattern.forwarding.neighbours6.len();
    let nics = group.pattern.nics.len().min(MOST_NICS);
    let most = bootinfo::MAX_NEIGHBOURS - NEIGHBOURS_OF_NIC * nics;
    if neighbours > most {
        let what = format!(
            "{neighbours} are too many for a group with {nics} NICs, which has at most {most}; remove some"
        );
        refuse("neighbour", &what);
    }
    match group.pattern.engine {
        Some(Engine::Linux) => refuse(
            "engine",
            "we cannot write the routes of a Linux guest, so it is no member of a group; write engine = \"kvm\"",
        ),
        Some(Engine::Kernel | Engine::Lxc) if group.has_machines() => {
            if group.scale.is_some() {
                refuse(
                    "scale",
                    "the load of kernel routers is not known; remove it, or write engine = \"kvm\"",
                );
            }
            // With `scale` that has been refused.
            if group.scale.is_none() && group.spare > 0 {
                refuse(
                    GroupKind::SPARE_KEY,
                    "kernel routers have none in this version; remove it, or write engine = \"kvm\"",
                );
            }
            if group.pattern.control.is_some() {
                refuse(
                    "control",
                    "kernel routers in a group have none in this version; remove it, or write engine = \"kvm\"",
                );
            }
        }
        Some(Engine::Kernel | Engine::Lxc) if group.kind != GroupKind::Parallel => refuse(
            "engine",
            "a balancer in our switch cannot reach a kernel router; write balancer = \"vm\", or engine = \"kvm\"",
        ),
        Some(Engine::Kernel | Engine::Lxc) => refuse(
            "engine",
            "the host's kernel reads the links of a kernel router, so it is no member of a group; write engine = \"kvm\"",
        ),
        Some(Engine::Kvm | Engine::Process) | None => {}
    }
    if group.pattern.role != Role::Router {
        refuse("role", "members are found alive by what they forward; write role = \"router\"");
    }
    match group.pattern.vhost {
        VhostThreads::Shared | VhostThreads::PerNic | VhostThreads::Split => {}
        VhostThreads::PerQueue => {
            refuse("vhost", "a member reads the queues that it owns by one thread; write vhost = \"shared\"");
        }
        VhostThreads::Kernel | VhostThreads::Vmm => refuse(
            "vhost",
            "a member's queues are read by threads of ours, outside of its own process; write vhost = \"shared\"",
        ),
    }
}

/// What of a NIC does not go with a group.
fn trouble(group: &Group, nic: &Nic) -> Option<(&'static str, String)> {
    let kind = nic.attach.kind();
    if nic.model == NicModel::E1000 {
        let what = "members attach NICs by vhost-user, which an e1000 cannot; write model = \"virtio-net\"";
        return Some(("model", what.to_owned()));
    }
    if nic.deliver == Deliver::Direct {
        let what = "a member's rings are out of other routers' reach; write deliver = \"queued\"";
        return Some(("deliver", what.to_owned()));
    }
    if nic.queue_len == QueueLen::Auto {
        let what = "several members read the queues of a group, and none can be tuned for them; write a number such as 1000";
        return Some(("queue_len", what.to_owned()));
    }
    if group.is_apart() && nic.six.is_full() {
        return Some(("address", FULL.to_owned()));
    }
    let is_shared = kind != "null" && (group.kind != GroupKind::Parallel || SHARED.contains(&kind));
    if nic.attach.traits().is_handed || !is_shared {
        let what = format!(
            "members of a {} group cannot share {:?}; write e.g. \"tap:NAME\", \"macvtap:INTERFACE\" or \"switch:NAME\"",
            group.kind.name(),
            nic.attach.to_string()
        );
        return Some(("attach", what));
    }
    let chosen_elsewhere = group.kind == GroupKind::Parallel && ["macvtap", "xdp"].contains(&kind);
    (group.spread == Spread::RoundRobin && chosen_elsewhere).then(|| {
        let who = if kind == "xdp" { "the NIC" } else { "the kernel" };
        let what = format!(
            "{who} chooses the queues of {kind}: by flow; write spread = \"flow\", or another attachment"
        );
        ("attach", what)
    })
}
