//! The keys that a `[[group]]` has besides those of a router.

use super::{Group, GroupKind, Interconnect, Stages};
use crate::keys::Value;
use crate::section::Section;

/// A key of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupKey {
    /// Its name in files.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What is so where a file does not say it.
    pub default: &'static str,
    /// What it does.
    pub does: &'static str,
    value: fn(&Group) -> Option<Value>,
}

impl GroupKey {
    const fn new(
        name: &'static str,
        (takes, default): (&'static str, &'static str),
        does: &'static str,
        value: fn(&Group) -> Option<Value>,
    ) -> Self {
        Self { name, takes, default, does, value }
    }

    /// What it is for a group of a plan; none: nothing that is worth saying.
    pub fn value(&self, group: &Group) -> Option<Value> {
        (self.value)(group)
    }
}

fn stages(group: &Group) -> Option<&Stages> {
    match &group.kind {
        GroupKind::Parallel => None,
        GroupKind::Multistage(stages) => Some(stages),
    }
}

fn text(text: impl ToString) -> Option<Value> {
    Some(Value::Text(text.to_string()))
}

/// All of them.
pub const GROUP: &[GroupKey] = &[
    GroupKey::new(
        "kind",
        ("parallel, multistage", ""),
        "members side by side on the same links, or back ends behind balancers",
        |group| text(group.kind.name()),
    ),
    GroupKey::new("members", ("1 to 64", "scale.min"), "members of a parallel group", |group| {
        stages(group).is_none().then(|| Value::Number(group.members - group.spares()))
    }),
    GroupKey::new("backends", ("1 to 64", "scale.min"), "members of a multistage group", |group| {
        stages(group).map(|_| Value::Number(group.members - group.spares()))
    }),
    GroupKey::new(
        GroupKind::SPARE_KEY,
        ("0 to 4", "0; 1 with scale"),
        "members beside those: up and asleep, the next ones that wake; others are started in their place",
        |group| (group.spare > 0).then_some(Value::Number(group.spare)),
    ),
    GroupKey::new("balancers", ("1 to 16", "1"), "what spreads frames over the back ends", |group| {
        stages(group).map(|stages| Value::Number(stages.balancers))
    }),
    GroupKey::new(
        "balancer",
        ("switch, vm", "switch"),
        "what a balancer is: a port of the run's switch, or a virtual machine",
        |group| text(stages(group)?.balancer.name()),
    ),
    GroupKey::new(
        "interconnect",
        ("switch, bridge:NAME, ovs:NAME", "switch"),
        "what joins balancers and back ends",
        |group| match &stages(group)?.interconnect {
            Interconnect::Switch => text("switch"),
            Interconnect::Bridge(attach) => text(attach),
        },
    ),
    GroupKey::new(
        "remote",
        ("0 to 16", "0"),
        "back ends on other hosts, beside those here: behind the bridge",
        |group| stages(group).filter(|stages| stages.remote > 0).map(|stages| Value::Number(stages.remote)),
    ),
    GroupKey::new(
        "tunnels",
        ("udp:LOCAL-REMOTE, or a list", "none"),
        "back ends on other hosts, beside those here: a tunnel to each, whose NICs have consecutive ports",
        |group| {
            let tunnels: Vec<String> = stages(group)?.tunnels.iter().map(ToString::to_string).collect();
            (!tunnels.is_empty()).then(|| Value::Text(tunnels.join(", ")))
        },
    ),
    GroupKey::new(
        "balancer_pin.vcpu",
        ("CPUs, e.g. 1", "the last ones of pin.vcpu"),
        "where the vCPUs of balancers run that are virtual machines",
        |group| stages(group)?.pin.vcpu.as_ref().and_then(text),
    ),
    GroupKey::new(
        "balancer_pin.vhost",
        ("CPUs, e.g. 0", "the last ones of pin.vhost"),
        "where their vhost threads run",
        |group| stages(group)?.pin.vhost.as_ref().and_then(text),
    ),
    GroupKey::new(
        "spread",
        ("flow, round-robin", "flow"),
        "how frames are spread over members; one by one they overtake each other",
        |group| text(group.spread.name()),
    ),
    GroupKey::new("scale.min", ("1 to 64", "1"), "members at least", |group| {
        Some(Value::Number(group.scale?.min))
    }),
    GroupKey::new("scale.max", ("1 to 64", ""), "members at most, as the load asks for", |group| {
        Some(Value::Number(group.scale?.max))
    }),
    GroupKey::new(
        "scale.target",
        ("0.1 to 0.95", "0.7"),
        "how busy members are to be at most, of their time",
        |group| text(f64::from(group.scale?.target) / 1000.0),
    ),
    GroupKey::new(
        "scale.surplus",
        ("park, end", "park"),
        "members that the load does not need sleep, or end",
        |group| text(group.scale?.surplus.name()),
    ),
];

/// The names that a table of a file has besides those of a router: none where it is no group.
pub(crate) fn names_in(section: &Section<'_>) -> Vec<&'static str> {
    if !section.is("group") {
        return Vec::new();
    }
    let mut names: Vec<&str> = GROUP.iter().filter_map(|key| key.name.split('.').next()).collect();
    names.dedup();
    names
}
