//! Environment of two TCP stacks: guests, an I/O thread, a clock, and TAPs or a switch.

use std::any::Any;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bootinfo::{Role, Station, TrafficInfo};
use config::{Address, Mac};
use engine::{Guest, GuestTask, IoThread, Pump};
use port::Sink;
use switch::{Config, Switch};

use super::peer::Peer;
use crate::device::{self, CpuAssignment, FAR_MAC};
use crate::experiment::{Direction, Options, TrafficPattern};
use crate::ledger_snapshot::Snapshot;
use crate::metric::{HasCounters, accesses};
use crate::rig::Worker;
use crate::rig::host_end::{GUESTS, HOST, HostEnd, HostPair, plug, serve};

/// Polling time of a guest and of the I/O thread, as in a running file.
const SPIN: Duration = Duration::from_micros(50);
/// Polling time of threads that share a CPU, such as a second guest and the I/O thread: a polling thread keeps the other
/// from working.
const CROWDED_SPIN: Duration = Duration::ZERO;
/// Resolution of the clock.
const TICK: Duration = Duration::from_millis(1);

/// Environment of two TCP stacks; see the module documentation. The order of the fields is the drop order.
pub(super) struct Bench {
    /// The host's endpoint, if the host is one.
    peer: Option<Peer>,
    /// Path between the endpoints: a TAP, two TAPs, or a switch.
    _between: Box<dyn Any>,
    _io: IoThread,
    _clock: Worker<()>,
    guests: Vec<Guest>,
}

impl Bench {
    /// A guest and the host's kernel.
    pub(super) fn with_host(options: &Options, seats: &CpuAssignment, station: Station) -> Result<Self> {
        let mut host = HostEnd::open()?;
        let mut guest = guest(options, seats, GuestParams { n: 0, station, to: HOST, spin: SPIN })?;
        let listener = Peer::listen(&host, station)?;
        let source = host.from.take().context("the TAP has no source")?;
        let io = serve(seats.host, plug(&guest.nics()[0], source, host.to.clone()).into(), SPIN)?;
        guest.start()?;
        let peer = Peer::start(&host, station, listener, options.write)?;
        let clock = tick(std::slice::from_ref(&guest))?;
        Ok(Self { peer: Some(peer), _between: Box::new(host), _io: io, _clock: clock, guests: vec![guest] })
    }

    /// Two guests. The second one is the server and runs on the CPU of the host's side.
    pub(super) fn of_guests(
        options: &Options,
        seats: &CpuAssignment,
        station: Station,
        by_tap: bool,
    ) -> Result<Self> {
        let first = guest(options, seats, GuestParams { n: 0, station, to: GUESTS[1], spin: SPIN })?;
        let other = CpuAssignment { host: seats.host, vcpus: vec![seats.host] };
        let alone = Options { vcpus: 1, ..options.clone() };
        let server = GuestParams { n: 1, station: Station::Server, to: GUESTS[0], spin: CROWDED_SPIN };
        let mut guests = vec![first, guest(&alone, &other, server)?];
        let (between, pumps) = if by_tap { by_kernel(&guests)? } else { by_switch(&guests)? };
        let io = serve(seats.host, pumps, CROWDED_SPIN)?;
        // Start the server first.
        guests.iter_mut().rev().try_for_each(Guest::start)?;
        let clock = tick(&guests)?;
        Ok(Self { peer: None, _between: between, _io: io, _clock: clock, guests })
    }

    /// Octets that arrived, or transactions.
    pub(super) fn progress(&self, conversation: TrafficPattern, direction: Direction) -> u64 {
        let tally = |n: usize| self.guests.get(n).map(|guest| &guest.machine().shared().vcpus[0].station);
        let received = |n: usize| tally(n).map_or(0, |tally| tally.octets_received.get());
        match (conversation, direction, &self.peer) {
            (TrafficPattern::Requests, ..) => tally(0).map_or(0, |tally| tally.transactions.get()),
            (TrafficPattern::Stream, Direction::Tx, Some(peer)) => peer.octets(),
            (TrafficPattern::Stream, Direction::Tx, None) => received(1),
            (TrafficPattern::Stream, Direction::Rx, _) => received(0),
        }
    }

