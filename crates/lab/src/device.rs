//! Plan of the router that the experiments measure: two NICs, benchmark addresses (RFC 2544), and a static neighbour
//! entry, so that no ARP is needed.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use config::forwarding::{Destination, Forwarding, Neighbour6, Route6};
use config::six::{Address6, Prefix6, Six};
use config::{
    Address, Affinity, Attach, CpuSet, Deliver, Engine, FlowHash, Mac, Neighbour, Nic, Pin, Prefix, QueueLen,
    Restart, Role, Route, Router, Sched, Spin, VhostThreads,
};
use engine::{ExecutionBackend, Guest, GuestTask, routes};
use fib::{NextHop, six, synthetic};
use vmm::RouteTable;

use crate::experiment::Options;
use crate::generator::Settings;
use crate::sink::{Expected, Sink};

/// MAC address of the router's first NIC, which receives the generator's frames.
pub const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 1, 0];
/// IP address of the router's first NIC.
pub const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// MAC address of the router's second NIC, which transmits the forwarded frames.
pub const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 2, 0];
/// MAC address of the station behind the second NIC.
pub const STATION_MAC: [u8; 6] = [2, 0, 0, 0, 9, 9];
/// IP address of that station: the gateway of all routes.
pub const STATION: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 2);

/// Network of the destinations of IPv6 frames; its first address.
const NEAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 0);
/// IPv6 addresses of the router's NICs (RFC 5180), and of that station.
const OWN6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 1)];
const STATION6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 2);

/// Polling time before the vCPU sleeps: long enough that it never sleeps within a loaded slice; between slices it
/// does, which frees its CPU.
const SPIN: Duration = Duration::from_millis(2);
/// Guest memory of a router with one vCPU and two NICs, and the memory that each further vCPU takes for each two NICs with rings
/// of 1024 entries.
const MEMORY: u64 = 32 << 20;
const MEMORY_A_VCPU: u64 = 10 << 20;
/// Seed of the synthetic routes.
const SEED: u64 = 1;

/// Returns the plan of a router whose vCPUs are pinned to `vcpu_cpus`.
pub fn plan(options: &Options, vcpu_cpus: &[usize]) -> Result<Router> {
    let cpus = vcpu_cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let vcpu: Option<CpuSet> = Some(cpus.parse().context("the CPUs of the router are no list")?);
    let pairs = pairs(options);
    Ok(Router {
        name: "lab".to_owned(),
        engine: Some(engine(options)),
        linux: None,
        kernel: None,
        container: None,
        role: Role::Router,
        restart: Restart::Never,
        state: None,
        vcpus: u32::from(options.vcpus),
        memory: MEMORY + (u64::from(options.vcpus) * pairs as u64).saturating_sub(1) * MEMORY_A_VCPU,
        vhost: VhostThreads::Shared,
        pin: Pin { vcpu, vhost: None },
        affinity: Affinity::default(),
        sched: Sched::default(),
        guarantee: None,
        limit: None,
        spin: Spin::For(SPIN),
        isolate: false,
        nics: (0..pairs).flat_map(|pair| nics_of(pair, options)).collect(),
        routes: routes_of(pairs),
        neighbours: (0..pairs).map(neighbour_of).collect(),
        forwarding: if options.six { forwarding() } else { Forwarding::default() },
        control: None,
    })
}

/// Number of pairs of NICs: the first of each receives the generator's frames, the second sends them.
pub(crate) fn pairs(options: &Options) -> usize {
    usize::from(options.nics / 2).max(1)
}

