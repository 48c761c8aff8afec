//! The attacks, each with its target and its attacker.

use std::time::Instant;

use anyhow::{Context, Result};
use api::Request;
use bootinfo::Misdeed;
use support::HugePages;
use support::attack::{Attack, Deed, Machine, Misuse, Program};

use super::clients::{HalfRequests, Listeners, NonReadingClients};
use super::guests::Guests;
use super::own::{Flaps, Locks, Owner, Storm, Threads, apply, set};
use super::pipe::{NamedPipe, Reader};
use super::scene::{Scene, VictimConfig};
use crate::step::target_dir;

type Attacker = Box<dyn Attack>;

/// Huge pages for both routers, and none to spare.
const PAGES: u32 = 2 * 32 / 2;

/// Specification of an attack.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// Description: act and attacker.
    pub(super) does: &'static str,
    pub(super) site: VictimConfig,
    pub(super) start: fn(&mut Scene) -> Result<Attacker>,
    wants: Wants,
}

/// Host resources that an attack needs before the run is started.
#[derive(Clone, Copy)]
enum Wants {
    Nothing,
    HugePages,
    NamedPipe,
}

/// Resources that were provided, released when dropped.
pub(super) enum ProvidedResources {
    Nothing,
    HugePages { _pages: HugePages },
    NamedPipe { _pipe: NamedPipe },
}

impl Spec {
    const fn new(
        words: [&'static str; 2],
        site: VictimConfig,
        start: fn(&mut Scene) -> Result<Attacker>,
    ) -> Self {
        let [name, does] = words;
        Self { name, does, site, start, wants: Wants::Nothing }
    }

    /// Provides the host resources that the attack needs.
    pub(super) fn prepare(&self) -> Result<ProvidedResources> {
        Ok(match self.wants {
            Wants::Nothing => ProvidedResources::Nothing,
            Wants::HugePages => {
                let pages = HugePages::set(PAGES);
                let missing = || format!("this host does not give {PAGES} huge pages");
                ProvidedResources::HugePages { _pages: pages.with_context(missing)? }
            }
            Wants::NamedPipe => ProvidedResources::NamedPipe { _pipe: NamedPipe::make()? },
        })
    }
}

const PROCESS: VictimConfig =
    VictimConfig { router: "engine = 'process'", attach: "'vhost-user-backend:door.sock'", more: "" };
const HANDED: VictimConfig = VictimConfig { attach: "'vhost-user-frontend:door.sock'", ..PROCESS };
const SWITCH: VictimConfig = VictimConfig { attach: "'switch:lan'", more: "[switch.lan]\n", ..PROCESS };
const TAP: VictimConfig = VictimConfig { attach: "'tap:attack-tap'", ..PROCESS };
/// Runs in a virtual machine if KVM is available.
const VIRTIO_NET: VictimConfig = VictimConfig { router: "", ..SWITCH };
const E1000: VictimConfig =
    VictimConfig { attach: "'switch:lan'\nmodel = 'e1000'\nmode = 'base'", ..VIRTIO_NET };
const CAPTURED: VictimConfig = VictimConfig { attach: "'pcap:/run/ringroad-attacks.pipe'", ..PROCESS };
const SCRAPED: VictimConfig =
    VictimConfig { more: "[telemetry]\nprometheus = 'unix:/run/ringroad-attacks.sock'\n", ..PROCESS };
const SHARES: VictimConfig =
    VictimConfig { router: "engine = 'process'\nsched = { policy = 'shares', weight = 2 }", ..PROCESS };
const OTHER_SHARES: VictimConfig =
    VictimConfig { router: "engine = 'process'\nsched = { policy = 'shares', weight = 3 }", ..PROCESS };
const ROUTED: VictimConfig = VictimConfig {
    attach: "'vhost-user-backend:door.sock'\n[[router.route]]\nto = '10.9.0.0/16'\nvia = '10.2.2.2'",
    ..PROCESS
};

macro_rules! machine {
    ($name:literal, $deed:ident, $does:literal) => {
        Spec::new([$name, $does], PROCESS, |scene| machine(scene, Deed::$deed))
    };
}

macro_rules! misdeed {
    ($name:literal, $misdeed:ident, $site:ident, $does:literal) => {
        Spec::new([$name, $does], $site, |scene| misdeed(scene, Misdeed::$misdeed))
    };
}

macro_rules! program {
    ($name:literal, $misuse:ident, $does:literal) => {
        Spec::new([$name, $does], HANDED, |scene| program(scene, Misuse::$misuse))
    };
}

/// All attacks.
pub(super) static ALL: [Spec; 39] = [
    machine!("wait", Wait, "a vhost-user peer's eventfd makes whoever writes it wait"),
    machine!("wait-a-little", WaitALittle, "the same, but each call of it for less than 0.1 s"),
    machine!("terabytes", Terabytes, "a peer shares 32 ranges of 1 TiB"),
    machine!("disk", Disk, "a peer shares a file on a disk"),
    machine!(
        "chains",
        Chains,
        "a peer's rings of 32,768 entries offer one chain of 256 descriptors everywhere"
    ),
    machine!("loop", Loop, "a peer offers a chain that never ends"),
    program!("pages", Pages, "a program takes the pages of the router that it was handed"),
    Spec {
        wants: Wants::HugePages,
        ..program!("huge-pages", Pages, "the same with huge pages, which it keeps")
    },
    program!("silence", Silence, "a program that a router calls never answers"),
    program!("fill-kick", FillKick, "a program makes whoever rings the doorbells that it was handed wait"),
    Spec::new(
        ["keep", "a program keeps a router's rings while that is restarted in a loop"],
        HANDED,
        |scene| Ok(Box::new(Keeper::new(scene)?)),
    ),
    program!("nonsense", Nonsense, "a program that a router calls answers what was not asked"),
    Spec::new(["misdeeds", "firmware: the eleven other misdeeds in turn, virtio-net"], VIRTIO_NET, misdeeds),
    Spec::new(["misdeeds-e1000", "the same on e1000s that send within register accesses"], E1000, misdeeds),
    misdeed!(
        "faults",
        TripleFault,
        VIRTIO_NET,
        "a firmware ends in a triple fault, as often as it is started again"
    ),
    misdeed!("resets", Resets, VIRTIO_NET, "a firmware resets its NICs and sets them up anew, virtio-net"),
    misdeed!("resets-e1000", Resets, E1000, "the same on e1000s that send within register accesses"),
    misdeed!("commands", Commands, VIRTIO_NET, "a firmware keeps its NICs' control queues full of commands"),
    Spec::new(["console", "a kernel writes to its console without end"], PROCESS, talker),
    Spec::new(["locks", "a user locks all cgroup folders while the owner applies files"], SHARES, locks),
    Spec::new(["threads", "threads come and go while a router is restarted in a loop"], SHARES, threads),
    machine!("hasty", Hasty, "a peer connects and goes"),
    machine!("crumbs", Crumbs, "a peer says a message octet by octet, never to its end"),
    machine!("descriptors", Descriptors, "a peer adds 32 descriptors to a message"),
    machine!("kicks", Kicks, "a peer rings doorbells for nothing"),
    machine!("bases", Bases, "a peer takes its rings back and lays them out anew, in traffic"),
    machine!("tables", Tables, "a peer shares its memory anew, in traffic"),
    machine!("cut", Cut, "a peer cuts its memory off, in traffic"),
    machine!("indices", Indices, "a peer changes indices and descriptors while they are read"),
    machine!("deaf", Deaf, "a peer asks and reads no answer"),
    Spec::new(["control", "13 clients of the control socket ask and read nothing"], PROCESS, control),
    Spec::new(
        ["events", "12 clients of the control socket ask for events, which the owner causes, and read none"],
        PROCESS,
        events,
    ),
    Spec::new(
        ["halves", "clients of the control socket apply files of 1 MiB, and stay without an end or leave"],
        PROCESS,
        halves,
    ),
    Spec::new(["telemetry", "64 clients of the telemetry ask and read nothing"], SCRAPED, telemetry),
    Spec {
        wants: Wants::NamedPipe,
        ..Spec::new(
            ["pcap-pipe", "a program leaves the pipe full that a router captures into"],
            CAPTURED,
            pipe,
        )
    },
    Spec::new(["storm", "a host sends ARP broadcasts into a TAP"], TAP, storm),
    Spec::new(["flaps", "a host sets its end of a TAP down and up, and changes its MTU"], TAP, flaps),
    Spec::new(["cable", "the owner pulls and plugs a cable"], PROCESS, cable),
    Spec::new(["apply", "the owner applies two files in turn"], PROCESS, applies),
];

fn machine(scene: &mut Scene, deed: Deed) -> Result<Attacker> {
    Ok(Box::new(Machine::new(&scene.stage.path("door.sock"), &target_dir(), deed)))
}

fn program(scene: &mut Scene, misuse: Misuse) -> Result<Attacker> {
    Ok(Box::new(Program::new(&scene.stage.path("door.sock"), misuse)))
}

fn misdeeds(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Guests::misdeeds(scene)?))
}

