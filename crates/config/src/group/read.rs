//! Reading `[[group]]`: the keys of a router, and those of a group.

use super::{
    Balancer, Group, GroupKind, Interconnect, MOST_BALANCERS, MOST_MEMBERS, MOST_SPARE, Scale, Spread,
    Stages, Surplus, members, tunnels, verify,
};
use crate::affinity;
use crate::plan::{Attach, Engine, FlowHash, Pin, Plan, Router};
use crate::read::{remember, router, valued};
use crate::section::{Keywords, Section, WithLine};

/// How busy members are to be at most where the file does not say it, in thousandths.
const TARGET: u32 = 700;

/// Most back ends on other hosts.
const MOST_REMOTE: u32 = 16;

/// The word for a kind, before what belongs to it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Parallel,
    Multistage,
}

const KINDS: Keywords<Kind> = Keywords {
    noun: ("kind of group", "kinds"),
    now: &[("parallel", Kind::Parallel), ("multistage", Kind::Multistage)],
    later: &[],
};

const SPREADS: Keywords<Spread> = Keywords {
    noun: ("way to spread frames", "ways"),
    now: &[(Spread::Flow.name(), Spread::Flow), (Spread::RoundRobin.name(), Spread::RoundRobin)],
    later: &[],
};

const SURPLUS: Keywords<Surplus> = Keywords {
    noun: ("way to do without a member", "ways"),
    now: &[(Surplus::Park.name(), Surplus::Park), (Surplus::End.name(), Surplus::End)],
    later: &[],
};

const BALANCERS: Keywords<Balancer> = Keywords {
    noun: ("balancer", "balancers"),
    now: &[(Balancer::Switch.name(), Balancer::Switch), (Balancer::Vm.name(), Balancer::Vm)],
    later: &[],
};

/// Reads all groups of the document, and adds them and their members to the plan.
pub(crate) fn read_all(document: &Section<'_>, plan: &mut Plan) {
    for section in document.tables("group") {
        let index = plan.routers.len();
        let pattern = router(&section, index, plan);
        let group = read(&section, pattern, (index, &mut *plan));
        verify::verify(&section, &group);
        members::add(group, index, plan);
    }
}

fn read(section: &Section<'_>, mut pattern: Router, place: (usize, &mut Plan)) -> Group {
    if !section.has("kind") {
        section.missing("kind", "\"parallel\"");
    }
    for (nic, section) in pattern.nics.iter_mut().zip(section.tables("nic")) {
        if !section.has("hash") {
            nic.hash = FlowHash::Symmetric;
        }
    }
    // What the host chooses where the file names no engine is one of these, too, and has a process of its own in any case.
    pattern.isolate |= matches!(pattern.engine, None | Some(Engine::Kvm));
    let (word, scale) = (section.word("kind", &KINDS), scale(section));
    let kind = match word {
        Kind::Parallel => GroupKind::Parallel,
        Kind::Multistage => GroupKind::Multistage(stages(section, place)),
    };
    let group = Group {
        name: pattern.name.clone(),
        kind,
        members: number(section, word, scale),
        parked: 0,
        spare: spare(section, scale),
        spread: section.word("spread", &SPREADS),
        scale,
        pattern,
    };
    group.with_spares()
}

/// How many spare members there are: one where the load says how many are awake, and the others are parked.
fn spare(section: &Section<'_>, scale: Option<Scale>) -> u32 {
    let is_parking = scale.is_some_and(|scale| scale.surplus == Surplus::Park);
    section.number(GroupKind::SPARE_KEY, 0..=MOST_SPARE, is_parking.into())
}

