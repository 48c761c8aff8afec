//! Keys that a `[[group]]` has besides those of a router.

use super::{Group, GroupKind, Interconnect, Stages};
use crate::keys::{self, Change, Entry, Value, text};
use crate::section::Section;
use crate::setting::Key;

fn stages(group: &Group) -> Option<&Stages> {
    match &group.kind {
        GroupKind::Parallel => None,
        GroupKind::Multistage(stages) => Some(stages),
    }
}

/// Packets that are lost when members end.
const OF_MEMBERS: &str = "what a member that ends has not forwarded after 50 ms";
/// Packets that are lost when balancers end.
const OF_BALANCERS: &str = "what a balancer that ends has not yet passed on";

/// Keys of `[[group]]`, besides those of a router.
pub const GROUP: &[Entry<Group>] = &[
    Entry::new(
        "kind",
        ("parallel, multistage", ""),
        "members side by side on the same links, or back ends behind balancers",
        Change::Refused,
        |group| text(group.kind.name()),
    ),
    Entry::new(
        GroupKind::MEMBERS_KEYS[0],
        ("1 to 64", "scale.min"),
        "members of a parallel group",
        Change::Loses(Key::Members, OF_MEMBERS),
        |group| stages(group).is_none().then(|| Value::Number(group.members - group.spares())),
    ),
    Entry::new(
        GroupKind::MEMBERS_KEYS[1],
        ("1 to 64", "scale.min"),
        "members of a multistage group",
        Change::Loses(Key::Members, OF_MEMBERS),
        |group| stages(group).map(|_| Value::Number(group.members - group.spares())),
    ),
    Entry::new(
        GroupKind::SPARE_KEY,
        ("0 to 4", "0; 1 with scale"),
        "members beside those: up and asleep, the next ones that wake; others are started in their place",
        Change::Free(Key::Spare),
        |group| (group.spare > 0).then_some(Value::Number(group.spare)),
    ),
    Entry::new(
        GroupKind::BALANCERS_KEY,
        ("1 to 16", "1"),
        "what spreads frames over the back ends",
        Change::Loses(Key::Balancers, OF_BALANCERS),
        |group| stages(group).map(|stages| Value::Number(stages.balancers)),
    ),
    Entry::new(
        "balancer",
        ("switch, vm", "switch"),
        "what a balancer is: a port of the run's switch, or a virtual machine",
        Change::Refused,
        |group| text(stages(group)?.balancer.name()),
    ),
    Entry::new(
        "interconnect",
        ("switch, bridge:NAME, ovs:NAME", "switch"),
        "what joins balancers and back ends",
        Change::Refused,
        |group| match &stages(group)?.interconnect {
            Interconnect::Switch => text("switch"),
            Interconnect::Bridge(attach) => text(attach),
        },
    ),
    Entry::new(
        "remote",
        ("0 to 16", "0"),
        "back ends on other hosts, beside those here: behind the bridge",
        Change::Refused,
        |group| stages(group).filter(|stages| stages.remote > 0).map(|stages| Value::Number(stages.remote)),
    ),
    Entry::new(
        "tunnels",
        ("udp:LOCAL-REMOTE, or a list", "none"),
        "back ends on other hosts, beside those here: a tunnel to each, whose NICs have consecutive ports",
        Change::Refused,
        |group| {
            let tunnels: Vec<String> = stages(group)?.tunnels.iter().map(ToString::to_string).collect();
            (!tunnels.is_empty()).then(|| Value::Text(tunnels.join(", ")))
        },
    ),
    Entry::new(
        "balancer_pin.vcpu",
        ("CPUs, e.g. 1", "the last ones of pin.vcpu"),
        "where the vCPUs of balancers run that are virtual machines",
        Change::Applies,
        |group| stages(group)?.pin.vcpu.as_ref().and_then(text),
    ),
    Entry::new(
        "balancer_pin.vhost",
        ("CPUs, e.g. 0", "the last ones of pin.vhost"),
        "where their vhost threads run",
        Change::Applies,
        |group| stages(group)?.pin.vhost.as_ref().and_then(text),
    ),
    Entry::new(
        "spread",
        ("flow, round-robin", "flow"),
        "how frames are spread over members; one by one they overtake each other",
        Change::Applies,
        |group| text(group.spread.name()),
    ),
    Entry::new("scale.min", ("1 to 64", "1"), "members at least", Change::Applies, |group| {
        Some(Value::Number(group.scale?.min))
    }),
    Entry::new(
        "scale.max",
        ("1 to 64", ""),
        "members at most, as the load asks for",
        Change::AppliesAndLoses(OF_MEMBERS),
        |group| Some(Value::Number(group.scale?.max)),
    ),
    Entry::new(
        "scale.target",
        ("0.1 to 0.95", "0.7"),
        "how busy members are to be at most, of their time",
        Change::Applies,
        |group| text(f64::from(group.scale?.target) / 1000.0),
    ),
    Entry::new(
        "scale.surplus",
        ("park, end", "park"),
        "members that the load does not need sleep, or end",
        Change::Applies,
        |group| text(group.scale?.surplus.name()),
    ),
];

/// How many members are awake, which is set while a group runs, and stands in no file.
pub(crate) const AWAKE: Entry<Group> = Entry::new(
    GroupKind::AWAKE_KEY,
    ("1 to 64", "all but spare ones"),
    "members of a group that are awake: others sleep, the newest first; more start if there are too few",
    Change::Free(Key::Awake),
    |group| Some(Value::Number(group.awake())),
);

/// Names that a table of a file has besides those of a router: none unless it is a group.
pub(crate) fn names_in(section: &Section<'_>) -> Vec<&'static str> {
    if section.is("group") { keys::names(GROUP) } else { Vec::new() }
}