fn misdeed(scene: &mut Scene, misdeed: Misdeed) -> Result<Attacker> {
    Ok(Box::new(Guests::misdeed(scene, misdeed)?))
}

fn talker(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Guests::talker(scene)?))
}

fn locks(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Locks::new(scene, vec![apply(OTHER_SHARES), apply(SHARES)])?))
}

fn threads(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Threads(Owner::new(scene, vec![restart()])?)))
}

fn control(_: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(NonReadingClients::control()?))
}

fn events(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Listeners::new(scene, vec![apply(ROUTED), apply(PROCESS)])?))
}

fn halves(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(HalfRequests::new(scene.site)?))
}

fn telemetry(_: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(NonReadingClients::telemetry()))
}

fn pipe(_: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Reader::new()?))
}

fn storm(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Storm::new(scene)?))
}

fn flaps(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Flaps::new(scene)?))
}

fn cable(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Owner::new(scene, vec![set("door.link", "down"), set("door.link", "up")])?))
}

fn applies(scene: &mut Scene) -> Result<Attacker> {
    Ok(Box::new(Owner::new(scene, vec![apply(ROUTED), apply(PROCESS)])?))
}

fn restart() -> Request {
    Request::Restart { router: "bad".to_owned() }
}

/// Program that takes a router's rings and does not give them back, while the router is restarted.
struct Keeper {
    program: Program,
    owner: Owner,
}

impl Keeper {
    fn new(scene: &mut Scene) -> Result<Self> {
        let program = Program::new(&scene.stage.path("door.sock"), Misuse::Keep);
        Ok(Self { program, owner: Owner::new(scene, vec![restart()])? })
    }
}

impl Attack for Keeper {
    fn act(&mut self, until: Instant) -> Result<bool> {
        // Wait until it has the rings.
        let has = self.program.act(until)?;
        if has { self.owner.act(until) } else { Ok(false) }
    }

    fn rest(&mut self) -> Result<()> {
        self.program.rest()
    }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
