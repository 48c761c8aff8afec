//! `ringroad show routes`, `route`, `neighbours`, `adjacencies` and `bfd`: what the control planes of routers have found.

use std::fmt::Write as _;
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use api::{Adjacency, Answer, ControlAnswer, ControlNeighbour, ControlQuestion, ControlRoute, Request};
use command_line::client::{self, Kind, Target, unexpected};
use command_line::group;
use serde_json::Value;

use crate::ps::format_duration;

/// What is shown of control planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Routes,
    Route,
    Neighbours,
    Adjacencies,
    Bfd,
}

impl Topic {
    /// Topic of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "routes" => Self::Routes,
            "route" => Self::Route,
            "neighbours" => Self::Neighbours,
            "adjacencies" => Self::Adjacencies,
            "bfd" => Self::Bfd,
            _ => return None,
        })
    }
}

/// What is asked for.
pub(crate) struct Wish<'w> {
    pub(crate) topic: Topic,
    /// Network or address.
    pub(crate) about: Option<&'w str>,
    /// Router; `None`: all that have a control plane.
    pub(crate) router: Option<&'w str>,
    pub(crate) json: bool,
}

/// Prints what is asked for.
///
/// # Errors
/// There is no such router, or none with a control plane.
pub(crate) fn show(wish: &Wish<'_>) -> Result<()> {
    let question = question(wish)?;
    if let Some(router) = wish.router {
        let mut target = client::find(router, Kind::Router)?;
        return client::print_from_run(&told(&mut target, router, &question, wish)?);
    }
    let (mut all, mut refusal) = (Vec::new(), None);
    for mut target in client::all()? {
        // A group has one control plane, under its own name.
        let speaker = |name: &str| group::of(name).unwrap_or(name).to_owned();
        let mut routers: Vec<String> = target.status.routers.iter().map(|own| speaker(&own.name)).collect();
        routers.dedup();
        for router in routers {
            match told(&mut target, &router, &question, wish) {
                Ok(text) => all.push(text),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
    }
    match refusal {
        Some(error) if all.is_empty() => Err(error),
        _ => client::print_from_run(&all.concat()),
    }
}

fn question(wish: &Wish<'_>) -> Result<ControlQuestion> {
    Ok(match (wish.topic, wish.about) {
        (Topic::Routes, within) => ControlQuestion::Routes { within: within.map(str::to_owned), after: None },
        (Topic::Route, Some(to)) => {
            let to: IpAddr =
                to.parse().with_context(|| format!("{to:?} is no address; write e.g. 192.0.2.7"))?;
            ControlQuestion::Route { to }
        }
        (Topic::Route, None) => bail!("of which address? write e.g. `ringroad show route 192.0.2.7`"),
        (_, Some(other)) => bail!("{other:?} is one word too many; a router is given by --vrf"),
        (Topic::Neighbours, None) => ControlQuestion::Neighbours {},
        (Topic::Adjacencies, None) => ControlQuestion::Adjacencies { protocol: None },
        (Topic::Bfd, None) => ControlQuestion::Adjacencies { protocol: Some("bfd".to_owned()) },
    })
}

/// What a router says, as text or as lines of JSON.
fn told(target: &mut Target, router: &str, first: &ControlQuestion, wish: &Wish<'_>) -> Result<String> {
    let (mut text, mut question) = (String::new(), first.clone());
    loop {
        let request = Request::Control { router: router.to_owned(), question: question.clone() };
        let Answer::Control(answer) = target.client.ask(&request)? else { return Err(unexpected().into()) };
        let last = match &answer {
            ControlAnswer::Routes { routes, more: true, .. } => routes.last().map(|route| route.to.clone()),
            _ => None,
        };
        text.push_str(&if wish.json { lines(router, &answer)? } else { page(router, &answer, wish)? });
        match (&mut question, last) {
            (ControlQuestion::Routes { after, .. }, Some(last)) => *after = Some(last),
            _ => return Ok(text),
        }
    }
}

/// An object for each thing, with its router.
fn lines(router: &str, answer: &ControlAnswer) -> Result<String> {
    let all: Result<Vec<Value>, _> = match answer {
        ControlAnswer::Routes { routes, .. } => routes.iter().map(serde_json::to_value).collect(),
        ControlAnswer::Neighbours { neighbours } => neighbours.iter().map(serde_json::to_value).collect(),
        ControlAnswer::Adjacencies { adjacencies } => adjacencies.iter().map(serde_json::to_value).collect(),
        ControlAnswer::Place(_) => return Err(unexpected().into()),
    };
    let line = |mut one: Value| {
        one["router"] = router.into();
        one.to_string() + "\n"
    };
    Ok(all?.into_iter().map(line).collect())
}

fn page(router: &str, answer: &ControlAnswer, wish: &Wish<'_>) -> Result<String> {
    let mut text = String::new();
    match answer {
        ControlAnswer::Routes { routes, epoch, late, .. } => {
            routes.iter().try_for_each(|route| writeln!(text, "{router:<12} {}", route_line(route)))?;
            if wish.topic == Topic::Route {
                let found = if routes.is_empty() { "no route; " } else { "" };
                match epoch {
                    // A kernel has no epochs, and room for all.
                    0 => writeln!(text, "{router:<12} {found}table of its kernel")?,
                    _ => writeln!(
                        text,
                        "{router:<12} {found}table of epoch {epoch}, no room for {late} networks"
                    )?,
                }
            }
        }
        ControlAnswer::Neighbours { neighbours } => {
            neighbours.iter().try_for_each(|one| writeln!(text, "{router:<12} {}", neighbour_line(one)))?;
        }
        ControlAnswer::Adjacencies { adjacencies } => {
            adjacencies.iter().try_for_each(|one| writeln!(text, "{router:<12} {}", adjacency_line(one)))?;
        }
        ControlAnswer::Place(_) => return Err(unexpected().into()),
    }
    Ok(text)
}

/// `198.51.100.0/24 via 10.0.12.2 by ab, ospf`
fn route_line(route: &ControlRoute) -> String {
    let hops: Vec<String> = route
        .hops
        .iter()
        .map(|hop| {
            let via = hop.via.map_or_else(String::new, |via| format!("via {via} "));
            let weight = if hop.weight == 1 { String::new() } else { format!(" weight {}", hop.weight) };
            format!("{via}by {}{weight}", hop.link)
        })
        .collect();
    let way = if hops.is_empty() { route.fate.clone() } else { hops.join(", ") };
    let stale = if route.stale { ", of before zebra's restart" } else { "" };
    format!("{} {way}, {}{stale}", route.to, route.protocol)
}

fn neighbour_line(known: &ControlNeighbour) -> String {
    let mac = known.mac.as_deref().unwrap_or("?");
    format!("{} is {mac} behind {}, {}", known.address, known.link, known.state)
}

/// `ospf   10.0.12.2 by ab: Full/Backup for 12 s, router 10.0.0.2`
fn adjacency_line(known: &Adjacency) -> String {
    let link = if known.link.is_empty() { String::new() } else { format!(" by {}", known.link) };
    let since =
        known.seconds.map_or_else(String::new, |seconds| format!(" for {}", format_duration(seconds * 1000)));
    let detail = if known.detail.is_empty() { String::new() } else { format!(", {}", known.detail) };
    format!("{:<6} {}{link}: {}{since}{detail}", known.protocol, known.peer, known.state)
}

#[cfg(test)]
mod tests {
    use api::ControlHop;

    use super::*;

    #[test]
    fn a_route_is_a_line() {
        let hop = |via: Option<&str>, link: &str, weight| ControlHop {
            via: via.map(|via| via.parse().expect("an address")),
            link: link.to_owned(),
            weight,
        };
        let mut route = ControlRoute {
            to: "198.51.100.0/24".to_owned(),
            protocol: "ospf".to_owned(),
            fate: "forwarded".to_owned(),
            hops: vec![hop(Some("10.0.12.2"), "ab", 1), hop(None, "ac", 2)],
            stale: true,
        };
        let line = "198.51.100.0/24 via 10.0.12.2 by ab, by ac weight 2, ospf, of before zebra's restart";
        assert_eq!(route_line(&route), line);
        (route.hops, route.stale, route.fate) = (Vec::new(), false, "blackhole".to_owned());
        assert_eq!(route_line(&route), "198.51.100.0/24 blackhole, ospf");
    }

    #[test]
    fn an_adjacency_is_a_line() {
        let known = Adjacency {
            protocol: "ospf".to_owned(),
            peer: "10.0.12.2".to_owned(),
            detail: "router 10.0.0.2".to_owned(),
            link: "ab".to_owned(),
            state: "Full/Backup".to_owned(),
            up: true,
            seconds: None,
        };
        assert_eq!(adjacency_line(&known), "ospf   10.0.12.2 by ab: Full/Backup, router 10.0.0.2");
    }

    #[test]
    fn json_is_as_documented() {
        let hop = ControlHop { via: None, link: "wan".to_owned(), weight: 1 };
        let route = |hops, stale| ControlRoute {
            to: "192.0.2.0/24".to_owned(),
            protocol: "kernel".to_owned(),
            fate: "forwarded".to_owned(),
            hops,
            stale,
        };
        let routes = vec![route(vec![hop], true), route(Vec::new(), false)];
        let answer = ControlAnswer::Routes { routes, more: false, epoch: 1, late: 0 };
        let text = lines("edge", &answer).expect("JSON");
        assert_eq!(text.lines().count(), 2);
        support::schema::check_lines("show routes", &text);
        let neighbour = ControlNeighbour {
            link: "wan".to_owned(),
            address: [192, 0, 2, 9].into(),
            mac: None,
            state: "failed".to_owned(),
        };
        let answer = ControlAnswer::Neighbours { neighbours: vec![neighbour] };
        support::schema::check_lines("show neighbours", &lines("edge", &answer).expect("JSON"));
        let adjacency = Adjacency {
            protocol: "bfd".to_owned(),
            peer: "192.0.2.9".to_owned(),
            detail: "ok".to_owned(),
            link: String::new(),
            state: "up".to_owned(),
            up: true,
            seconds: Some(5),
        };
        let answer = ControlAnswer::Adjacencies { adjacencies: vec![adjacency] };
        support::schema::check_lines("show adjacencies", &lines("edge", &answer).expect("JSON"));
    }

    #[test]
    fn what_is_missing_or_too_much_is_refused() {
        let wish = |topic, about| Wish { topic, about, router: None, json: false };
        let refusal = |topic, about| question(&wish(topic, about)).expect_err("it is refused").to_string();
        assert!(refusal(Topic::Route, None).contains("ringroad show route 192.0.2.7"));
        assert_eq!(refusal(Topic::Route, Some("x")), "\"x\" is no address; write e.g. 192.0.2.7");
        assert!(refusal(Topic::Bfd, Some("edge")).contains("--vrf"));
        let routes = question(&wish(Topic::Routes, Some("10.0.0.0/8"))).expect("a question");
        assert_eq!(routes, ControlQuestion::Routes { within: Some("10.0.0.0/8".to_owned()), after: None });
    }
}