    /// Checks that the host's side still works.
    pub(super) fn check(&self) -> Result<()> {
        self.peer.as_ref().map_or(Ok(()), Peer::check)
    }
}

impl HasCounters for Bench {
    /// The first guest is the one that is measured.
    fn guests(&self) -> &[Guest] {
        &self.guests
    }

    fn count(&self, ledger: &mut Snapshot) {
        for (n, guest) in self.guests.iter().enumerate() {
            let vcpu = &guest.machine().shared().vcpus[0];
            ledger.take(&format!("guest{n}.station"), &vcpu.station);
            ledger.take(&format!("guest{n}.nic0"), &vcpu.nics[0]);
            ledger.take(&format!("guest{n}.rx"), &guest.nics()[0].rx_ledger());
            ledger.take(&format!("guest{n}.tx"), &guest.nics()[0].tx_ledger());
            accesses::take(guest, ledger);
        }
    }
}

/// Parameters of one guest.
struct GuestParams {
    /// Index of the guest, 0 or 1.
    n: usize,
    station: Station,
    /// Address of the remote endpoint.
    to: Ipv4Addr,
    spin: Duration,
}

/// Creates a station, not yet started.
fn guest(options: &Options, seats: &CpuAssignment, part: GuestParams) -> Result<Guest> {
    let GuestParams { n, station, to, spin } = part;
    let mut plan = device::end_plan(options, seats)?;
    plan.spin = config::Spin::For(spin);
    if let Some(nic) = plan.nics.first_mut().filter(|_| n == 1) {
        nic.mac = Mac(FAR_MAC);
        nic.addresses = vec![Address { ip: GUESTS[1], len: 24 }];
        plan.name = "lab-b".to_owned();
    }
    let traffic = TrafficInfo {
        station: station as u32,
        to_ip: to.to_bits(),
        write_len: options.write as u32,
        ..TrafficInfo::default()
    };
    Guest::new(&plan, GuestTask { role: Role::Station, traffic }, &device::backend(options)?)
}

/// Connects both guests to a learning switch.
fn by_switch(guests: &[Guest]) -> Result<(Box<dyn Any>, Vec<Pump>)> {
    let switch = Switch::new("lab", Config::default());
    let mut pumps = Vec::new();
    for (name, guest) in ["first", "second"].iter().zip(guests) {
        let nic = &guest.nics()[0];
        let port: Arc<dyn Sink> = Arc::new(switch.add_port(name, nic.sink())?);
        nic.transmit_in_access(port.clone());
        pumps.push(Pump { source: nic.source(), sink: port });
    }
    Ok((Box::new(switch), pumps))
}

/// Connects the guests to two TAPs, between which the kernel forwards.
fn by_kernel(guests: &[Guest]) -> Result<(Box<dyn Any>, Vec<Pump>)> {
    let mut pair = HostPair::open()?;
    let mut pumps = Vec::new();
    for (guest, (from, to)) in guests.iter().zip(&mut pair.taps) {
        let from = from.take().context("a TAP has no source")?;
        pumps.extend(plug(&guest.nics()[0], from, to.clone()));
    }
    Ok((Box::new(pair), pumps))
}

/// Starts a thread that advances the guests' clocks while they sleep.
fn tick(guests: &[Guest]) -> Result<Worker<()>> {
    let machines: Vec<_> = guests.iter().map(|guest| guest.machine().clone()).collect();
    Worker::start("lab/clock", move |stop| {
        while !stop.is_set() {
            std::thread::sleep(TICK);
            machines.iter().for_each(|machine| machine.tick(TICK.as_millis() as u32));
        }
        Ok(())
    })
}
