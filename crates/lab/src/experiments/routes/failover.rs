//! `bfd-failover`: all routes share a next-hop group of two, and BFD says that one of them is down. Milliseconds from the packet that
//! says so until the last packet has gone by it, the way of the packet to our BFD included: the 99th percentile of 100 trials. Trials in
//! which the hypervisor stole CPU time are dropped and counted.
//!
//! The neighbours are a program of the lab that speaks BFD, and the routes come from a peer in zebra's place.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bfd::{Diagnostic, Packet, State};
use fpm_peer::{By, Stream};
use netlink::{NextHop, Prefix};
use uplink::Netns;

use super::feed::table;
use super::traffic::{Arrivals, load};
use super::{nic, routes};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::experiments::containers::boot::stolen;
use crate::metric::usage::Reader;
use crate::rig::Worker;
use crate::rig::router_run::{ControlledRun, freeze, ip};
use crate::stats;

/// Trials that count, and most trials with the dropped ones.
const TRIALS: usize = 100;
const MOST: usize = 400;
/// Timeout of each step.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time without traffic after which it has moved.
const QUIET: Duration = Duration::from_millis(100);
/// Time without a change of the table after which it is at rest.
const REST: Duration = Duration::from_millis(500);
/// Destinations of the load.
const DESTINATIONS: usize = 8192;
/// Frames that a reading of the failing link has to find: those of BFD are fewer.
const FEW: u64 = 3;
/// Frames by a link that show that it has its part of the load.
const BACK: u64 = 10_000;
/// The neighbours: link, address, Ethernet address.
const NEIGHBOURS: [(&str, [u8; 4], &str); 2] =
    [("one", [10, 0, 1, 2], "02:00:00:00:01:02"), ("two", [10, 0, 2, 2], "02:00:00:00:02:02")];
/// The one that fails, and its TAP.
const FAILING: usize = 1;
const FAILING_TAP: &str = "lab-two";
/// Interval of BFD in microseconds, and after how many of them without a packet a session is down.
const INTERVAL: u32 = 50_000;
const MULTIPLIER: u8 = 3;

/// Returns the only case.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    options.cpu(1)?;
    let (routes, options) = (routes(options), options.clone());
    let slice = move |_: Duration| slice(routes, &options);
    Ok(vec![Experiment::unbuilt(("bfd-failover", "ms"), format!("routes={routes}"), slice).whole().into()])
}

fn slice(routes: usize, options: &Options) -> Result<Sample> {
    let mut scene = Scene::open(routes, options)?;
    let (mut took, mut dropped, mut reader) = (Vec::new(), 0, Reader::by_ticks()?);
    while took.len() < TRIALS {
        ensure!(took.len() + dropped < MOST, "too many trials lost CPU time to others");
        let before = stolen(&mut reader)?;
        let trial = scene.trial()?;
        if stolen(&mut reader)? == before {
            took.push(trial.as_secs_f64() * 1e3);
        } else {
            dropped += 1;
        }
    }
    scene.close()?;
    took.sort_unstable_by(f64::total_cmp);
    let value = took.get((TRIALS * 99).div_ceil(100) - 1).copied().unwrap_or(f64::NAN);
    let more = [
        ("median_ms", stats::median(&took).unwrap_or(f64::NAN)),
        ("longest_ms", took.last().copied().unwrap_or(f64::NAN)),
        ("trials", TRIALS as f64),
        ("stolen", dropped as f64),
    ];
    Ok(Sample { value, more: more.into(), ..Sample::default() })
}

fn file(folder: &Path, name: &str, options: &Options) -> Result<String> {
    let peers = NEIGHBOURS.map(|(link, address, _)| {
        format!(" peer {} interface {link}\n  profile fast\n exit\n", Ipv4Addr::from(address))
    });
    let ms = INTERVAL / 1000;
    let profile = format!(
        " profile fast\n  detect-multiplier {MULTIPLIER}\n  receive-interval {ms}\n  transmit-interval {ms}\n exit\n"
    );
    let frr = folder.join("frr.conf");
    fs::write(&frr, format!("bfd\n{profile}{}exit\n", peers.concat()))
        .with_context(|| format!("cannot write {}", frr.display()))?;
    let neighbours = NEIGHBOURS.map(|(_, address, mac)| {
        let address = Ipv4Addr::from(address);
        format!("[[router.neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\n")
    });
    let engine = crate::device::engine(options).name();
    Ok([
        format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\n"),
        format!("control = {{ frr = \"{}\" }}\n", frr.display()),
        nic("near", "198.18.0.1/24"),
        nic("one", "10.0.1.1/24"),
        nic("two", "10.0.2.1/24"),
        neighbours.concat(),
    ]
    .concat())
}

/// A router between a load and two neighbours.
struct Scene {
    run: ControlledRun,
    name: String,
    arrivals: Arrivals,
    remote: Remote,
    load: Worker<()>,
    _zebra: TcpStream,
}

