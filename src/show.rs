//! `ringroad show NAME`: prints the details of a router.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};
use api::{Answer, InterfaceShown, NicDetails, Request, RouterDetails, Value};
use command_line::client::{self, Kind, Target, unexpected};
use command_line::group;

use crate::ps::format_duration;
use crate::routing::{self, Topic, Wish};

/// Prints all there is to know about a router, or about a group as one; where they are asked for about each of its members and
/// balancers. A topic of control planes is shown instead, unless a router has its name and no more is said.
///
/// # Errors
/// There is no such router.
pub(crate) fn show(
    router: &str,
    (about, vrf): (Option<&str>, Option<&str>),
    json: bool,
    members: bool,
) -> Result<()> {
    let is_plain = about.is_none() && vrf.is_none();
    if let Some(topic) = Topic::named(router)
        && !(is_plain && client::find(router, Kind::Router).is_ok())
    {
        return routing::show(&Wish { topic, about, router: vrf, json });
    }
    ensure!(
        is_plain,
        "a router is shown without more words; routes, route, neighbours, adjacencies and bfd take some"
    );
    let mut target = client::find(router, Kind::Router)?;
    let own = target.status.routers.iter().filter(|own| members && group::around(&own.name) == Some(router));
    let mut names: Vec<String> = own.map(|own| own.name.clone()).collect();
    if names.is_empty() {
        names.push(router.to_owned());
    }
    for name in names {
        let shown = ask(&mut target, name)?;
        client::print_from_run(&if json { line(&shown)? } else { text(&shown) })?;
    }
    Ok(())
}

fn ask(target: &mut Target, router: String) -> Result<RouterDetails> {
    let whole = group::folded(&target.status.routers).into_iter().find(|own| own.name == router);
    let own = target.status.routers.iter().find(|own| own.name == router).cloned();
    match target.client.ask(&Request::Show { router })? {
        Answer::Show(mut shown) => {
            match (own, whole) {
                // A group, which only those know who know its members.
                (None, Some(whole)) => shown.status = whole,
                (Some(own), _) => shown.status.member = own.member,
                (None, None) => {}
            }
            Ok(*shown)
        }
        _ => Err(unexpected().into()),
    }
}

/// All details as one JSON object.
fn line(shown: &RouterDetails) -> Result<String> {
    Ok(serde_json::to_string(shown)? + "\n")
}

/// One fact per line, each preceded by its kind.
fn text(shown: &RouterDetails) -> String {
    let status = &shown.status;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |kind: &str, what: String| {
        let _ = writeln!(text, "{kind:<10} {what}");
    };
    line("router", format!("{} of run {}", status.name, shown.run));
    let state = status.state.name();
    let (long, times) = (format_duration(status.since_ms), status.restarts);
    line("state", format!("{state} for {long}, restarted {times} times"));
    if let Some(member) = &status.member {
        line("group", member.clone());
    }
    if let Some(reason) = &status.reason {
        line("reason", reason.clone());
    }
    let pid = status.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
    line("engine", format!("{}{pid}", status.engine));
    line("settings", settings(&shown.settings));
    let threads: Vec<_> = status.threads.iter().map(|t| format!("{} {}", t.name, t.tid)).collect();
    line("threads", if threads.is_empty() { "none".to_owned() } else { threads.join(", ") });
    for nic in &shown.nics {
        line("nic", self::nic(nic));
    }
    for own in &shown.interfaces {
        line("interface", interface(own));
    }
    for route in &shown.routes {
        let via = route.via.as_ref().map(|via| format!(" via {via}")).unwrap_or_default();
        let vrf = route.vrf.as_ref().map(|vrf| format!(" in VRF {vrf}")).unwrap_or_default();
        line("route", format!("{}{via} by {}{vrf}", route.to, route.nic));
    }
    for neighbour in &shown.neighbours {
        line("neighbour", format!("{} is {} behind {}", neighbour.address, neighbour.mac, neighbour.nic));
    }
    text
}

fn nic(nic: &NicDetails) -> String {
    let (addresses, settings) = (addresses(&nic.addresses), settings(&nic.settings));
    format!("{} {} {} {addresses}; {settings}", nic.name, nic.attach, nic.mac)
}

fn interface(own: &InterfaceShown) -> String {
    let (addresses, settings) = (addresses(&own.addresses), settings(&own.settings));
    format!("{} VLAN {} of {} {addresses}; {settings}", own.name, own.vlan, own.nic)
}

fn addresses(all: &[String]) -> String {
    if all.is_empty() { "no address".to_owned() } else { all.join(", ") }
}

fn settings(settings: &BTreeMap<String, Value>) -> String {
    settings.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
