//! `forward-updates`: `forward` while 100,000 routes a second change their next hop, as a stream of zebra's has it: through framing,
//! decoding, table and translation into the router's route table, in batches.
//!
//! In turn: with these changes, and without any; and with these changes, and with as many of a table without readers, which take as much of
//! the host's CPUs.
//!
//! Each packet goes by the old next hop or by the new one: there is no other route, so that a packet that finds neither is lost, and
//! each one that the sink checks has to be for one of both gateways.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use control::{Fate, Port, Ports, Refusal, Table, Translator, Way};
use fib::{NextHop, synthetic};
use fpm::{GroupId, Key, Session};
use fpm_peer::{By, Stream};
use host::cores;
use netlink::{Change, Link, Prefix};
use vmm::RouteTable;

use super::super::forward::{ForwardRig, Seats};
use crate::device::STATION;
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::experiments::Case;
use crate::rig::{Stop, Worker};

/// Changes a second.
const RATE: u64 = 100_000;
/// Changes of a batch, and the time between two batches.
const BATCH: usize = 500;
const EVERY: Duration = Duration::from_millis(5);
/// Routes unless the options name another number.
const ROUTES: u32 = 100_000;
/// Index that the stream gives to the router's second NIC, and that NIC's number.
const INDEX: u32 = 7;
const NIC: u8 = 1;
/// Table number of the stream's routes.
const MAIN: usize = 0;
/// Seed of the routes: that of `forward`.
const SEED: u64 = 1;

/// What changes meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    None,
    OfRouter,
    OfNobody,
}

impl Changes {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "at-rest",
            Self::OfRouter => "updates",
            Self::OfNobody => "updates-elsewhere",
        }
    }
}

/// Returns both comparisons.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let options = Options { routes: options.routes.max(ROUTES), ..options.clone() };
    let case = |changes: Changes| -> Result<Experiment> {
        let cpus = if options.cpus.is_empty() { cores::allowed()? } else { options.cpus.clone() };
        let seats = Seats::new(&cpus, usize::from(options.vcpus))?;
        let name =
            format!("{}/{}/routes={}/{}", options.device(), options.frame, options.routes, changes.name());
        let (pair, options) = (seats.pair(), options.clone());
        let build = move || Updated::start(&options, &seats, changes);
        Ok(Experiment::new(("forward-updates", "mpps"), name, build).between(pair))
    };
    let against = |other| anyhow::Ok(Case::Alternating(case(Changes::OfRouter)?, case(other)?));
    Ok(vec![against(Changes::None)?, against(Changes::OfNobody)?])
}

/// The rig of `forward`, and whoever changes routes meanwhile.
struct Updated {
    forward: ForwardRig,
    /// The table that changes, and the routes; none: nothing changes.
    changing: Option<(Arc<RouteTable>, Vec<Prefix>)>,
    /// CPU of the changes: one that is not the router's, if there are three.
    cpu: usize,
}

impl Updated {
    fn start(options: &Options, seats: &Seats, changes: Changes) -> Result<Self> {
        let networks = synthetic::prefixes(options.routes as usize, SEED);
        let network = |known: &synthetic::Prefix| Prefix::new(known.prefix.to_be_bytes(), known.len);
        let routes: Vec<Prefix> = networks.iter().filter_map(network).collect();
        let forward = ForwardRig::start_with(options, seats, &mut |plan| {
            // A packet that finds neither next hop is to be lost.
            plan.routes.clear();
            let others =
                plan.neighbours.iter().map(|known| config::Neighbour { address: second(), ..*known });
            let others: Vec<config::Neighbour> = others.collect();
            plan.neighbours.extend(others);
        })?;
        let table = match changes {
            Changes::None => None,
            Changes::OfRouter => Some(forward.table().clone()),
            Changes::OfNobody => Some(Arc::new(RouteTable::new(options.routes as usize)?)),
        };
        let cpu = options.cpu(2).or_else(|_| options.cpu(0))?;
        Ok(Self { forward, changing: table.map(|table| (table, routes)), cpu })
    }
}

impl Rig for Updated {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let Some((table, routes)) = &self.changing else { return self.forward.run_slice(length) };
        let (table, routes, cpu) = (table.clone(), routes.clone(), self.cpu);
        let (changes, ()) = Worker::with(
            "updates",
            move || {
                cores::pin(cpu)?;
                let mut changes = Writer::new(table, routes)?;
                // The first batch is under way before the slice begins.
                changes.batch()?;
                anyhow::Ok((changes, ()))
            },
            |mut changes, stop| changes.run(stop),
        )?;
        let mut sample = self.forward.run_slice(length)?;
        let (made, seconds) = changes.end()?;
        sample.more.push("updates_per_s", made as f64 / seconds);
        Ok(sample)
    }
}

/// Takes a stream in, batch by batch.
struct Writer {
    session: Session,
    translator: Translator,
    ports: Ports,
    table: Batches,
    routes: Vec<Prefix>,
    next: usize,
    /// The next hop that routes get in this round: 1 or 2.
    group: u32,
}

