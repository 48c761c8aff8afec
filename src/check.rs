//! `ringroad check FILE`: prints the plan, and what this host can and cannot do for it.

mod json;

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use config::{
    Deliver, Engine, Errors, ForwardingSettings, Group, Itr, Mac, Nic, NicModel, Plan, Router, RpFilter,
    Spin, Spread, TransmitMode,
};
use host::{Finding, State, needs, references};
use sched::Outline;
use sched::ceiling::{Ceiling, Resource, place};
use sched::promises::Promises;
use supervisor::{Planned, mib, needed};

use crate::doctor;

/// A plan checked against this host.
struct CheckedPlan {
    plan: Plan,
    /// Placement of its threads, or why that is impossible.
    threads: Result<Planned, Errors>,
    /// Note on routers that run as processes because this host has no KVM.
    by_process: Option<String>,
    findings: Vec<Finding>,
    /// Requirements that this host cannot meet.
    faults: Errors,
}

/// Checks a file, and prints the plan and findings about this host.
///
/// # Errors
/// Faults of the file, or requirements that this host cannot meet.
pub(crate) fn check(file: &Path, json: bool) -> Result<()> {
    let looked = config::load(file).map(look);
    if let Ok(looked) = &looked {
        command_line::print(&if json { json::lines(looked) } else { text(looked) })?;
    }
    let outcome = looked.and_then(CheckedPlan::outcome);
    if let (Err(errors), true) = (&outcome, json) {
        command_line::print(&json::errors(errors))?;
    }
    Ok(outcome?)
}

/// Prints the file of a back end on another host, for that host.
///
/// # Errors
/// Faults of the file, or no group in it has such a back end.
pub(crate) fn remote(file: &Path, member: &str) -> Result<()> {
    let plan = config::load(file)?;
    let faults = plan.errors(plan.not_yet());
    if !faults.is_empty() {
        return Err(faults.into());
    }
    command_line::print(&plan.remote_file(member)?)
}

fn look(mut plan: Plan) -> CheckedPlan {
    let facts = host::facts(&plan);
    let faults =
        plan.check_host(&facts).and(references::faults(&plan, None)).and(needs::telemetry_faults(&plan));
    let by_process = plan.choose_engines(&facts);
    let threads = supervisor::planned(&plan, Instant::now());
    let mut findings = needs::findings(&plan, &facts);
    findings.push(ceilings(&plan));
    CheckedPlan { plan, threads, by_process, findings, faults }
}

impl CheckedPlan {
    fn outcome(self) -> Result<(), Errors> {
        if self.faults.is_empty() { self.threads.map(drop) } else { Err(self.faults) }
    }
}

fn text(looked: &CheckedPlan) -> String {
    let plan = describe(&looked.plan, looked.threads.as_ref().ok());
    let by_process = looked.by_process.as_ref().map_or_else(String::new, |line| format!("{line}\n"));
    format!("{plan}this host\n{by_process}{}", doctor::table(&looked.findings))
}

/// Ceilings of the run, if the host can enforce them.
fn ceilings(plan: &Plan) -> Finding {
    let Ceiling { memory, tasks } = needed(plan, None, host::memory_total());
    let figure = format!("memory {}, {tasks} tasks", mib(memory));
    let lacks = Resource::ALL.into_iter().find_map(|resource| place(resource).err());
    let meaning =
        lacks.unwrap_or_else(|| "more than that its processes do not get (docs/limits.md)".to_owned());
    Finding::new(State::Ok, "ceilings", figure, meaning)
}

/// Describes a plan; with the placement of its threads, if that is possible.
fn describe(plan: &Plan, threads: Option<&Planned>) -> String {
    let mut text = format!("plan {}\n", plan.name);
    for switch in &plan.switches {
        let ports = ports(plan, &switch.name);
        let ports = if ports.is_empty() { "no ports".to_owned() } else { ports.join(" ") };
        line(&mut text, format!("switch {}: {ports}, ageing {} s", switch.name, switch.ageing.as_secs()));
    }
    for group in &plan.groups {
        line(&mut text, describe_group(group));
        group.remote_members().for_each(|number| line(&mut text, describe_remote(group, number)));
        let slots = threads.into_iter().flat_map(|threads| &threads.outline.slots);
        let own = slots.filter(|slot| slot.router == group.name);
        own.for_each(|slot| line(&mut text, format!("  thread {slot}")));
    }
    for router in &plan.routers {
        describe_router(&mut text, router);
        describe_threads(&mut text, router, threads.map(|threads| &threads.outline));
    }
    if let Some(Planned { outline, promises, .. }) = threads {
        // Its threads are shown with their routers.
        let made = Outline { slots: Vec::new(), ..outline.clone() };
        text.push_str(&made.to_string());
        promises
            .iter()
            .flat_map(Promises::promised)
            .for_each(|promised| line(&mut text, promised.to_string()));
        promises.iter().filter_map(Promises::pending_trouble).for_each(|doubt| line(&mut text, doubt));
    }
    line(&mut text, format!("memory {} MiB for {} routers", plan.memory() >> 20, plan.routers.len()));
    text
}

