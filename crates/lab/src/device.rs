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
/// Guest memory of a router with one vCPU, and the memory that each further vCPU takes with two NICs and rings of 1024
/// entries.
const MEMORY: u64 = 32 << 20;
const MEMORY_A_VCPU: u64 = 10 << 20;
/// Number of destinations in an experiment with many routes, each in a prefix of its own.
const DESTINATIONS: usize = 65_536;
/// Seed of the synthetic routes.
const SEED: u64 = 1;

/// Returns the plan of a router whose vCPUs are pinned to `vcpu_cpus`.
pub fn plan(options: &Options, vcpu_cpus: &[usize]) -> Result<Router> {
    let cpus = vcpu_cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let vcpu: Option<CpuSet> = Some(cpus.parse().context("the CPUs of the router are no list")?);
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
        memory: MEMORY + u64::from(options.vcpus.saturating_sub(1)) * MEMORY_A_VCPU,
        vhost: VhostThreads::Shared,
        pin: Pin { vcpu, vhost: None },
        affinity: Affinity::default(),
        sched: Sched::default(),
        guarantee: None,
        limit: None,
        spin: Spin::For(SPIN),
        isolate: false,
        nics: vec![
            nic(("near", 0), NEAR_MAC, NEAR, options),
            nic(("far", 1), FAR_MAC, Ipv4Addr::new(198, 19, 0, 1), options),
        ],
        routes: vec![
            Route { to: prefix([198, 18, 1, 0], 24), via: Some(STATION), nic: 1 },
            Route { to: prefix([0, 0, 0, 0], 0), via: Some(STATION), nic: 1 },
        ],
        neighbours: vec![Neighbour { address: STATION, mac: Mac(STATION_MAC), nic: 1 }],
        forwarding: if options.six { forwarding() } else { Forwarding::default() },
        control: None,
    })
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

fn nic((name, number): (&str, usize), mac: [u8; 6], ip: Ipv4Addr, options: &Options) -> Nic {
    let six = Address6 { ip: OWN6[number], len: 64 };
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
        six: Six { addresses: Some(six).filter(|_| options.six).into_iter().collect(), ..Six::default() },
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
/// of 65,536 prefixes.
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
        settings.destinations = synthetic::destinations(&prefixes, DESTINATIONS, SEED);
    }
    settings
}

/// Returns the IPv6 destinations: one, or one in each of 65,536 prefixes.
fn destinations6(options: &Options) -> Vec<u128> {
    if options.routes <= 2 {
        return vec![NEAR6.to_bits() | 2];
    }
    let prefixes = six::synthetic::prefixes(options.routes as usize, SEED);
    six::synthetic::destinations(&prefixes, DESTINATIONS, SEED)
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