impl Writer {
    fn new(table: Arc<RouteTable>, routes: Vec<Prefix>) -> Result<Self> {
        let mut ports = Ports::new([("far".to_owned(), Port { nic: NIC, vlan: 0 })]);
        ports.take(&Change::Set(link()));
        let mut writer = Self {
            session: Session::default(),
            translator: Translator::default(),
            ports,
            table: Batches { table, groups: Vec::new(), changes: Vec::new() },
            routes,
            next: 0,
            group: 1,
        };
        writer.session.connected();
        let mut stream = Stream::default();
        for (id, via) in (1..).zip([STATION, second()]) {
            stream.hop(id, netlink::NextHop { via: Some(via.into()), index: INDEX, weight: 1 });
        }
        writer.take(&stream)?;
        Ok(writer)
    }

    /// Makes changes at the rate until told to stop; returns their number and the seconds that they took.
    fn run(&mut self, stop: &Stop) -> Result<(u64, f64)> {
        let (start, mut made) = (Instant::now(), 0);
        while !stop.is_set() {
            let due = (start.elapsed().as_secs_f64() * RATE as f64) as u64;
            if made < due {
                made += self.batch()?;
            } else {
                sleep(EVERY);
            }
        }
        Ok((made, start.elapsed().as_secs_f64()))
    }

    /// Has the next routes follow the other next hop; returns their number.
    fn batch(&mut self) -> Result<u64> {
        let mut stream = Stream::default();
        for _ in 0..BATCH {
            if self.next == self.routes.len() {
                (self.next, self.group) = (0, 3 - self.group);
            }
            let route = self.routes.get(self.next).context("no routes")?;
            stream.replace(*route, By::Group(self.group));
            self.next += 1;
        }
        self.take(&stream)?;
        Ok(BATCH as u64)
    }

    fn take(&mut self, stream: &Stream) -> Result<()> {
        let Self { session, translator, ports, table, .. } = self;
        let mut rest = stream.octets();
        while !rest.is_empty() {
            let room = session.room();
            let len = room.len().min(rest.len());
            room[..len].copy_from_slice(&rest[..len]);
            session.filled(len);
            rest = &rest[len..];
            session.take().context("a stream of our own")?;
        }
        session.changes(&mut |change| translator.take(&change, ports, table));
        translator.publish(ports, table);
        session.published();
        Ok(())
    }
}

/// The interface that the stream names.
fn link() -> Link {
    Link {
        index: INDEX,
        name: "far".to_owned(),
        mtu: 1500,
        up: true,
        running: true,
        queue_len: 1000,
        ..Link::default()
    }
}

/// Route table that is changed in batches.
struct Batches {
    table: Arc<RouteTable>,
    groups: Vec<(GroupId, NextHop)>,
    changes: Vec<(Key, Option<NextHop>)>,
}

impl Table for Batches {
    fn set_group(&mut self, group: GroupId, way: Way<'_>) -> Result<(), Refusal> {
        let Way::Hops([hop]) = way else { return Ok(()) };
        let Some(IpAddr::V4(gateway)) = hop.gateway else { return Ok(()) };
        let next_hop = NextHop::Gateway { nic: hop.port.nic, gateway: gateway.to_bits() };
        self.remove_group(group);
        self.groups.push((group, next_hop));
        Ok(())
    }

    fn remove_group(&mut self, group: GroupId) {
        self.groups.retain(|(known, _)| *known != group);
    }

    fn set_route(&mut self, key: Key, fate: Fate) -> Result<(), Refusal> {
        let Fate::Group(group) = fate else { return Ok(()) };
        let known = self.groups.iter().find(|(known, _)| *known == group);
        self.changes.push((key, known.map(|(_, next_hop)| *next_hop)));
        Ok(())
    }

    fn remove_route(&mut self, key: Key) {
        self.changes.push((key, None));
    }

    fn publish(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        self.table.change(MAIN, |rib| {
            for (key, next_hop) in changes {
                let IpAddr::V4(to) = key.to.ip else { continue };
                // What has no room stays as it was.
                let _ = match next_hop {
                    Some(next_hop) => rib.add(to.to_bits(), key.to.len, next_hop),
                    None => rib.remove(to.to_bits(), key.to.len),
                };
            }
        });
    }
}

/// The other gateway: another address of the same station.
const fn second() -> Ipv4Addr {
    Ipv4Addr::from_bits(STATION.to_bits() + 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_moves_all_routes_from_one_gateway_to_the_other_and_back() {
        let table = Arc::new(RouteTable::new(64).expect("memory"));
        let net = |n: u8| Prefix::new([10, n, 0, 0], 16).expect("a prefix");
        let mut writer = Writer::new(table.clone(), (0..200).map(net).collect()).expect("a stream");
        let gateway = |ip: [u8; 4]| match table.choices(0, ip.into(), 0)[..] {
            [NextHop::Gateway { nic: NIC, gateway }] => Ipv4Addr::from_bits(gateway),
            ref other => panic!("{other:?}"),
        };
        // A batch begins where the one before has ended, and goes on with the other gateway behind the last route.
        let mut seen = Vec::new();
        for _ in 0..4 {
            assert_eq!(writer.batch().expect("taken"), BATCH as u64);
            seen.push([[10, 0, 0, 1], [10, 199, 3, 3]].map(gateway));
        }
        let (first, other) = (STATION, second());
        // 500 changes of 200 routes: two rounds and a half.
        assert_eq!(seen, [[first, other], [first, first], [other, first], [other, other]]);
    }

    #[test]
    fn the_other_gateway_is_on_the_same_network() {
        assert_eq!(second().octets()[..3], STATION.octets()[..3]);
        assert_ne!(second(), STATION);
    }
}