/// Returns the two NICs of a pair. Those of the first are called `near` and `far`, those of the next ones `near1` and `far1`, …
fn nics_of(pair: usize, options: &Options) -> [Nic; 2] {
    let number = if pair == 0 { String::new() } else { pair.to_string() };
    // The networks of further pairs lie behind those of the destinations.
    let near = if pair == 0 { NEAR } else { Ipv4Addr::new(198, 18, octet(16 + pair), 1) };
    let far = Ipv4Addr::new(198, 19, octet(pair), 1);
    // IPv6 frames enter by the first pair alone.
    let six = |side: usize| (options.six && pair == 0).then(|| OWN6[side]);
    [
        nic(&format!("near{number}"), mac_of(NEAR_MAC, pair), (near, six(0)), options),
        nic(&format!("far{number}"), mac_of(FAR_MAC, pair), (far, six(1)), options),
    ]
}

/// Returns the routes to the destinations of each pair, and the default route.
fn routes_of(pairs: usize) -> Vec<Route> {
    let to = |pair: usize| {
        let [a, b, c, _] = destination_of(pair).octets();
        Route { to: prefix([a, b, c, 0], 24), via: Some(station_of(pair)), nic: 2 * pair + 1 }
    };
    let default = Route { to: prefix([0, 0, 0, 0], 0), via: Some(STATION), nic: 1 };
    (0..pairs).map(to).chain([default]).collect()
}

/// Returns the neighbour behind the second NIC of a pair.
fn neighbour_of(pair: usize) -> Neighbour {
    Neighbour { address: station_of(pair), mac: Mac(STATION_MAC), nic: 2 * pair + 1 }
}

/// Address of the station behind the second NIC of a pair.
fn station_of(pair: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 19, octet(pair), 2)
}

/// Destination of the frames that enter by the first NIC of a pair.
fn destination_of(pair: usize) -> Ipv4Addr {
    if pair == 0 { Ipv4Addr::new(198, 18, 1, 2) } else { Ipv4Addr::new(198, 18, octet(100 + pair), 2) }
}

/// Ethernet address of a pair's NIC that corresponds to this one of the first pair.
fn mac_of(first: [u8; 6], pair: usize) -> [u8; 6] {
    let mut mac = first;
    mac[3] = octet(pair);
    mac
}

