//! Answers about a control plane.

use std::net::IpAddr;
use std::process::Child;
use std::sync::Arc;
use std::thread::Builder;

use anyhow::{Context, Result, bail, ensure};
use api::{
    Adjacency, Answer, ControlAnswer, ControlHop, ControlNeighbour, ControlPlace, ControlQuestion,
    ControlRoute, Ticket,
};
use config::Ip as _;
use fpm::{Found, Paths, Rib, Target};
use frr::{CommandLine, Protocol, ask};
use netlink::{Mirror, Neighbour, NextHop, Object, Prefix, State};
use rustix::fd::{AsFd, AsRawFd};

use super::taught::MAIN;
use super::thread::{ControlPlane, Forwarder, Question, Report};

/// Most routes of an answer.
const PAGE: usize = 1000;
/// Most questions to daemons at a time.
const MOST_ASKED: usize = 4;
/// Program and words that end a shell of FRR that hangs after ten seconds.
const LIMIT: (&str, [&str; 3]) = ("timeout", ["-k", "1", "10"]);

impl ControlPlane {
    /// Answers, or has another thread answer that waits for daemons.
    pub(super) fn answer(&mut self, question: Question) {
        let ticket = question.ticket;
        match self.try_answer(question) {
            Ok(None) => {}
            Ok(Some(answer)) => self.reports.send(Report::Answer(ticket, Ok(Answer::Control(answer)))),
            Err(error) => self.reports.send(Report::Answer(ticket, Err(refusal(&error)))),
        }
    }

    /// `None`: another thread answers.
    fn try_answer(&mut self, asked: Question) -> Result<Option<ControlAnswer>> {
        let Question { ticket, question, epoch, late } = asked;
        Ok(Some(match question {
            ControlQuestion::Routes { within, after } => {
                let (rib, mirror) = self.table(after.is_some())?;
                let (routes, more) = page(rib, mirror, within.as_deref(), after.as_deref())?;
                ControlAnswer::Routes { routes, more, epoch, late }
            }
            ControlQuestion::Route { to } => {
                let (rib, mirror) = self.table(false)?;
                let found = rib.find(MAIN, to);
                let routes = found.iter().map(|found| route(mirror, found)).collect();
                ControlAnswer::Routes { routes, more: false, epoch, late }
            }
            ControlQuestion::Neighbours {} => ControlAnswer::Neighbours { neighbours: self.neighbours()? },
            ControlQuestion::Adjacencies { protocol } => {
                let answers = self.ask_daemons(protocol.as_deref())?;
                self.wait_for(answers, ticket)?;
                return Ok(None);
            }
            ControlQuestion::Place {} => ControlAnswer::Place(self.place()),
        }))
    }

    /// Routes by which packets go, and the interfaces that they name; `is_next`: for the next page of a list.
    fn table(&mut self, is_next: bool) -> Result<(&Rib, &Mirror)> {
        let now = self.now();
        let Self { mirror, forwarder, .. } = self;
        let rib = match forwarder {
            Forwarder::Machine(path) => path.routes.session.rib(),
            Forwarder::Kernel(table) => {
                let read = table.rib(mirror.kernel(), is_next, now);
                read.context("the kernel's routes cannot be read: ask again in a second")?
            }
        };
        Ok((rib, &*mirror))
    }

    /// Has a thread wait for the answers of daemons, and answer.
    fn wait_for(&self, answers: Vec<(Protocol, Child)>, ticket: Ticket) -> Result<()> {
        let (reports, asking) = (self.reports.clone(), self.asking.clone());
        let work = move || {
            let answer = ControlAnswer::Adjacencies { adjacencies: read_all(answers) };
            reports.send(Report::Answer(ticket, Ok(Answer::Control(answer))));
            drop(asking);
        };
        let thread = Builder::new().name(format!("{}/asking", self.router.name));
        thread.spawn(work).context("no thread can be had: ask again in a second")?;
        Ok(())
    }