/// NICs attached to a switch, and those of back ends that tunnels lead to from there.
fn ports(plan: &Plan, switch: &str) -> Vec<String> {
    let ports = plan.nics().filter(|(_, nic)| nic.attach.switch() == Some(switch));
    let ports = ports.map(|(router, nic)| format!("{}.{}", router.name, nic.name));
    ports.chain(plan.tunnel_ports().filter(|port| port.switch == switch).map(|port| port.label())).collect()
}

fn describe_group(group: &Group) -> String {
    let spread = match group.spread {
        Spread::Flow => "spread by flow",
        Spread::RoundRobin => "dealt out one by one: those of a flow may overtake each other",
    };
    let spare = match group.spares() {
        0 => String::new(),
        spare => format!(" and {spare} spare"),
    };
    let (name, kind, members) = (&group.name, group.kind.name(), group.members - group.spares());
    format!("group {name}: {kind}, {members} members{spare}, frames are {spread}")
}

/// Describes a member on another host: what the group expects of its NICs.
fn describe_remote(group: &Group, number: u32) -> String {
    let nics = group.pattern.nics.iter().zip(group.stations(number)).enumerate();
    let told = |(at, (nic, station)): (usize, (&Nic, Mac))| {
        let tunnel = group.tunnel(number, at);
        let tunnel = tunnel.map_or_else(String::new, |tunnel| format!(" by {tunnel}"));
        format!("{} {station}{tunnel}", nic.name)
    };
    let nics: Vec<String> = nics.map(told).collect();
    format!("  {} on another host: {}", group.member(number), nics.join(", "))
}

fn describe_router(text: &mut String, router: &Router) {
    let kernel = router.kernel.as_ref();
    let what = kernel.map_or_else(|| describe_machine(router), |kernel| describe_kernel(router, kernel));
    line(text, format!("router {}: {what}", router.name));
    for nic in &router.nics {
        let nic = if router.is_in_kernel() { describe_interface(nic) } else { describe_nic(nic) };
        line(text, format!("  nic {nic}"));
    }
    for route in &router.routes {
        let via = route.via.map_or_else(String::new, |via| format!(" via {via}"));
        line(text, format!("  route {}{via} out of {}", route.to, nic_name(router, route.nic)));
    }
    for neighbour in &router.neighbours {
        let name = nic_name(router, neighbour.nic);
        line(text, format!("  neighbour {} is {} on {name}", neighbour.address, neighbour.mac));
    }
    describe_forwarding(text, router);
    if let Some(control) = &router.control {
        line(text, format!("  control plane {control}"));
    }
}

/// IPv6 routes and neighbours, routes of a type, interfaces for VLANs.
fn describe_forwarding(text: &mut String, router: &Router) {
    for own in &router.forwarding.interfaces {
        let six = own.six.addresses.iter().map(ToString::to_string);
        let all: Vec<String> = own.addresses.iter().map(ToString::to_string).chain(six).collect();
        let addresses = if all.is_empty() { "no address".to_owned() } else { all.join(", ") };
        let vrf = own.vrf.as_ref().map_or_else(String::new, |vrf| format!(", VRF {vrf}"));
        line(
            text,
            format!(
                "  interface {} of {}: VLAN {}, {addresses}{vrf}",
                own.name,
                nic_name(router, own.nic),
                own.tags
            ),
        );
    }
    for route in &router.forwarding.routes6 {
        let via = route.via.map_or_else(String::new, |via| format!(" via {via}"));
        line(text, format!("  route {}{via} out of {}", route.to, nic_name(router, route.nic)));
    }
    for route in &router.forwarding.spread {
        let (via, names) = (route.gateways(), supervisor::plan_report::nic_names(router, route));
        line(text, format!("  route {} via {via} out of {names}", route.to));
    }
    for route in &router.forwarding.refused {
        let vrf = router.vrf_name(route.table).map_or_else(String::new, |vrf| format!(" in VRF {vrf}"));
        line(text, format!("  route {} {}{vrf}", route.to, route.kind.name()));
    }
    for neighbour in &router.forwarding.neighbours6 {
        let name = nic_name(router, neighbour.nic);
        line(text, format!("  neighbour {} is {} on {name}", neighbour.address, neighbour.mac));
    }
}