impl Scene {
    fn open(routes: usize, options: &Options) -> Result<Self> {
        let mut run = ControlledRun::open(|folder, id| file(folder, id, options))?;
        let name = run.id().to_owned();
        for (link, address, mac) in NEIGHBOURS {
            ip(run.netns(), &format!("link set lab-{link} address {mac}"))?;
            ip(run.netns(), &format!("address add {}/24 dev lab-{link}", Ipv4Addr::from(address)))?;
        }
        let remote = Remote::start(run.netns())?;
        let up = format!("{name}.bfd.up");
        run.wait("two sessions of BFD", PATIENCE, |run| Ok(run.counters()?.get(&up) >= Some(&2)))?;
        let table = table(routes);
        let zebra = teach(&mut run, &name, table.routes().iter().map(|route| (route.to, route.len)))?;
        let mac = run.mac(&name, "near")?;
        let arrivals = Arrivals::at(&run, FAILING_TAP, FEW)?;
        let load = load(&run, ("lab-near", mac), &table.addresses(DESTINATIONS, 1))?;
        Ok(Self { run, name, arrivals, remote, load, _zebra: zebra })
    }

    /// Has a neighbour say that it is down, and returns how long traffic has still gone there.
    fn trial(&mut self) -> Result<Duration> {
        self.arrivals.forget();
        let arrivals = &self.arrivals;
        self.run.wait("traffic by both links", PATIENCE, |_| Ok(arrivals.frames() > BACK))?;
        self.rest()?;
        let start = Instant::now();
        self.remote.say(FAILING, State::Down)?;
        let arrivals = &self.arrivals;
        self.run.wait("traffic by the other link alone", PATIENCE, |_| Ok(arrivals.is_quiet(QUIET)))?;
        let took = arrivals.last().map(|last| last.saturating_duration_since(start));
        self.remote.release(FAILING);
        took.context("no traffic has gone by the link")
    }

    /// Waits until the table is at rest: what the trial before has changed is written.
    fn rest(&mut self) -> Result<()> {
        let (mut epoch, mut since) = (self.run.epoch(&self.name)?, Instant::now());
        let name = &self.name;
        self.run.wait("a table at rest", PATIENCE, |run| {
            let now = run.epoch(name)?;
            if std::mem::replace(&mut epoch, now) != now {
                since = Instant::now();
            }
            Ok(since.elapsed() >= REST)
        })
    }

    fn close(self) -> Result<()> {
        drop((self.load, self.remote, self.arrivals));
        self.run.close()
    }
}

/// Takes zebra's place, and sends routes to these networks by a group of both neighbours.
fn teach(
    run: &mut ControlledRun,
    name: &str,
    networks: impl Iterator<Item = (IpAddr, u8)>,
) -> Result<TcpStream> {
    let (control, mut stream, mut routes) = (run.control(name)?, Stream::default(), 0);
    for (id, (link, address, _)) in (1..).zip(NEIGHBOURS) {
        let index = control.links()?.index(link)?;
        stream.hop(id, NextHop { via: Some(address.into()), index, weight: 1 });
    }
    stream.group(9, &[(1, 1), (2, 1)]);
    for (ip, len) in networks {
        stream.add(Prefix::new(ip, len).context("a network")?, By::Group(9));
        routes += 1;
    }
    freeze("zebra", name)?;
    let mut zebra = control.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, fpm::PORT)))??;
    let counter = format!("{name}.fpm.routes_added");
    let before = run.counters()?.get(&counter).copied().unwrap_or(0);
    zebra.write_all(stream.octets()).context("the router takes no more routes")?;
    run.wait("all routes", PATIENCE, |run| Ok(run.counters()?.get(&counter) >= Some(&(before + routes))))?;
    Ok(zebra)
}

/// BFD of both neighbours (RFC 5880, 6.8): as much as a session needs that the router leads.
struct Remote {
    sessions: Arc<Mutex<[Session; 2]>>,
    sockets: [UdpSocket; 2],
    _thread: Worker<()>,
}

/// Session of a neighbour.
#[derive(Clone, Copy)]
struct Session {
    state: State,
    /// Number of the router's session; 0: unknown.
    yours: u32,
    /// True while it stays in its state, whatever the router says.
    is_held: bool,
}

impl Session {
    const NEW: Self = Self { state: State::Down, yours: 0, is_held: false };

    /// Takes a packet of the router.
    fn take(&mut self, packet: &Packet) {
        self.yours = packet.mine;
        if self.is_held {
            return;
        }
        self.state = match (self.state, packet.state) {
            (State::Down, State::Down) => State::Init,
            (State::Down | State::Init, State::Init) | (State::Init, State::Up) => State::Up,
            (State::Up, State::Down) | (_, State::AdminDown) => State::Down,
            (state, _) => state,
        };
    }