    /// Neighbours on the links, as the kernel knows them now.
    fn neighbours(&self) -> Result<Vec<ControlNeighbour>> {
        let reading = "the kernel's neighbours cannot be read: ask again in a second";
        let mut known: Vec<Neighbour> = self.mirror.kernel().all().context(reading)?;
        known.retain(|known| !known.ip.is_multicast());
        known.sort_by_key(Object::key);
        let shown = known.iter().map(|known| ControlNeighbour {
            link: link(&self.mirror, known.index),
            address: known.ip,
            mac: known.mac.map(|mac| config::Mac(mac).to_string()),
            state: state(known.state).to_owned(),
        });
        Ok(shown.collect())
    }

    fn place(&self) -> ControlPlace {
        let fd = self.namespace.as_fd().as_raw_fd();
        let network = format!("/proc/{}/fd/{fd}", std::process::id());
        let Some(running) = self.daemons.running() else {
            return ControlPlace { network, ..ControlPlace::default() };
        };
        let CommandLine { program, words } = running.shell();
        let program = program.display().to_string();
        ControlPlace {
            network,
            mounts: Some(format!("/proc/{}/ns/mnt", running.house().first())),
            shell: [program].into_iter().chain(words).collect(),
        }
    }

    /// Asks the daemons of all protocols that run, or of one; they answer in a while.
    fn ask_daemons(&self, only: Option<&str>) -> Result<Vec<(Protocol, Child)>> {
        let name = &self.router.name;
        ensure!(
            self.daemons.is_wanted(),
            "router {name} runs no FRR; write e.g. control = {{ frr = \"{name}.conf\" }}"
        );
        let running = self.daemons.running().context("FRR does not run yet: ask again in a second")?;
        ensure!(Arc::strong_count(&self.asking) <= MOST_ASKED, "too many ask at once: ask again in a second");
        if let Some(name) = only.filter(|name| Protocol::ALL.iter().all(|known| known.name() != *name)) {
            let known = Protocol::ALL.map(Protocol::name).join(", ");
            bail!("there is no protocol {name:?}; protocols: {known}");
        }
        let is_asked = |protocol: &Protocol| {
            only.is_none_or(|name| name == protocol.name()) && running.process(protocol.daemon()).is_some()
        };
        let asked = Protocol::ALL.into_iter().filter(is_asked).map(|protocol| {
            let CommandLine { program, words } = running.question(protocol.question());
            let (limiter, limits) = LIMIT;
            let words =
                limits.map(str::to_owned).into_iter().chain([program.display().to_string()]).chain(words);
            let line = CommandLine { program: limiter.into(), words: words.collect() };
            Ok((protocol, running.house().ask(&line).context("FRR cannot be asked")?))
        });
        asked.collect()
    }
}

/// Routes to a network and to its parts, after one of them, and whether there are more.
fn page(
    rib: &Rib,
    mirror: &Mirror,
    within: Option<&str>,
    after: Option<&str>,
) -> Result<(Vec<ControlRoute>, bool)> {
    let after = after.map(network_of).transpose()?;
    let mut routes: Vec<ControlRoute> = match within {
        Some(network) => {
            let found = rib.within(MAIN, network_of(network)?, after);
            found.take(PAGE + 1).map(|found| route(mirror, &found)).collect()
        }
        None => {
            let all = [IpAddr::from([0u8; 4]), IpAddr::from([0u8; 16])].map(|ip| Prefix { ip, len: 0 });
            let of_family = |all: Prefix| {
                let is_past = after.is_some_and(|after| after.ip.is_ipv6() && all.ip.is_ipv4());
                let after = after.filter(|after| after.ip.is_ipv4() == all.ip.is_ipv4());
                rib.within(MAIN, all, after).filter(move |_| !is_past)
            };
            let found = all.into_iter().flat_map(of_family);
            found.take(PAGE + 1).map(|found| route(mirror, &found)).collect()
        }
    };
    let more = routes.len() > PAGE;
    routes.truncate(PAGE);
    Ok((routes, more))
}