fn describe_machine(router: &Router) -> String {
    let engine = router.engine.map_or("no engine", Engine::name);
    let spin = match router.spin {
        Spin::Always => "never sleeps".to_owned(),
        Spin::For(time) => format!("sleeps after {time:?} without work"),
    };
    let (vcpus, mib) = (router.vcpus, router.memory >> 20);
    let apart = if router.is_isolated() { " in a process of its own" } else { "" };
    let limit = router.limit.map_or_else(String::new, |limit| format!(", lets in at most {limit}"));
    format!("{engine}{apart}, {vcpus} vCPU, {mib} MiB, {spin}{limit}")
}

/// Describes the forwarding settings of a kernel router.
fn describe_kernel(router: &Router, kernel: &ForwardingSettings) -> String {
    let place = if router.container.is_some() { "a container of LXC" } else { "a namespace" };
    let forwards = if kernel.forwarding { "forwards" } else { "forwards nothing" };
    let filter = match kernel.rp_filter {
        RpFilter::Off => "",
        RpFilter::Strict => ", reverse path filter strict",
        RpFilter::Loose => ", reverse path filter loose",
    };
    let arp = if kernel.proxy_arp { ", proxy ARP" } else { "" };
    let threads = if router.is_threaded() { ", threaded NAPI" } else { "" };
    let drops = if kernel.drop_reasons { ", drops counted by reason" } else { "" };
    let limit = router.limit.map_or_else(String::new, |limit| format!(", lets in at most {limit}"));
    format!("{place} in which the host's kernel {forwards}{filter}{arp}{threads}{drops}{limit}")
}

/// Placement and scheduling of its threads.
fn describe_threads(text: &mut String, router: &Router, threads: Option<&Outline>) {
    let slots = threads.into_iter().flat_map(|outline| &outline.slots);
    let mut planned = slots.filter(|slot| slot.router == router.name).peekable();
    if planned.peek().is_some() {
        return planned.for_each(|slot| line(text, format!("  thread {slot}")));
    }
    for (name, cpus) in router.threads() {
        let cpus = cpus.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
        line(text, format!("  thread {name} on {cpus}"));
    }
}

fn addresses(nic: &Nic) -> String {
    let six = nic.six.addresses.iter().map(ToString::to_string);
    let addresses: Vec<String> = nic.addresses.iter().map(ToString::to_string).chain(six).collect();
    if addresses.is_empty() { "no address".to_owned() } else { addresses.join(" ") }
}

/// Describes a NIC of a kernel router.
fn describe_interface(nic: &Nic) -> String {
    let detail = nic.attach.detail();
    format!("{} {} {}{detail} {}, mtu {}", nic.name, nic.mac, nic.attach, addresses(nic), nic.mtu)
}

fn describe_nic(nic: &Nic) -> String {
    let (model, moderation, addresses) = (describe_model(nic), describe_moderation(nic.itr), addresses(nic));
    let deliver = match (nic.deliver, nic.attach.switch()) {
        (Deliver::Direct, _) => ", delivered by the sender".to_owned(),
        (Deliver::Queued, Some(_)) => format!(", queue of {} frames", nic.queue_len),
        (Deliver::Queued, None) => String::new(),
    };
    let vrf = nic.vrf.as_ref().map_or_else(String::new, |vrf| format!(", VRF {vrf}"));
    format!(
        "{} {model} {} {} {addresses}, mtu {}, {} x {} entries{moderation}{deliver}{vrf}",
        nic.name, nic.mac, nic.attach, nic.mtu, nic.queues, nic.ring
    )
}

/// Model of a NIC, and the transmit mode of an e1000.
fn describe_model(nic: &Nic) -> String {
    match (nic.model, nic.mode) {
        (NicModel::VirtioNet, _) => nic.model.name().to_owned(),
        (NicModel::E1000, TransmitMode::SendCombining) => {
            let of = if nic.combine > 0 { format!(" of {} frames", nic.combine) } else { String::new() };
            let above = nic.combine_above;
            let above = if above > 0 { format!(" above {above} a second") } else { String::new() };
            format!("e1000 (send-combining{of}{above})")
        }
        (NicModel::E1000, mode) => format!("e1000 ({})", mode.name()),
    }
}

/// Interrupt moderation, if there is any.
fn describe_moderation(itr: Itr) -> String {
    match itr {
        Itr::Every(0) => String::new(),
        Itr::Every(units) => {
            format!(", interrupts at least {:?} apart", Duration::from_nanos(250 * u64::from(units)))
        }
        Itr::Adaptive => ", adaptive interrupts".to_owned(),
    }
}

fn nic_name(router: &Router, index: usize) -> &str {
    router.link_name(index).unwrap_or("?")
}

fn line(text: &mut String, line: String) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}
