//! List of all experiments.

use anyhow::Result;

use super::control::{accounting, cases, guarantee, isolation, stages, sweep};
use super::tcp::{self, Between};
use super::{
    boot, containers, forward, groups, guest_rx, guest_to_guest, guest_tx, hostile, idle, livelock, lookup,
    overload, port_to_port, ring_to_ring, round_trip, routes, scale, scan, tcp_forward, uplinks,
};
use crate::device;
use crate::experiment::{Attachment, Experiment, Options};
use crate::generator::Settings;
use crate::rig::Through;

/// Unit of measurement: one experiment alone, or two alternating.
pub enum Case {
    /// A single experiment.
    Alone(Experiment),
    /// Two experiments measured alternately; the result is the ratio of the first to the second.
    Alternating(Experiment, Experiment),
}

impl From<Experiment> for Case {
    fn from(one: Experiment) -> Self {
        Self::Alone(one)
    }
}

/// Function that creates the cases of an experiment from its options.
type Cases = fn(&Options) -> Result<Vec<Case>>;

/// Entry of the list.
pub struct ExperimentEntry {
    /// Its name.
    pub name: &'static str,
    /// Description of what it measures.
    pub what: &'static str,
    /// True if a guest takes part.
    pub has_guest: bool,
    /// True if each case runs in a room, as root, and reports itself what the host lacks.
    pub is_in_rooms: bool,
    /// Creates its cases. They run in the calling thread: pin it to [`Options::cpu`] 0 before.
    pub cases: Cases,
    /// Settings of the generator, if its own rate could limit the result: that rate is then reported beside
    /// the result.
    pub traffic: fn(&Options) -> Option<Settings>,
}

/// Entry of an experiment with a guest.
const fn guests(name: &'static str, what: &'static str, cases: Cases) -> ExperimentEntry {
    ExperimentEntry { name, what, has_guest: true, is_in_rooms: false, cases, traffic: |_| None }
}

/// Entry of an experiment on the host alone.
const fn of_host(name: &'static str, what: &'static str, cases: Cases) -> ExperimentEntry {
    ExperimentEntry { has_guest: false, ..guests(name, what, cases) }
}

/// Entry of an experiment in rooms.
const fn in_rooms(name: &'static str, what: &'static str, cases: Cases) -> ExperimentEntry {
    ExperimentEntry { is_in_rooms: true, ..of_host(name, what, cases) }
}

impl ExperimentEntry {
    /// Declares that the frames come from the generator, unless the kernel takes part.
    const fn fed_by_the_generator(self) -> Self {
        let traffic: fn(&Options) -> Option<Settings> =
            |options| (options.attach == Attachment::Native).then(|| device::traffic(options));
        Self { traffic, ..self }
    }
}