fn route(mirror: &Mirror, found: &Found<'_>) -> ControlRoute {
    let hop = |hop: &NextHop| ControlHop { via: hop.via, link: link(mirror, hop.index), weight: hop.weight };
    let hops: Vec<ControlHop> = match found.paths {
        Some(Paths::Hops(hops)) => hops.iter().map(hop).collect(),
        Some(Paths::Blackhole) | None => Vec::new(),
    };
    let fate = match (found.target, found.paths) {
        (Target::Group(_), Some(Paths::Blackhole)) | (Target::Blackhole, _) => "blackhole",
        (Target::Group(_), _) if hops.is_empty() => "unreachable",
        (Target::Group(_), _) => "forwarded",
        (Target::Local, _) => "local",
        (Target::Unreachable | Target::Refused(_), _) => "unreachable",
        (Target::Prohibit, _) => "prohibit",
    };
    let protocol = protocol(found.protocol);
    ControlRoute {
        to: found.key.to.to_string(),
        protocol,
        fate: fate.to_owned(),
        hops,
        stale: found.is_stale,
    }
}

/// Name of the interface with this index.
fn link(mirror: &Mirror, index: u32) -> String {
    let link = mirror.links().of(&index).next();
    link.map_or_else(|| format!("#{index}"), |link| link.name.clone())
}

/// Waits for the answers of daemons. One that says nothing has no neighbours.
fn read_all(asked: Vec<(Protocol, Child)>) -> Vec<Adjacency> {
    let read = |(protocol, child): (Protocol, Child)| {
        let found = ask::read(protocol, &ask::hear(child)?)?;
        Some(found.into_iter().map(move |found| adjacency(protocol, found)))
    };
    asked.into_iter().filter_map(read).flatten().collect()
}

fn adjacency(protocol: Protocol, found: frr::Adjacency) -> Adjacency {
    let frr::Adjacency { peer, detail, interface: link, state, is_up: up, since: seconds } = found;
    Adjacency { protocol: protocol.name().to_owned(), peer, detail, link, state, up, seconds }
}

fn refusal(error: &anyhow::Error) -> api::Error {
    api::Error::new(format!("{error:#}"))
}

/// A network, without what is behind its length.
fn network_of(text: &str) -> Result<Prefix> {
    let (ip, len) = text.split_once('/').map_or((text, None), |(ip, len)| (ip, Some(len)));
    let wrong = || format!("{text:?} is no network; write e.g. 10.0.0.0/8");
    let ip: IpAddr = ip.parse().with_context(wrong)?;
    let longest = if ip.is_ipv4() { 32_u8 } else { 128 };
    let len = len.map_or(Ok(longest), str::parse).with_context(wrong)?;
    let network: IpAddr = match ip {
        IpAddr::V4(ip) => ip.masked(len).into(),
        IpAddr::V6(ip) => ip.masked(len).into(),
    };
    Prefix::new(network, len).with_context(wrong)
}

/// Name of a protocol (RTPROT_* of `linux/rtnetlink.h`).
fn protocol(number: u8) -> String {
    let name = match number {
        2 => "kernel",
        3 => "boot",
        4 | 196 => "static",
        11 => "zebra",
        114 => "file",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        190 => "ripng",
        other => return other.to_string(),
    };
    name.to_owned()
}

const fn state(state: State) -> &'static str {
    match state {
        State::Permanent => "permanent",
        State::Known => "known",
        State::Incomplete => "incomplete",
        State::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_with_or_without_a_length() {
        let read =
            |text: &str| network_of(text).map(|network| network.to_string()).map_err(|e| e.to_string());
        assert_eq!(read("10.1.2.3/8").as_deref(), Ok("10.0.0.0/8"));
        assert_eq!(read("192.0.2.7").as_deref(), Ok("192.0.2.7/32"));
        assert_eq!(read("2001:db8::1/32").as_deref(), Ok("2001:db8::/32"));
        assert_eq!(read("::/0").as_deref(), Ok("::/0"));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "net"] {
            let refused = read(wrong).expect_err("no network");
            assert!(refused.contains("write e.g. 10.0.0.0/8"), "{refused}");
        }
    }

    #[test]
    fn protocols_have_the_names_that_ip_route_gives_them() {
        assert_eq!(protocol(188), "ospf");
        assert_eq!(protocol(114), "file");
        assert_eq!(protocol(77), "77");
    }
}
