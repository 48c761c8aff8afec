//! The experiments by name.

use anyhow::Result;
use config::Misdeed;

use super::{
    Accounting, Between, Boot, Cost, Forward, GuestRx, GuestToGuest, GuestTx, Hostile, Idle, Isolation,
    KernelFed, Livelock, Loop, Overload, PortToPort, Promise, RingToRing, RoundTrip, Spinner, Sweep, Tcp,
    TcpForward, Through, Uplink, Uplinks, Waiting,
};
use crate::device;
use crate::experiment::{Attachment, Experiment, Options};
use crate::generator::Settings;

/// What is measured at one time.
pub enum Case {
    /// One thing.
    Alone(Box<dyn Experiment>),
    /// Two in turn: the ratio of the first to the second is the result.
    InTurn(Box<dyn Experiment>, Box<dyn Experiment>),
}

/// One experiment.
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub what: &'static str,
    /// Whether a guest takes part.
    pub has_guest: bool,
    /// Its cases. They run in the calling thread: pin it to [`Options::cpu`] 0 before.
    pub cases: fn(&Options) -> Result<Vec<Case>>,
    /// What the generator sends, where its own rate could be the limit: it is told beside the result.
    pub traffic: fn(&Options) -> Option<Settings>,
}

/// All of them.
pub static LIST: [Listed; 26] = [
    Listed {
        name: "forward",
        what: "generator -> router -> sink, without the kernel; with --attach tap: TAP -> router -> TAP",
        has_guest: true,
        cases: forward,
        traffic: |options| (options.attach == Attachment::Native).then(|| device::traffic(options)),
    },
    Listed {
        name: "guest-tx",
        what: "a guest's source -> a sink, the switch or the kernel's UDP (--attach native, switch, tap)",
        has_guest: true,
        cases: |options| Ok(alone(GuestTx::new(options)?)),
        traffic: |_| None,
    },
    Listed {
        name: "guest-rx",
        what: "a generator, the switch or a UDP socket of the kernel -> a guest's sink",
        has_guest: true,
        cases: |options| Ok(alone(GuestRx::new(options)?)),
        traffic: |options| (options.attach == Attachment::Native).then(|| device::traffic(options)),
    },
    Listed {
        name: "guest-to-guest",
        what: "virtio ring -> switch -> virtio ring: the switch on one CPU, both guests' ends on another",
        has_guest: true,
        cases: |options| Ok(alone(GuestToGuest::new(options)?)),
        traffic: |_| None,
    },
    Listed {
        name: "round-trip",
        what: "one frame at a time to a firmware and back, polling and sleeping, beside what KVM itself takes",
        has_guest: true,
        cases: round_trip,
        traffic: |_| None,
    },
    Listed {
        name: "tcp",
        what: "a TCP/IP stack in the guest against Linux's behind a TAP: streams, and requests",
        has_guest: true,
        cases: |options| tcp(Between::GuestAndHost, options),
        traffic: |_| None,
    },
    Listed {
        name: "tcp-guests",
        what: "the same between two guests: by the switch, or by two TAPs and the kernel (--attach tap)",
        has_guest: true,
        cases: |options| tcp(Between::Guests, options),
        traffic: |_| None,
    },
    Listed {
        name: "tcp-forward",
        what: "iperf3 between two namespaces: TAP -> router -> TAP, in turn with the kernel's own forwarding",
        has_guest: true,
        cases: |options| {
            let [router, kernel] = TcpForward::pair(options)?;
            Ok(vec![Case::InTurn(boxed(router), boxed(kernel))])
        },
        traffic: |_| None,
    },
    Listed {
        name: "livelock",
        what: "an application behind a bounded queue: what it keeps of its best rate when flooded, and protected",
        has_guest: true,
        cases: livelock,
        traffic: |_| None,
    },
    Listed {
        name: "boot",
        what: "from nothing, and from the start of a command, to the first forwarded frame",
        has_guest: true,
        cases: |options| Ok(Boot::cases(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "idle",
        what: "routers without traffic: CPU of 1 and of 10, and how memory grows with each of 10",
        has_guest: true,
        cases: idle,
        traffic: |_| None,
    },
    Listed {
        name: "hostile",
        what: "the rate of a router beside one that breaks the rules on the other CPU, against its rate alone",
        has_guest: true,
        cases: hostile,
        traffic: |_| None,
    },
    Listed {
        name: "uplink",
        what: "interface to interface in one thread: AF_XDP on veth pairs, and TAPs in turn with it",
        has_guest: false,
        cases: |options| {
            let [xdp, tap] = [Uplink::Xdp, Uplink::Tap].map(|uplink| Uplinks::new(uplink, options));
            Ok(vec![Case::InTurn(boxed(xdp?), boxed(tap?))])
        },
        traffic: |_| None,
    },
    Listed {
        name: "attachments",
        what: "interface -> router -> interface of a host, offered more and more: each way to attach",
        has_guest: true,
        cases: |options| Ok(Overload::attachments(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "queue-length",
        what: "the same by macvtap, with 5 to 500 frames in the queue before the router, and as many as it can take",
        has_guest: true,
        cases: |options| Ok(Overload::queue_lengths(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "placement",
        what: "a router by macvtap on one, two and more cores, bound or not, offered fractions of its capacity",
        has_guest: true,
        cases: |options| Ok(Sweep::placements(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "priorities",
        what: "the same on one core with real-time priorities of vCPU and vhost thread, and without",
        has_guest: true,
        cases: |options| Ok(Sweep::priorities(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "threads",
        what: "the same with one or two vhost threads and vCPUs; what each class took of the core",
        has_guest: true,
        cases: |options| Ok(Sweep::threads(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "reservation",
        what: "the same with part of a core reserved for the vhost thread or the vCPU, in periods of 200 and 10 ms",
        has_guest: true,
        cases: |options| Ok(Sweep::reservations(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "reserved-queue",
        what: "the same with a reserved vCPU and 5 to 500 frames in the queue before the router",
        has_guest: true,
        cases: |options| Ok(Sweep::reserved_queues(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "isolation",
        what: "2, 3 and 8 routers on one core, one overloaded in steps: what the others keep, protected and not",
        has_guest: true,
        cases: |options| Ok(Isolation::cases(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "guarantee",
        what: "a router that is promised a rate, delivered against promised beside more and more load, and one that never idles",
        has_guest: true,
        cases: guarantee,
        traffic: |_| None,
    },
    Listed {
        name: "accounting",
        what: "30 % of a core burnt in a vCPU, a vhost thread and softirqs: what `top` would say, and what asking costs",
        has_guest: true,
        cases: |options| Ok(Accounting::cases(options)?.into_iter().flat_map(alone).collect()),
        traffic: |_| None,
    },
    Listed {
        name: "generator",
        what: "generator to sink in one thread: the measuring room's own speed",
        has_guest: false,
        cases: |options| Ok(alone(PortToPort::new(Through::Wire, options))),
        traffic: |_| None,
    },
    Listed {
        name: "switch",
        what: "the learning switch in one thread: port to port, and ring to ring with 256 and 1024 entries",
        has_guest: false,
        cases: |options| {
            let mut cases = alone(PortToPort::new(Through::Switch, options));
            cases.extend(rings(Through::Switch, options));
            Ok(cases)
        },
        traffic: |_| None,
    },
    Listed {
        name: "wire",
        what: "ring to ring in one thread with nothing in between: what the switch is compared with",
        has_guest: false,
        cases: |options| Ok(rings(Through::Wire, options)),
        traffic: |_| None,
    },
];

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Listed> {
    LIST.iter().find(|listed| listed.name == name)
}

fn boxed(experiment: impl Experiment + 'static) -> Box<dyn Experiment> {
    Box::new(experiment)
}

fn alone(experiment: impl Experiment + 'static) -> Vec<Case> {
    vec![Case::Alone(boxed(experiment))]
}

fn forward(options: &Options) -> Result<Vec<Case>> {
    if options.attach == Attachment::Tap {
        let [router, bare] = [Loop::Router, Loop::Bare].map(|what| KernelFed::new(what, options));
        return Ok(vec![Case::InTurn(boxed(router?), boxed(bare?))]);
    }
    Ok(alone(Forward::new(options)?))
}

fn round_trip(options: &Options) -> Result<Vec<Case>> {
    let cases = [Waiting::Polling, Waiting::Sleeping].map(|waiting| RoundTrip::new(waiting, options));
    cases.into_iter().map(|case| Ok(Case::Alone(boxed(case?)))).collect()
}

fn tcp(between: Between, options: &Options) -> Result<Vec<Case>> {
    Ok(Tcp::cases(between, options)?.into_iter().flat_map(alone).collect())
}

fn livelock(options: &Options) -> Result<Vec<Case>> {
    let cases = [false, true].map(|protected| Livelock::new(protected, options));
    cases.into_iter().map(|case| Ok(Case::Alone(boxed(case?)))).collect()
}

fn idle(options: &Options) -> Result<Vec<Case>> {
    // Memory first: an allocator that has got large blocks back once keeps the next ones, touched, in its heap.
    let cases = [(Cost::Memory, 10), (Cost::Cpu, 1), (Cost::Cpu, 10)];
    Ok(cases.map(|(cost, routers)| Case::Alone(boxed(Idle::new(cost, routers, options)))).into())
}

fn guarantee(options: &Options) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Promise::pair(options)?.into_iter().flat_map(alone).collect();
    cases.extend(alone(Spinner::new(options)?));
    Ok(cases)
}

fn hostile(options: &Options) -> Result<Vec<Case>> {
    let chosen = |misdeed: &Misdeed| options.misdeed.is_none_or(|only| only == *misdeed);
    let cases = Misdeed::ALL.into_iter().filter(chosen).map(|misdeed| {
        let [beside, alone] = [Some(misdeed), None].map(|misdeed| Hostile::new(misdeed, options));
        Ok(Case::InTurn(boxed(beside?), boxed(alone?)))
    });
    cases.collect()
}

fn rings(through: Through, options: &Options) -> Vec<Case> {
    [256, 1024].map(|entries| Case::Alone(boxed(RingToRing::new(through, options, entries)))).into()
}