/// All experiments.
pub static LIST: [ExperimentEntry; 50] = [
    guests(
        "forward",
        "generator -> router -> sink, without the kernel; with --attach tap: TAP -> router -> TAP",
        forward::cases,
    )
    .fed_by_the_generator(),
    guests(
        "guest-tx",
        "a guest's source -> a sink, the switch or the kernel's UDP (--attach native, switch, tap)",
        guest_tx::cases,
    ),
    guests(
        "guest-rx",
        "a generator, the switch or a UDP socket of the kernel -> a guest's sink",
        guest_rx::cases,
    )
    .fed_by_the_generator(),
    guests(
        "guest-to-guest",
        "virtio ring -> switch -> virtio ring: the switch on one CPU, both guests' ends on another",
        guest_to_guest::cases,
    ),
    guests(
        "round-trip",
        "one frame at a time to a firmware and back, polling and sleeping, beside what KVM itself takes",
        round_trip::cases,
    ),
    guests(
        "tcp",
        "a TCP/IP stack in the guest against Linux's behind a TAP: streams, and requests",
        |options| tcp::cases(Between::GuestAndHost, options),
    ),
    guests(
        "tcp-guests",
        "the same between two guests: by the switch, or by two TAPs and the kernel (--attach tap)",
        |options| tcp::cases(Between::Guests, options),
    ),
    guests(
        "tcp-forward",
        "iperf3 between two namespaces: TAP -> router -> TAP, in turn with the kernel's own forwarding",
        tcp_forward::cases,
    ),
    guests(
        "livelock",
        "an application behind a bounded queue: what it keeps of its best rate when flooded, and protected",
        livelock::cases,
    ),
    guests(
        "boot",
        "from nothing, and from the start of a command, to the first forwarded frame",
        boot::cases,
    ),
    guests(
        "idle",
        "routers without traffic: CPU of 1 and of 10, and how memory grows with each of 10",
        idle::cases,
    ),
    guests(
        "hostile",
        "the rate of a router beside one that breaks the rules on the other CPU, against its rate alone",
        hostile::cases,
    ),
    of_host(
        "uplink",
        "interface to interface in one thread: AF_XDP on veth pairs, and TAPs in turn with it",
        uplinks::cases,
    ),
    guests(
        "attachments",
        "interface -> router -> interface of a host, offered more and more: each way to attach",
        overload::attachments,
    ),
    guests(
        "queue-length",
        "the same by macvtap, with 5 to 500 frames in the queue before the router, and as many as it can take",
        overload::queue_lengths,
    ),
    guests(
        "placement",
        "a router by macvtap on one, two and more cores, bound or not, offered fractions of its capacity",
        |options| sweep::described("placement", options, cases::placements),
    ),
    guests(
        "parallel",
        "one to four routers that are one by the queues of a macvtap, bound or not, offered fractions of a router's capacity",
        |options| sweep::described("parallel", options, cases::parallel),
    ),
    guests(
        "multistage",
        "a balancer before a back end, by the cores that the threads of both are on, offered fractions of a router's capacity",
        |options| sweep::described("multistage", options, stages::multistage),
    ),
    guests(
        "priorities",
        "the same on one core with real-time priorities of vCPU and vhost thread, and without",
        |options| sweep::described("priorities", options, cases::priorities),
    ),
    guests(
        "threads",
        "the same with one or two vhost threads and vCPUs; what each class took of the core",
        |options| sweep::described("threads", options, cases::threads),
    ),
    guests(
        "reservation",
        "the same with part of a core reserved for the vhost thread or the vCPU, in periods of 200 and 10 ms",
        |options| sweep::described("reservation", options, cases::reservations),
    ),
    guests(
        "reserved-queue",
        "the same with a reserved vCPU and 5 to 500 frames in the queue before the router",
        |options| sweep::described("reserved-queue", options, cases::reserved_queues),
    ),
    guests(
        "isolation",
        "2, 3 and 8 routers on one core, one overloaded in steps: what the others keep, protected and not",
        isolation::cases,
    ),
    guests(
        "guarantee",
        "a router that is promised a rate, delivered against promised beside more and more load, and one that never idles",
        guarantee::cases,
    ),
    guests(
        "accounting",
        "30 % of a core burnt in a vCPU, a vhost thread and softirqs: what `top` would say, and what asking costs",
        accounting::cases,
    ),
    in_rooms(
        "container-load",
        "throughput and CPU of a container (kernel, lxc, by hand) or a virtual machine by macvtap on one core, over the load",
        containers::load::cases,
    ),
    in_rooms(
        "container-latency",
        "latency of these at a tenth of the line rate and at line rate, as a histogram",
        containers::latency::cases,
    ),
    in_rooms(
        "container-routers",
        "1 to 8 of these on one core and on two, at line rate",
        containers::several::cases,
    ),
    in_rooms(
        "container-isolation",
        "two containers on one core, one overloaded in steps: without control, with shares, with a promise",
        containers::isolation::cases,
    ),
    in_rooms(
        "container-protected",
        "those of container-isolation in which shares or a promise protect a router of engine kernel",
        containers::isolation::protected,
    ),
    in_rooms(
        "container-by-hand",
        "engine kernel in turn with the same forwarding set up by hand with ip",
        containers::by_hand::cases,
    ),
    in_rooms(
        "container-eight",
        "eight routers (kernel, kvm) on one core in turn with one, flooded in equal parts",
        containers::eight::cases,
    ),
    in_rooms(
        "container-boot",
        "engine kernel: from `start` to the first forwarded frame",
        containers::boot::cases,
    ),
    in_rooms(
        "container-memory",
        "engine kernel: memory of each of 100 routers with two interfaces",
        containers::memory::cases,
    ),
    in_rooms(
        "compare",
        "one file on all engines: rate, latency, CPU, isolation, memory, time to start",
        containers::compare::cases,
    ),
    guests(
        "scale",
        "a group of one to four routers, side by side and behind balancers, offered more than it forwards",
        scale::cases,
    ),
    in_rooms(
        "efficiency",
        "two members of a group between TAPs on two cores, beside what a packet costs of generator, vhost thread and vCPU of one router",
        groups::efficiency::cases,
    ),
    in_rooms(
        "group-change",
        "a member added to a group or removed from it at 0.9 of what it carries: frames lost, flows reordered",
        groups::changes::cases,
    ),
    in_rooms(
        "group-killed",
        "from SIGKILL of a member of a group, or of a balancer, until all flows pass again",
        groups::killed::cases,
    ),
    in_rooms(
        "group-new",
        "from the request for one more member of a group to the first frame that it has forwarded",
        groups::newcomer::cases,
    ),
    in_rooms(
        "density",
        "200 routers at switches in one run: memory of each without guest RAM, CPU when idle, time until all are up",
        groups::density::cases,
    ),
    guests(
        "forward-updates",
        "forward while 100,000 routes a second change, in turn with none, and with as many of a table that nobody reads",
        routes::updates::cases,
    ),
    in_rooms(
        "full-table",
        "a million routes of FRR, fed by gobgpd: its own rate with and without us, and its recorded stream in zebra's place",
        routes::full_table::cases,
    ),
    in_rooms(
        "bfd-failover",
        "a next-hop group of two that a million routes share: from BFD's verdict until traffic has moved, p99 of 100",
        routes::failover::cases,
    ),
    in_rooms(
        "bfd-flood",
        "sessions of BFD (3 x 50 ms) that go down while each NIC of their routers is flooded",
        routes::flooded::cases,
    ),
    guests(
        "scan",
        "20,000 hosts behind a router, and a scan of the /16 around them: the share of their frames that is forwarded",
        scan::cases,
    ),
    of_host("lookup", "the route table alone, in bursts of destinations drawn from all routes", |options| {
        Ok(vec![lookup::case(options).into()])
    }),
    of_host("generator", "generator to sink in one thread: the measuring room's own speed", |options| {
        Ok(vec![port_to_port::case(Through::Wire, options).into()])
    }),
    of_host(
        "switch",
        "the learning switch in one thread: port to port, and ring to ring with 256 and 1024 entries",
        switch,
    ),
    of_host(
        "wire",
        "ring to ring in one thread with nothing in between: what the switch is compared with",
        |options| Ok(rings(Through::Wire, options)),
    ),
];

/// Returns the experiment with this name.
pub fn find(name: &str) -> Option<&'static ExperimentEntry> {
    LIST.iter().find(|listed| listed.name == name)
}

fn switch(options: &Options) -> Result<Vec<Case>> {
    let mut cases = vec![Case::from(port_to_port::case(Through::Switch, options))];
    cases.extend(rings(Through::Switch, options));
    Ok(cases)
}

fn rings(through: Through, options: &Options) -> Vec<Case> {
    [256, 1024].map(|entries| Case::from(ring_to_ring::case(through, options, entries))).into()
}
