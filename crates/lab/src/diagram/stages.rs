//! Stages of a multistage group as columns of stations, and what joins them. Pure functions of the plan and of what exists.

use anyhow::{Context, Result, bail, ensure};
use config::{Balancer, Group, GroupKind, Interconnect, Nic, Plan, Stages};

use super::{Seen, Space, Station};

/// One column of a drawing: stations of the same task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Its task: `balancers`.
    pub title: String,
    /// Its stations, from top to bottom.
    pub stations: Vec<Station>,
    /// Lines to stations of the next column: the index of a station here, and of one there.
    pub lines: Vec<(usize, usize)>,
}

/// Stages of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Name of the group.
    pub group: String,
    /// Columns, in the order in which a frame passes them.
    pub stages: Vec<Stage>,
}

impl Graph {
    /// Formats the stages as one line.
    pub fn line(&self) -> String {
        let station = |station: &Station| format!("{} ({})", station.name, station.what);
        let stage = |stage: &Stage| {
            let stations: Vec<String> = stage.stations.iter().map(station).collect();
            format!("{}: {}", stage.title, stations.join(", "))
        };
        self.stages.iter().map(stage).collect::<Vec<_>>().join(" > ")
    }
}

/// Returns the stages of the first group of a plan.
///
/// # Errors
/// The plan has no multistage group, or one of its interfaces, balancers or back ends does not exist.
pub fn graph(plan: &Plan, seen: &Seen) -> Result<Graph> {
    let group = plan.groups.first().context("there is no group")?;
    let GroupKind::Multistage(stages) = &group.kind else {
        bail!("group {} has no stages", group.name);
    };
    let (nics, links) = (group.pattern.nics.len(), links(group, seen)?);
    let (balancers, back_ends) = (balancers(group, stages, seen)?, back_ends(plan, group, seen)?);
    let (readers, members) = (balancers.len(), back_ends.len());
    // A NIC belongs to the balancer with its number, around.
    let balancer_of = |nic: usize| nic % readers;
    let read = (0..nics).map(|nic| (nic, balancer_of(nic))).collect();
    let mut columns = vec![stage("links", links.clone(), read)];
    if stages.balancer == Balancer::Switch {
        // Balancers hand frames to back ends themselves, and these send to the links.
        columns.push(stage("balancers", balancers, all(readers, members)));
        columns.push(stage("back ends", back_ends, all(members, links.len())));
        columns.push(stage("links", links, Vec::new()));
    } else {
        // Each NIC has a switch of its own, or all have one bridge. Back ends send back to balancers.
        let inside = interconnection(plan, group, &stages.interconnect, seen)?;
        let joins = inside.len();
        let spread = (0..nics).map(|nic| (balancer_of(nic), nic.min(joins.saturating_sub(1)))).collect();
        columns.push(stage("balancers", balancers, spread));
        columns.push(stage("interconnection", inside, all(joins, members)));
        columns.push(stage("back ends", back_ends, Vec::new()));
    }
    Ok(Graph { group: group.name.clone(), stages: columns })
}

/// Returns the lines from each of so many stations to each of so many others.
fn all(from: usize, to: usize) -> Vec<(usize, usize)> {
    (0..from).flat_map(|here| (0..to).map(move |there| (here, there))).collect()
}

fn stage(title: &str, stations: Vec<Station>, mut lines: Vec<(usize, usize)>) -> Stage {
    lines.sort_unstable();
    lines.dedup();
    Stage { title: title.to_owned(), stations, lines }
}

/// Returns the interfaces that the group's NICs are attached to.
fn links(group: &Group, seen: &Seen) -> Result<Vec<Station>> {
    let link = |nic: &Nic| {
        let name = nic.attach.name();
        ensure!(seen.outside.contains(name), "there is no interface {name} for NIC {} to stand on", nic.name);
        let what = format!("{} of {}", nic.attach.kind(), nic.name);
        Ok(Station { name: name.to_owned(), what, space: Space::Kernel, part: None })
    };
    group.pattern.nics.iter().map(link).collect()
}

/// Returns the balancers that run.
fn balancers(group: &Group, stages: &Stages, seen: &Seen) -> Result<Vec<Station>> {
    let roles = |router: &str| seen.threads.get(router).into_iter().flatten();
    let balancer = |number: u32| {
        let (name, what, is_there) = match stages.balancer {
            Balancer::Switch => {
                let own = format!("lb{number}");
                let is_there = roles(&group.name).any(|role| *role == own);
                (format!("{}/{own}", group.name), "a thread", is_there)
            }
            Balancer::Vm => {
                let name = format!("{}_lb{number}", group.name);
                let is_there = roles(&name).any(|role| role.starts_with("vcpu"));
                (name, "virtual machine", is_there)
            }
        };
        ensure!(is_there, "balancer {name} does not run");
        Ok(Station { name, what: what.to_owned(), space: Space::User, part: None })
    };
    (0..group.balancers()).map(balancer).collect()
}

/// Returns what joins the stages: a switch of the run for each NIC, or one bridge.
fn interconnection(plan: &Plan, group: &Group, join: &Interconnect, seen: &Seen) -> Result<Vec<Station>> {
    let bridge = match join {
        Interconnect::Switch => {
            return group.pattern.nics.iter().map(|nic| inner_switch(plan, group, nic)).collect();
        }
        Interconnect::Bridge(bridge) => bridge,
    };
    let name = bridge.name();
    let ports = seen.ports.get(name).with_context(|| format!("there is no bridge {name}"))?;
    ensure!(!ports.is_empty(), "bridge {name} has no ports");
    let what = if bridge.kind() == "ovs" { "Open vSwitch" } else { "bridge" };
    let what = format!("{what}, {} ports", ports.len());
    Ok(vec![Station { name: name.to_owned(), what, space: Space::Kernel, part: None }])
}

/// Returns the switch of the run between the balancer of a NIC and the back ends, which has the names of both.
fn inner_switch(plan: &Plan, group: &Group, nic: &Nic) -> Result<Station> {
    let name = format!("{}_{}", group.name, nic.name);
    ensure!(plan.switches.iter().any(|switch| switch.name == name), "there is no switch {name}");
    Ok(Station { name, what: "switch".to_owned(), space: Space::User, part: None })
}

/// Returns the members that run.
fn back_ends(plan: &Plan, group: &Group, seen: &Seen) -> Result<Vec<Station>> {
    let member = |router: &config::Router| {
        let runs = seen
            .threads
            .get(&router.name)
            .is_some_and(|roles| roles.iter().any(|role| role.starts_with("vcpu")));
        ensure!(runs, "back end {} has no vCPU that runs", router.name);
        let nics: Vec<&str> = router.nics.iter().map(|nic| nic.name.as_str()).collect();
        let (name, what) = (router.name.clone(), nics.join(", "));
        Ok(Station { name, what, space: Space::User, part: None })
    };
    let members: Vec<Station> = plan.members(&group.name).map(member).collect::<Result<_>>()?;
    ensure!(!members.is_empty(), "group {} has no back ends", group.name);
    Ok(members)
}
