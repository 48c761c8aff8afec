//! Topologies that the diagrams show: routers in rooms, with the set-ups of the other experiments, and groups.

use std::collections::BTreeMap;

use anyhow::Result;
use config::Engine;
use host::cores;

use super::Stand;
use super::functions::ByFunctions;
use crate::diagram::Seen;
use crate::experiment::Options;
use crate::rig::router_run::{Balancer, File, GroupShape, Interconnect, Link, RouterRun, Stages};

/// What a drawing shows of its rooms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The path of a frame through each router.
    Paths,
    /// The stages of a group.
    Stages,
    /// The functions of the kernel that a frame passes.
    Functions,
}

/// A topology.
pub(crate) struct Drawing {
    /// Name in the figure files.
    pub(crate) name: &'static str,
    pub(crate) shows: Shows,
    scenes: &'static [Scene],
    /// Name and use of the path by virtual functions that the paper draws as well.
    by_functions: Option<(&'static str, ByFunctions)>,
}

/// Content of a room.
#[derive(Clone, Copy)]
enum Scene {
    /// So many routers with this set-up.
    Routers(Stand, usize),
    /// A group of these stages at these links.
    Group(Stages, Link),
}

/// What a room has shown while its routers ran. Routers have the paper's names there: `vr1`.
pub(crate) struct Room {
    /// Configuration file.
    pub(crate) text: String,
    /// Interfaces and threads that existed.
    pub(crate) seen: Seen,
    /// Roles of the routers' threads (`vcpu0`), by name, and the trace of one frame; empty if the drawing does not show functions.
    pub(crate) threads: BTreeMap<String, String>,
    pub(crate) trace: String,
}

/// A room by virtual functions, or the reason why there is none.
pub(crate) type Shown = Result<Room, &'static str>;

impl Room {
    /// Creates a room with this configuration file, of which nothing was seen yet.
    pub(super) fn of(text: String) -> Self {
        Self { text, seen: Seen::default(), threads: BTreeMap::new(), trace: String::new() }
    }
}

const fn paths(name: &'static str, scenes: &'static [Scene]) -> Drawing {
    Drawing { name, shows: Shows::Paths, scenes, by_functions: None }
}

const fn stages(name: &'static str, scenes: &'static [Scene]) -> Drawing {
    Drawing { shows: Shows::Stages, ..paths(name, scenes) }
}

/// Group with two virtual machines as its balancers, joined by switches of the run to three back ends.
const BY_SWITCHES: Scene = Scene::Group(
    Stages { balancers: 2, back_ends: 3, balancer: Balancer::Vm, interconnect: Interconnect::Switch },
    Link::Tap,
);
/// Group with a virtual machine as its balancer, joined by a bridge of the kernel, or by Open vSwitch.
const BY_BRIDGE: Scene = Scene::Group(Stages::pair(Balancer::Vm, Interconnect::Bridge), Link::Macvtap);
const BY_OVS: Scene = Scene::Group(Stages::pair(Balancer::Vm, Interconnect::Ovs), Link::Macvtap);

/// Reason why a virtual machine has no path by virtual functions.
const NEEDS_VFIO: &str = "a virtual machine of ringroad cannot be given a virtual function: that needs VFIO";

/// All topologies: seed paper 000, figures 1, 16, 17 and A.20; seed paper 003, figures 1, 2, 3 and 9.
pub(crate) static ALL: [Drawing; 9] = [
    paths("vmm-and-vhost", &[Scene::Routers(Stand::KVM_TAP_VMM, 1), Scene::Routers(Stand::KVM_TAP, 1)]),
    stages("multistage", &[BY_SWITCHES]),
    stages("multistage-bridge", &[BY_BRIDGE]),
    stages("multistage-ovs", &[BY_OVS]),
    Drawing { shows: Shows::Functions, ..paths("kernel-functions", &[Scene::Routers(Stand::MACVTAP, 1)]) },
    Drawing {
        by_functions: Some(("SR-IOV (KVM)", ByFunctions::Refused(NEEDS_VFIO))),
        ..paths("kvm-path", &[Scene::Routers(Stand::MACVTAP, 1)])
    },
    Drawing {
        by_functions: Some(("SR-IOV (LXC)", ByFunctions::Runs(Engine::Lxc))),
        ..paths("lxc-path", &[Scene::Routers(Stand::LXC_MACVLAN, 1)])
    },
    paths("test-bed", &[Scene::Routers(Stand::KERNEL_VETH, 1)]),
    paths("isolation", &[Scene::Routers(Stand::LXC_VETH, 2)]),
];

impl Drawing {
    /// Runs the routers of each room, one room after the other, and returns what they showed.
    ///
    /// # Errors
    /// The routers do not run, or the host has no tracepoints where the drawing needs them.
    pub(crate) fn rooms(&self, options: &Options) -> Result<Vec<Room>> {
        let (load, cpu) = (options.cpu(0)?, options.cpu(1)?);
        cores::pin(load)?;
        let traced = self.shows == Shows::Functions;
        let room = |scene: &Scene| match *scene {
            Scene::Routers(stand, routers) => {
                stand.with_routers(options, &vec![cpu; routers], |room| shown(room, routers, traced))
            }
            Scene::Group(stages, link) => {
                let lines = [String::new()];
                let group = Some(GroupShape::Multistage(stages));
                let file = File { group, ..File::new(options, link, &lines) };
                RouterRun::with_routers(&file, |room| {
                    room.wait_for_members(&mut room.client()?, stages.back_ends)?;
                    shown(room, 1, traced)
                })
            }
        };
        self.scenes.iter().map(room).collect()
    }

    /// Runs a router on virtual functions if the paper draws one, and returns its name in the paper with what it showed, or with the
    /// reason why there is none.
    ///
    /// # Errors
    /// The router does not run.
    pub(crate) fn by_functions(&self) -> Result<Option<(&'static str, Shown)>> {
        self.by_functions.map(|(name, by)| Ok((name, by.room()?))).transpose()
    }
}

/// Looks at a room with this many routers or groups.
fn shown(room: &RouterRun, routers: usize, traced: bool) -> Result<Room> {
    let called = |router: usize| format!("vr{}", router + 1);
    let rename = |text: String, at| text.replace(&room.router(at), &called(at));
    let text = (0..routers).fold(room.text().to_owned(), rename);
    let (threads, trace) =
        if traced { (room.roles()?, room.trace_one()?) } else { (BTreeMap::new(), String::new()) };
    Ok(Room { text, seen: room.seen(called)?, threads, trace })
}