fn octet(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Two IPv6 routes, and the gateway of both.
fn forwarding() -> Forwarding {
    let route = |network: Ipv6Addr, len| Route6 {
        to: Destination::V6(Prefix6 { network, len }),
        via: Some(STATION6),
        nic: 1,
    };
    Forwarding {
        routes6: vec![route(NEAR6, 64), route(Ipv6Addr::UNSPECIFIED, 0)],
        neighbours6: vec![Neighbour6 { address: STATION6, mac: Mac(STATION_MAC), nic: 1 }],
        ..Forwarding::default()
    }
}

/// CPUs of the threads in an experiment in which a guest exchanges frames with the host.
#[derive(Clone, Debug)]
pub struct CpuAssignment {
    /// CPU of the measuring thread, which plays the host's side.
    pub host: usize,
    /// CPUs of the guest's vCPUs, in order; with several vCPUs, the last one shares its CPU with the host's side.
    pub vcpus: Vec<usize>,
}

impl CpuAssignment {
    /// Chooses the CPUs from the options. With one vCPU, the host's side gets the first CPU and the vCPU the second.
    /// With several, the vCPUs get the lowest CPUs in order, and the host's side shares the CPU of the last one, which
    /// serves interrupts and does little else.
    pub fn of(options: &Options) -> Result<Self> {
        if options.vcpus == 1 {
            return Ok(Self { host: options.cpu(0)?, vcpus: vec![options.cpu(1)?] });
        }
        let mut vcpus: Vec<usize> =
            (0..usize::from(options.vcpus)).map(|n| options.cpu(n)).collect::<Result<_>>()?;
        vcpus.sort_unstable();
        let host = *vcpus.last().context("a guest has at least one vCPU")?;
        Ok(Self { host, vcpus })
    }

    /// Returns the two CPUs between which frames pass: the host's and the first vCPU's.
    pub fn pair(&self) -> Option<(usize, usize)> {
        Some((self.host, *self.vcpus.first()?))
    }
}

/// Returns the plan of a guest with one NIC that does not forward: a traffic source, sink or station.
pub fn end_plan(options: &Options, seats: &CpuAssignment) -> Result<Router> {
    let mut plan = plan(options, &seats.vcpus)?;
    plan.nics.truncate(1);
    plan.routes.clear();
    plan.neighbours.clear();
    Ok(plan)
}

fn prefix(network: [u8; 4], len: u8) -> Prefix {
    Prefix { network: network.into(), len }
}

fn nic(name: &str, mac: [u8; 6], (ip, six): (Ipv4Addr, Option<Ipv6Addr>), options: &Options) -> Nic {
    let six = six.map(|ip| Address6 { ip, len: 64 });
    Nic {
        name: name.to_owned(),
        model: options.nic,
        mode: options.mode,
        itr: options.itr,
        combine: options.combine,
        combine_above: options.combine_above,
        attach: Attach::null(),
        link: None,
        mac: Mac(mac),
        addresses: vec![Address { ip, len: 24 }],
        six: Six { addresses: six.into_iter().collect(), ..Six::default() },
        vrf: None,
        reverse_path: config::forwarding::ReversePath::Off,
        queues: u32::from(options.queues),
        hash: FlowHash::Flow,
        queue_len: QueueLen::default(),
        offload: true,
        memory_max: 0,
        mtu: 1500,
        deliver: Deliver::Queued,
        ring: 1024,
    }
}

/// Returns a sink that expects the generator's frames as the router forwards them: TTL 63, addressed to the station.
pub fn sink(settings: &Settings) -> Sink {
    Sink::new(Expected {
        flows: settings.flow_count(),
        frame: settings.frame,
        six: settings.is_six(),
        ttl: 63,
        destination_mac: Some(frame::Mac(STATION_MAC)),
    })
}

/// Returns the traffic that the generator sends to the router; with more than two routes, to one destination in each
/// prefix, in random order, again and again. Each destination is a flow, so that there are at least as many flows.
pub fn traffic(options: &Options) -> Settings {
    let mut settings = Settings {
        destination_mac: frame::Mac(NEAR_MAC),
        flows: options.flows,
        frame: options.frame,
        rate: options.rate,
        ..Settings::default()
    };
    if options.six {
        settings.destinations6 = destinations6(options);
    } else if options.routes > 2 {
        let prefixes = synthetic::prefixes(options.routes as usize, SEED);
        settings.destinations = synthetic::destinations(&prefixes, prefixes.len(), SEED);
    }
    settings
}

/// Returns the traffic that the generator sends to a pair of NICs, each of which has as many of the flows.
pub(crate) fn traffic_of(options: &Options, pair: usize) -> Settings {
    let settings = traffic(options);
    let flows = settings.flows.div_ceil(pairs(options) as u32);
    if pair == 0 {
        return Settings { flows, ..settings };
    }
    let destination_mac = frame::Mac(mac_of(NEAR_MAC, pair));
    Settings { flows, destination_mac, destinations: vec![destination_of(pair).to_bits()], ..settings }
}

/// Returns the IPv6 destinations: one, or one in each prefix, in random order.
fn destinations6(options: &Options) -> Vec<u128> {
    if options.routes <= 2 {
        return vec![NEAR6.to_bits() | 2];
    }
    let prefixes = six::synthetic::prefixes(options.routes as usize, SEED);
    six::synthetic::destinations(&prefixes, prefixes.len(), SEED)
}

/// Opens the [`ExecutionBackend`] of the engine that the options name.
pub fn backend(options: &Options) -> Result<ExecutionBackend> {
    ExecutionBackend::open(engine(options))
}

/// Returns the engine that the options name.
pub fn engine(options: &Options) -> Engine {
    if options.engine == Engine::Process.name() { Engine::Process } else { Engine::Kvm }
}

/// Builds the router of an experiment, not yet started, with as many routes as the options ask for.
pub fn router(plan: &Router, options: &Options, duty: GuestTask) -> Result<Guest> {
    let table = routes::table_with_room(plan, options.routes as usize)?;
    add_routes(&table, options)?;
    Guest::with_table(plan, duty, Arc::new(table), &backend(options)?)
}

fn add_routes(table: &RouteTable, options: &Options) -> Result<()> {
    if options.routes <= 2 {
        return Ok(());
    }
    if options.six {
        let added = table.change_six(0, |rib| add_routes6(rib, options)).context("there is no IPv6 table")?;
        return added.context("the synthetic IPv6 routes do not fit");
    }
    let mut routes = table.routes();
    for prefix in synthetic::prefixes(options.routes as usize, SEED) {
        let next_hop = NextHop::Gateway { nic: 1, gateway: STATION.to_bits() };
        routes.add(prefix.prefix, prefix.len, next_hop).context("the synthetic routes do not fit")?;
    }
    routes.publish();
    Ok(())
}

fn add_routes6(rib: &mut six::Rib<'_>, options: &Options) -> Result<()> {
    let next_hop = NextHop::Gateway6 { nic: 1, gateway: STATION6.to_bits() };
    for prefix in six::synthetic::prefixes(options.routes as usize, SEED) {
        rib.add(prefix.prefix, prefix.len, next_hop)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_nics_has_networks_and_destinations_of_its_own() {
        let options = Options { nics: 8, flows: 10, ..Options::default() };
        let plan = plan(&options, &[0]).unwrap();
        assert_eq!((plan.nics.len(), plan.routes.len(), plan.neighbours.len()), (8, 5, 4));
        assert_eq!(plan.memory, MEMORY + 3 * MEMORY_A_VCPU);
        let mut macs: Vec<[u8; 6]> = plan.nics.iter().map(|nic| nic.mac.0).collect();
        macs.sort_unstable();
        macs.dedup();
        assert_eq!(macs.len(), 8);
        for pair in 0..4 {
            let traffic = traffic_of(&options, pair);
            assert_eq!((traffic.destination_mac.0, traffic.flows), (plan.nics[2 * pair].mac.0, 3));
            let to = Ipv4Addr::from_bits(traffic.destinations[0]);
            let route = plan.routes.iter().find(|route| route.to.network.octets()[..3] == to.octets()[..3]);
            assert_eq!(route.map(|route| route.nic), Some(2 * pair + 1), "{to}");
            // No network of a NIC holds the destinations.
            let own = plan.nics.iter().flat_map(|nic| &nic.addresses);
            assert!(own.into_iter().all(|own| own.ip.octets()[..3] != to.octets()[..3]), "{to}");
        }
    }

    #[test]
    fn with_many_routes_each_has_a_destination() {
        let options = Options { routes: 70_000, ..Options::default() };
        let four = traffic(&options);
        assert_eq!((four.destinations.len(), four.flow_count()), (70_000, 70_000));
        assert!(!four.destinations.is_sorted(), "they come in random order");
        let six = traffic(&Options { six: true, ..options });
        assert_eq!((six.destinations6.len(), six.flow_count()), (70_000, 70_000));
    }

    #[test]
    fn two_nics_are_those_that_all_experiments_have() {
        let plan = plan(&Options::default(), &[0]).unwrap();
        let names: Vec<&str> = plan.nics.iter().map(|nic| nic.name.as_str()).collect();
        assert_eq!((names, plan.memory, plan.routes.len()), (vec!["near", "far"], MEMORY, 2));
        assert_eq!((plan.nics[0].mac.0, plan.nics[1].mac.0), (NEAR_MAC, FAR_MAC));
        assert_eq!((plan.nics[0].addresses[0].ip, plan.neighbours[0].address), (NEAR, STATION));
        assert_eq!(
            traffic_of(&Options::default(), 0).destinations,
            traffic(&Options::default()).destinations
        );
    }
}
