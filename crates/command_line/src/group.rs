//! Groups as users see them: one router, unless they ask for its members. Members are called `NAME_0`, `NAME_1`, …, and no router of a file
//! has a name with that sign.

use std::collections::BTreeMap;

use api::{Counters, RouterStatus, State};

/// The group that a router is a member of, by its name.
pub fn of(router: &str) -> Option<&str> {
    part(router).filter(|(_, is_member)| *is_member).map(|(group, _)| group)
}

/// The group that a router is a member of, or a balancer that is a virtual machine.
pub fn around(router: &str) -> Option<&str> {
    part(router).map(|(group, _)| group)
}

/// The group that a router is a part of, and whether as a member.
fn part(router: &str) -> Option<(&str, bool)> {
    let (group, number) = router.rsplit_once('_')?;
    let balancer = number.strip_prefix("lb");
    let number = balancer.unwrap_or(number);
    let is_number = !number.is_empty() && number.bytes().all(|octet| octet.is_ascii_digit());
    (is_number && !group.is_empty()).then_some((group, balancer.is_none()))
}

/// Whether a router is what a name stands for: the router of this name, or a member or balancer of that group.
pub fn is_meant(router: &str, name: &str) -> bool {
    router == name || around(router) == Some(name)
}

/// Routers with one for each group in the place of its members and balancers.
pub fn folded(routers: &[RouterStatus]) -> Vec<RouterStatus> {
    let mut folded: Vec<RouterStatus> = Vec::new();
    for router in routers {
        match around(&router.name) {
            None => folded.push(router.clone()),
            Some(group) if folded.iter().any(|known| known.name == group) => {}
            Some(group) => folded.push(whole(group, routers)),
        }
    }
    folded
}

/// A group as one router.
fn whole(group: &str, routers: &[RouterStatus]) -> RouterStatus {
    let (members, balancers): (Vec<&RouterStatus>, Vec<&RouterStatus>) = routers
        .iter()
        .filter(|router| around(&router.name) == Some(group))
        .partition(|router| of(&router.name).is_some());
    let all = members.iter().chain(&balancers);
    let runs = members.iter().filter(|member| member.state == State::Running);
    let longest = runs.map(|member| member.since_ms).max();
    let state = match (longest, members.first()) {
        (Some(_), _) => State::Running,
        (None, first) => first.map_or(State::Waiting, |first| first.state),
    };
    RouterStatus {
        name: group.to_owned(),
        engine: members.first().map(|first| first.engine.clone()).unwrap_or_default(),
        state,
        since_ms: longest.or(members.first().map(|first| first.since_ms)).unwrap_or(0),
        restarts: all.clone().map(|part| part.restarts).fold(0, u32::saturating_add),
        reason: None,
        pid: None,
        member: Some(told(&members, &balancers)),
        threads: all.flat_map(|part| part.threads.clone()).collect(),
    }
}

/// How many members are how, and how many balancers: `3 members: 2 serving, 1 suspect; 2 balancers: 2 serving`.
fn told(members: &[&RouterStatus], balancers: &[&RouterStatus]) -> String {
    let told = counted(members, "members");
    if balancers.is_empty() { told } else { format!("{told}; {}", counted(balancers, "balancers")) }
}

fn counted(members: &[&RouterStatus], what: &str) -> String {
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members {
        let state = member.member.as_deref().and_then(|told| told.split(',').next());
        *states.entry(state.unwrap_or(member.state.name())).or_default() += 1;
    }
    let states: Vec<String> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    format!("{} {what}: {}", members.len(), states.join(", "))
}

/// Counters with those of members added up under the name of their group.
pub fn added_up(counters: Counters) -> Counters {
    let sum = |values: BTreeMap<String, u64>| {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for (name, value) in values {
            let sum = all.entry(outside(&name)).or_default();
            *sum = sum.saturating_add(value);
        }
        all
    };
    Counters { counters: sum(counters.counters), cpu_ns: sum(counters.cpu_ns), ..counters }
}

/// Two readings with the counters of members added up, to be compared. What has restarted from zero in between,
/// or is no longer there, counts as 0 in the first one, as it would by itself: a sum must not decrease because one
/// member was restarted. A thread that was not there before has no CPU time yet.
pub fn both_added_up(mut earlier: Counters, mut later: Counters) -> (Counters, Counters) {
    let forget = |earlier: &mut BTreeMap<String, u64>, later: &BTreeMap<String, u64>| {
        for (name, value) in earlier {
            if later.get(name).is_none_or(|later| *later < *value) {
                *value = 0;
            }
        }
    };
    forget(&mut earlier.counters, &later.counters);
    forget(&mut earlier.cpu_ns, &later.cpu_ns);
    later.cpu_ns.retain(|name, _| earlier.cpu_ns.contains_key(name));
    (added_up(earlier), added_up(later))
}

/// The name of a counter or thread as that of its group.
fn outside(name: &str) -> String {
    let end = name.find(['.', '/']).unwrap_or(name.len());
    let (router, rest) = name.split_at(end);
    of(router).map_or_else(|| name.to_owned(), |group| format!("{group}{rest}"))
}

#[cfg(test)]
mod tests;
