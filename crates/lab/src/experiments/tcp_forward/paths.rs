//! Paths between the two namespaces.

use std::net::Ipv4Addr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use config::{Mac, Neighbour};
use engine::{Guest, GuestTask, IoThread};
use uplink::Netns;
use uplink::tap::{ReadCounters, WriteCounters};

use super::ends::Ends;
use crate::device::{self, CpuAssignment, FAR_MAC, NEAR_MAC, STATION, STATION_MAC};
use crate::experiment::Options;
use crate::ledger_snapshot::Snapshot;
use crate::metric::HasCounters;
use crate::rig::host_end::{plug, serve, tap, veth};

/// Polling time of the router and its I/O thread: none, because they share their CPUs with both endpoints of the stream,
/// which cannot work while they poll.
const SPIN: Duration = Duration::ZERO;

/// IP address of the client on its TAP, whose other side is `device::NEAR` (the router).
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 254);
const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 9, 8];
/// IP address of the router's second NIC, towards the server.
const FAR: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
/// Names of the TAPs.
const NAMES: [&str; 2] = ["lab-near", "lab-far"];

/// Path through ringroad's router.
pub(super) struct RouterPath {
    _io: IoThread,
    guest: Guest,
    taps: Vec<(&'static str, Arc<ReadCounters>, Arc<WriteCounters>)>,
}

impl RouterPath {
    /// Address of the server on this path.
    pub(super) const SERVER: Ipv4Addr = STATION;

    /// Opens the TAPs, and starts the router between them.
    pub(super) fn open(ends: &Ends, options: &Options, seats: &CpuAssignment) -> Result<Self> {
        let mut plan = device::plan(options, &vcpus(options, seats))?;
        plan.spin = config::Spin::For(SPIN);
        plan.neighbours.push(Neighbour { address: CLIENT, mac: Mac(CLIENT_MAC), nic: 0 });
        let mut guest = Guest::new(&plan, GuestTask::default(), &device::backend(options)?)?;
        let client = ((CLIENT_MAC, CLIENT, 24), (device::NEAR, NEAR_MAC));
        let server = ((STATION_MAC, STATION, 24), (FAR, FAR_MAC));
        let sides = [("near", &ends.client, client), ("far", &ends.server, server)];
        let (mut pumps, mut taps) = (Vec::new(), Vec::new());
        for ((side, netns, (end, router)), (name, nic)) in
            sides.into_iter().zip(NAMES.into_iter().zip(guest.nics()))
        {
            let (from, to) = tap(netns, name, end, Some(router))?;
            // The router is the route to all networks of RFC 2544 other than the TAP's own.
            netns.links()?.add_route(Ipv4Addr::new(198, 18, 0, 0), 15, router.0)?;
            taps.push((side, from.counters(), to.counters()));
            pumps.extend(plug(nic, from, to));
        }
        let io = serve(seats.host, pumps, SPIN)?;
        guest.start()?;
        Ok(Self { _io: io, guest, taps })
    }
}

impl HasCounters for RouterPath {
    fn guests(&self) -> &[Guest] {
        slice::from_ref(&self.guest)
    }

    fn count(&self, ledger: &mut Snapshot) {
        for (side, read, written) in &self.taps {
            ledger.take(&format!("{side}.tap"), &**read);
            ledger.take(&format!("{side}.tap.out"), &**written);
        }
        self.guest.each_group(&mut |prefix, group| ledger.take(prefix, group));
    }
}

/// CPUs of the router's vCPUs. A single vCPU reads only the headers of large frames: unless CPUs are named, it shares the
/// I/O thread's CPU, which leaves a CPU to the endpoints of the stream.
fn vcpus(options: &Options, seats: &CpuAssignment) -> Vec<usize> {
    if options.vcpus == 1 && options.cpus.is_empty() { vec![seats.host] } else { seats.vcpus.clone() }
}

/// Path through the kernel, in a namespace of its own.
pub(super) struct KernelPath {
    _router: Netns,
}

impl KernelPath {
    /// Address of the server on this path.
    const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);

    /// Connects the namespaces to a third one that forwards.
    pub(super) fn open(ends: &Ends) -> Result<Self> {
        let router = Netns::new()?;
        router.settle(true)?;
        let sides = [
            (&ends.client, "lab-veth", "lab-to-client", [192, 0, 2]),
            (&ends.server, "lab-veth", "lab-to-server", [203, 0, 113]),
        ];
        for (netns, near, far, [a, b, c]) in sides {
            veth((netns, near), (&router, far))?;
            let (end, gateway) = (Ipv4Addr::new(a, b, c, 2), Ipv4Addr::new(a, b, c, 1));
            for (netns, name, ip) in [(netns, near, end), (&router, far, gateway)] {
                let links = netns.links()?;
                links.add_address(name, ip, 24)?;
                links.set_up(name, true)?;
            }
            let other = if c == 2 { [203, 0, 113, 0] } else { [192, 0, 2, 0] };
            netns.links()?.add_route(other.into(), 24, gateway)?;
        }
        Ok(Self { _router: router })
    }

    /// Runs one stream between the namespaces; returns the Gbit/s of payload that arrived.
    pub(super) fn stream(&self, ends: &Ends, length: Duration) -> Result<f64> {
        ends.stream(Self::SERVER, length)
    }
}