    fn octets(&self, number: usize) -> Vec<u8> {
        let packet = Packet {
            diagnostic: Diagnostic::default(),
            state: self.state,
            is_poll: false,
            is_final: false,
            is_independent: false,
            is_authenticated: false,
            is_demand: false,
            multiplier: MULTIPLIER,
            mine: number as u32 + 1,
            yours: self.yours,
            desired_tx: INTERVAL,
            required_rx: INTERVAL,
            required_echo_rx: 0,
        };
        packet.octets().to_vec()
    }
}

impl Remote {
    fn start(netns: &Netns) -> Result<Self> {
        let send = |number: usize| -> Result<UdpSocket> {
            let (_, address, _) = NEIGHBOURS[number];
            let port = 49_152 + number as u16;
            let socket = netns.run(|| UdpSocket::bind((Ipv4Addr::from(address), port)))??;
            socket.set_ttl(bfd::TTL.into())?;
            Ok(socket)
        };
        let sockets = [send(0)?, send(1)?];
        let receiver = netns.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, bfd::PORT)))??;
        receiver.set_read_timeout(Some(Duration::from_millis(5)))?;
        let sessions = Arc::new(Mutex::new([Session::NEW; 2]));
        let (known, own) = (sessions.clone(), [sockets[0].try_clone()?, sockets[1].try_clone()?]);
        let thread = Worker::start("bfd", move |stop| {
            let mut due = Instant::now();
            while !stop.is_set() {
                hear(&receiver, &known);
                if Instant::now() >= due {
                    // A little earlier than promised, as jitter makes it (RFC 5880, 6.8.7).
                    due = Instant::now() + Duration::from_micros(u64::from(INTERVAL) * 4 / 5);
                    (0..2).for_each(|number| send_to(&own[number], &known, number));
                }
            }
            Ok(())
        })?;
        Ok(Self { sessions, sockets, _thread: thread })
    }

    /// Has a neighbour say at once that it is in this state, and stay there.
    fn say(&self, number: usize, state: State) -> Result<()> {
        ensure!(number < self.sockets.len(), "there is no such neighbour");
        let mut sessions = lock(&self.sessions);
        (sessions[number].state, sessions[number].is_held) = (state, true);
        drop(sessions);
        send_to(&self.sockets[number], &self.sessions, number);
        Ok(())
    }

    /// Has it follow the router again.
    fn release(&self, number: usize) {
        lock(&self.sessions)[number].is_held = false;
    }
}

fn hear(receiver: &UdpSocket, sessions: &Mutex<[Session; 2]>) {
    let mut octets = [0; 128];
    let Ok((len, from)) = receiver.recv_from(&mut octets) else { return };
    let Ok(packet) = Packet::parse(&octets[..len]) else { return };
    // Each neighbour is on a network of its own.
    let network = |ip: IpAddr| if let IpAddr::V4(ip) = ip { ip.octets()[..3].to_vec() } else { Vec::new() };
    let is_its = |(_, address, _): &(&str, [u8; 4], &str)| address[..3] == network(from.ip());
    if let Some(number) = NEIGHBOURS.iter().position(is_its) {
        lock(sessions)[number].take(&packet);
    }
}

/// Sends a packet. One that cannot be sent is lost, as on a link.
fn send_to(socket: &UdpSocket, sessions: &Mutex<[Session; 2]>, number: usize) {
    let octets = lock(sessions)[number].octets(number);
    let (_, [a, b, c, _], _) = NEIGHBOURS[number];
    let _ = socket.send_to(&octets, SocketAddr::from(([a, b, c, 1], bfd::PORT)));
}

fn lock(sessions: &Mutex<[Session; 2]>) -> std::sync::MutexGuard<'_, [Session; 2]> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: State) -> Packet {
        let octets = Session { state, yours: 7, is_held: false }.octets(0);
        Packet::parse(&octets).expect("a packet")
    }

    #[test]
    fn a_session_comes_up_falls_with_the_router_and_stays_down_while_held() {
        let mut session = Session::NEW;
        session.take(&said(State::Down));
        assert_eq!((session.state, session.yours), (State::Init, 1));
        session.take(&said(State::Init));
        assert_eq!(session.state, State::Up);
        session.take(&said(State::Up));
        assert_eq!(session.state, State::Up);
        session.take(&said(State::Down));
        assert_eq!(session.state, State::Down);
        session.is_held = true;
        session.take(&said(State::Down));
        assert_eq!(session.state, State::Down);
    }

    #[test]
    fn the_file_of_the_router_is_right() {
        let folder = crate::rig::router_run::Folder::new().expect("a folder");
        let text = file(&folder.path, "edge", &Options::default()).expect("a file");
        let plan = config::parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(plan.routers[0].nics.len(), 3);
        let frr = fs::read_to_string(folder.path.join("frr.conf")).expect("FRR's file");
        assert!(frr::Content::read(&frr).expect("good").daemons().any(|daemon| daemon == frr::Daemon::Bfd));
    }
}