/// How many members there are when the run starts.
fn number(section: &Section<'_>, kind: Kind, scale: Option<Scale>) -> u32 {
    let (own, other) = match kind {
        Kind::Parallel => ("members", "backends"),
        Kind::Multistage => ("backends", "members"),
    };
    if section.has(other) {
        let what = format!("this kind of group has {own}; write {own} = 2, or another kind");
        section.fault(section.line_of(other), other, what);
    } else if !section.has(own) && !section.has("scale") {
        section.missing(own, "2");
    }
    let members = section.number(own, 1..=MOST_MEMBERS, scale.map_or(1, |scale| scale.min));
    if let Some(Scale { min, max, .. }) = scale.filter(|scale| !(scale.min..=scale.max).contains(&members)) {
        let what = format!("{members} is outside of scale; write {min} to {max}");
        section.fault(section.line_of(own), own, what);
    }
    members
}

fn scale(section: &Section<'_>) -> Option<Scale> {
    let table = section.table("scale", "{ min = 1, max = 4, target = 0.7 }")?;
    table.expect_keys(&["min", "max", "target", "surplus"], &[]);
    if !table.has("max") {
        table.missing("max", "4");
    }
    let min = table.number("min", 1..=MOST_MEMBERS, 1);
    let max = table.number("max", 1..=MOST_MEMBERS, min);
    if max < min {
        let what = format!("{max} is less than min = {min}; write {min} to {MOST_MEMBERS}");
        table.fault(table.line_of("max"), "max", what);
    }
    let target = table.decimal("target", 100..=950, 3).unwrap_or(TARGET);
    Some(Scale { min, max: max.max(min), target, surplus: table.word("surplus", &SURPLUS) })
}

fn stages(section: &Section<'_>, (index, plan): (usize, &mut Plan)) -> Stages {
    remember(plan, (index, None), "interconnect", section.line_of("interconnect"));
    remember(plan, (index, None), "tunnels", section.line_of("tunnels"));
    Stages {
        pin: balancer_pin(section, (index, plan)),
        remote: section.number("remote", 0..=MOST_REMOTE, 0),
        tunnels: tunnels(section),
        balancers: section.number("balancers", 1..=MOST_BALANCERS, 1),
        balancer: section.word("balancer", &BALANCERS),
        interconnect: valued(section, "interconnect", "\"switch\"", interconnect).unwrap_or_default(),
    }
}

/// Reads the tunnels to back ends on other hosts.
fn tunnels(section: &Section<'_>) -> Vec<Attach> {
    let texts = section.texts("tunnels", tunnels::EXAMPLE);
    if texts.len() > MOST_REMOTE as usize {
        let what = format!("{} are too many; write at most {MOST_REMOTE}", texts.len());
        section.fault(section.line_of("tunnels"), "tunnels", what);
    }
    let tunnel = |WithLine { value, line }: WithLine<&str>| {
        tunnels::read(value).map_err(|what| section.fault(line, "tunnels", what)).ok()
    };
    texts.into_iter().filter_map(tunnel).collect()
}

/// Reads the CPUs of balancers that are virtual machines.
fn balancer_pin(section: &Section<'_>, (index, plan): (usize, &mut Plan)) -> Pin {
    let Some(pin) = section.table("balancer_pin", "{ vcpu = \"1\", vhost = \"0\" }") else {
        return Pin::default();
    };
    pin.expect_keys(&["vcpu", "vhost"], &[]);
    remember(plan, (index, None), "balancer_pin", section.line_of("balancer_pin"));
    let cpus = |key| valued(&pin, key, "\"0-1\"", affinity::cpus);
    Pin { vcpu: cpus("vcpu"), vhost: cpus("vhost") }
}

fn interconnect(text: &str) -> Result<Interconnect, String> {
    if text == "switch" {
        return Ok(Interconnect::Switch);
    }
    match Attach::read(text) {
        Ok(attach) if ["bridge", "ovs"].contains(&attach.kind()) => Ok(Interconnect::Bridge(attach)),
        Err(what) if text.starts_with("bridge:") || text.starts_with("ovs:") => Err(what),
        _ => Err(format!("{text:?} joins no back ends; write \"switch\", \"bridge:NAME\" or \"ovs:NAME\"")),
    }
}
