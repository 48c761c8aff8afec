//! `[[group]]`: many routers that are one router to everybody outside. The plan contains the group as the file writes it, with one router
//! as the pattern of its members, and the members themselves as routers named `NAME_0`, `NAME_1`, …: code that starts, places and watches
//! routers needs to know nothing of groups.
//!
//! * `kind = "parallel"`: each member is plugged into the links of the group, and owns a part of their queues.
//! * `kind = "multistage"`: balancers are plugged into them; the members, its back ends, into an interconnection behind those. Balancers
//!   that are virtual machines (`balancer = "vm"`) are routers of the plan as well, named `NAME_lb0`, `NAME_lb1`, ….

mod guard;
mod keys;
mod links;
mod machines;
mod members;
mod probed;
mod read;
mod remote;
mod tables;
mod tunnels;
mod verify;

use attach::NicRequirements;
use serde::{Deserialize, Serialize};

use crate::mac::Mac;
use crate::plan::{Attach, Nic, Pin, Plan, Router};

pub use keys::GROUP;
pub(crate) use keys::{AWAKE, names_in};
pub(crate) use read::read_all;
pub(crate) use tunnels::verify as verify_tunnels;

/// Most members of a group.
pub const MOST_MEMBERS: u32 = 64;
/// Most balancers of a group.
pub const MOST_BALANCERS: u32 = 16;
/// Most spare members of a group.
const MOST_SPARE: u32 = 4;
/// Most queues of a link that members own.
const MOST_QUEUES: u32 = 64;
/// Queues for each member: so that shares come out even whatever number of members there is.
const QUEUES_EACH: u32 = 4;
/// What stands between the name of a group and the number of a member. No name in a file has it, and it is none of the signs that
/// part names: counters and labels such as `core_0.wan` are read as those of any router.
const BEFORE_NUMBER: char = '_';
/// Letters before the number of a balancer that is a virtual machine.
const BALANCER: &str = "lb";

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name, which no router and no other group has.
    pub name: String,
    /// How it is built.
    pub kind: GroupKind,
    /// Current number of members.
    pub members: u32,
    /// Number of members that are parked, those with the highest numbers: they sleep, and get no frames.
    pub parked: u32,
    /// Number of spare members: so many should be parked at any time, as far as the group may have them; they are the next ones to wake.
    pub spare: u32,
    /// How frames are spread over them.
    pub spread: Spread,
    /// How the number of members follows the load; `None`: it does not.
    pub scale: Option<Scale>,
    /// The router that the group is to everybody outside, with the group's name: the pattern of its members.
    pub pattern: Router,
}

/// How a group is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupKind {
    /// Members side by side on the same links (parallel virtual routers).
    Parallel,
    /// Balancers, an interconnection and back ends (a multistage software router).
    Multistage(Stages),
}

impl GroupKind {
    /// Keys for the number of members.
    pub const MEMBERS_KEYS: [&str; 2] = ["members", "backends"];

    /// Key for the number of balancers.
    pub const BALANCERS_KEY: &str = "balancers";

    /// Key for the number of members that are awake; not for files.
    pub const AWAKE_KEY: &str = "awake";

    /// Key for the number of spare members.
    pub const SPARE_KEY: &str = "spare";

    /// Its name in files.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Parallel => "parallel",
            Self::Multistage(_) => "multistage",
        }
    }
}

/// Stages before the back ends of a multistage group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Number of balancers.
    pub balancers: u32,
    /// Kind of the balancers.
    pub balancer: Balancer,
    /// Network between balancers and back ends.
    pub interconnect: Interconnect,
    /// Number of back ends on other hosts that a bridge leads to, besides the members here.
    pub remote: u32,
    /// Tunnels to back ends on other hosts: for each of them the tunnel of its first NIC.
    pub tunnels: Vec<Attach>,
    /// CPUs for the threads of balancers that are virtual machines; none: those of the group, from their end.
    pub pin: Pin,
}

/// Kind of balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Balancer {
    /// A port of the run's own switch.
    #[default]
    Switch,
    /// A virtual machine.
    Vm,
}

impl Balancer {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Vm => "vm",
        }
    }
}

/// Network between balancers and back ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Interconnect {
    /// A switch of the run for each NIC of the group.
    #[default]
    Switch,
    /// A bridge of the kernel or of Open vSwitch: each NIC of a back end is a TAP in it.
    Bridge(Attach),
}

/// How frames are spread over members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spread {
    /// By flow, in both directions alike where the choice is ours: the frames of a flow stay in order.
    #[default]
    Flow,
    /// One by one: members are loaded alike, and frames of a flow overtake each other.
    RoundRobin,
}

impl Spread {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::RoundRobin => "round-robin",
        }
    }
}

/// How the number of members follows the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// Minimum number of members.
    pub min: u32,
    /// Maximum number of members.
    pub max: u32,
    /// Maximum load of a member, in thousandths of its time.
    pub target: u32,
    /// What happens to members that the load does not need.
    pub surplus: Surplus,
}

/// What happens to members that the load does not need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Surplus {
    /// They sleep, keep all that they have, and wake within milliseconds.
    #[default]
    Park,
    /// They end, and their memory is freed.
    End,
}

impl Surplus {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Park => "park",
            Self::End => "end",
        }
    }
}

impl Stages {
    /// Returns the number of back ends on other hosts.
    pub fn elsewhere(&self) -> u32 {
        self.remote.saturating_add(self.tunnels.len() as u32)
    }
}

impl Group {
    /// Returns the key for the number of members.
    pub const fn members_key(&self) -> &'static str {
        match self.kind {
            GroupKind::Parallel => GroupKind::MEMBERS_KEYS[0],
            GroupKind::Multistage(_) => GroupKind::MEMBERS_KEYS[1],
        }
    }

    /// Returns the number of members that are not parked, at least one.
    pub fn awake(&self) -> u32 {
        self.members.saturating_sub(self.parked).max(1)
    }

    /// Returns the numbers of the parked members.
    pub fn parked_members(&self) -> std::ops::Range<u32> {
        self.awake()..self.members.max(self.awake())
    }

    /// Returns how many of the parked members are spare ones.
    pub fn spares(&self) -> u32 {
        self.parked.min(self.spare)
    }

    /// Returns true if it has fewer spare members than it should, and may have more.
    pub fn lacks_spares(&self) -> bool {
        self.members < self.with_parked(self.spare)
    }

    /// Returns the group with its spare members added.
    fn with_spares(self) -> Self {
        let members = self.with_parked(self.spare);
        Self { members, parked: members - self.awake(), ..self }
    }

    /// Returns the number of all members if this many are parked besides those that are awake, as far as it may have so many.
    fn with_parked(&self, parked: u32) -> u32 {
        let most = MOST_MEMBERS.saturating_sub(self.remote_members().count() as u32);
        let most = self.scale.map_or(most, |scale| scale.max);
        self.awake().saturating_add(parked).min(most.max(self.awake()))
    }

    /// Returns the maximum number of members that it may have while it runs.
    pub fn most(&self) -> u32 {
        self.scale.map_or(self.members, |scale| scale.max.max(self.members))
    }

    /// Returns the number of queues of a link of a parallel group, which its members own. It is fixed when the link is made, however many
    /// members are added.
    pub fn queues(&self) -> u32 {
        (self.most() * QUEUES_EACH).next_power_of_two().min(MOST_QUEUES)
    }

    /// Returns the requirements on the link of a NIC of the pattern: a queue for the balancer, or those that members own.
    pub fn wanted(&self, nic: &Nic) -> NicRequirements {
        let is_parallel = self.kind == GroupKind::Parallel;
        let queues = match nic.attach.kind() {
            _ if !is_parallel => 1,
            // The number of a NIC's queues is given: at least one for each member; members share the rest.
            "xdp" => self.most().max(2) as usize,
            _ => self.queues() as usize,
        };
        let in_turn = is_parallel && self.spread == Spread::RoundRobin;
        let wanted = match self.pattern.is_in_kernel() {
            // It is the link of a balancer.
            true => NicRequirements {
                router: self.name.clone(),
                ..self.machine(0).wanted(&machines::outside(nic))
            },
            false => self.pattern.wanted(nic),
        };
        NicRequirements { queues, in_turn, mtu: nic.mtu, ..wanted }
    }

    /// Returns the number of its balancers, 0 if members own the queues of links.
    pub fn balancers(&self) -> u32 {
        match &self.kind {
            GroupKind::Parallel => 0,
            GroupKind::Multistage(stages) => stages.balancers.max(1),
        }
    }

    /// Returns the names of its threads that move frames to members: one for each balancer that is no virtual machine.
    pub fn balancer_threads(&self) -> Vec<String> {
        let threads = if self.has_machines() { 0 } else { self.balancers() };
        (0..threads).map(|number| format!("{}/{BALANCER}{number}", self.name)).collect()
    }

    /// Returns true if its balancers are virtual machines.
    pub fn has_machines(&self) -> bool {
        matches!(&self.kind, GroupKind::Multistage(stages) if stages.balancer == Balancer::Vm)
    }

    /// Returns the name of a balancer that is a virtual machine.
    pub fn balancer(&self, number: u32) -> String {
        format!("{}{BEFORE_NUMBER}{BALANCER}{number}", self.name)
    }

    /// Returns the name of a member.
    pub fn member(&self, number: u32) -> String {
        format!("{}{BEFORE_NUMBER}{number}", self.name)
    }

    /// Returns the numbers of the members on other hosts: the highest ones, so that they do not depend on the number of others.
    pub fn remote_members(&self) -> impl Iterator<Item = u32> + use<> {
        let remote = match &self.kind {
            GroupKind::Parallel => 0,
            GroupKind::Multistage(stages) => stages.elsewhere(),
        };
        (0..remote.min(MOST_MEMBERS)).map(|number| MOST_MEMBERS - 1 - number)
    }

    /// Returns true if a name is that of a member that the data plane does not serve: a kernel router, or one on another host.
    pub fn is_elsewhere(&self, name: &str) -> bool {
        // Independent of their current number.
        let in_kernel = if self.pattern.is_in_kernel() { 0..MOST_MEMBERS } else { 0..0 };
        in_kernel.chain(self.remote_members()).any(|number| self.member(number) == name)
    }

    /// Returns the Ethernet addresses of a member's NICs, in the order of the file.
    pub fn stations(&self, number: u32) -> impl Iterator<Item = Mac> + '_ {
        let (is_apart, name) = (self.is_apart(), self.member(number));
        let of = move |nic: &Nic| if is_apart { Mac::derived(&name, &nic.name) } else { nic.mac };
        self.pattern.nics.iter().map(of)
    }

    /// Removes what the data plane need not know: the placement and scheduling of threads.
    pub(crate) fn forget_threads(&mut self) {
        let pattern = &mut self.pattern;
        (pattern.pin, pattern.affinity, pattern.sched, pattern.guarantee) = Default::default();
        if let GroupKind::Multistage(stages) = &mut self.kind {
            stages.pin = Pin::default();
        }
    }
}

/// Part of a router in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The member with this number.
    Member(u32),
    /// The balancer with this number, a virtual machine.
    Balancer(u32),
}

impl Router {
    /// Returns the group that it is a member of, and its number there.
    pub fn membership(&self) -> Option<(&str, u32)> {
        membership(&self.name)
    }

    /// Returns the group that it is a balancer of, and its number there.
    pub fn balancing(&self) -> Option<(&str, u32)> {
        match part(&self.name)? {
            (group, Part::Balancer(number)) => Some((group, number)),
            (_, Part::Member(_)) => None,
        }
    }

    /// Returns the group that it is a member or a balancer of.
    pub fn group(&self) -> Option<&str> {
        part(&self.name).map(|(group, _)| group)
    }
}

/// Returns the group that a router with this name is part of, and its part.
fn part(router: &str) -> Option<(&str, Part)> {
    let (group, number) = router.rsplit_once(BEFORE_NUMBER)?;
    let part = match number.strip_prefix(BALANCER) {
        Some(number) => Part::Balancer(number.parse().ok()?),
        None => Part::Member(number.parse().ok()?),
    };
    Some((group, part))
}

/// Returns the group that a router with this name is a member of, and its number there.
fn membership(router: &str) -> Option<(&str, u32)> {
    match part(router)? {
        (group, Part::Member(number)) => Some((group, number)),
        (_, Part::Balancer(_)) => None,
    }
}

/// Returns true if a name stands for a router: it is the router's, or that of the group that it is a member or balancer of.
pub fn is_meant(router: &str, name: &str) -> bool {
    router == name || part(router).is_some_and(|(group, _)| group == name)
}

/// Returns true if a router forwards for a name: it is the router's, or that of the group that it is a member of.
pub fn is_forwarding_for(router: &str, name: &str) -> bool {
    router == name || membership(router).is_some_and(|(group, _)| group == name)
}

impl Plan {
    /// Returns the names that it takes on a host: those of its routers, members of groups included, and of its groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let routers = self.routers.iter().map(|router| router.name.as_str());
        routers.chain(self.groups.iter().map(|group| group.name.as_str()))
    }

    /// Returns the group with this name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns true if a name is that of a member of a group on another host.
    pub fn is_remote(&self, name: &str) -> bool {
        let is_its = |group: &Group| group.remote_members().any(|number| group.member(number) == name);
        self.groups.iter().any(is_its)
    }

    /// Returns the members of a group, by number.
    pub fn members<'p>(&'p self, group: &'p str) -> impl Iterator<Item = &'p Router> {
        let is_its = move |router: &&Router| router.membership().is_some_and(|(own, _)| own == group);
        self.routers.iter().filter(is_its)
    }
}

/// Each router that there is outside, with the index of one whose places in the file it has: a router that is no member, and the pattern
/// of each group.
pub(crate) fn outside(plan: &Plan) -> impl Iterator<Item = (usize, &Router)> {
    let alone = plan.routers.iter().enumerate().filter(|(_, router)| router.group().is_none());
    let mut from = 0;
    let groups = plan.groups.iter().filter_map(move |group| {
        let is_its = |router: &Router| router.membership().is_some_and(|(own, _)| own == group.name);
        let first = from + plan.routers.get(from..)?.iter().position(is_its)?;
        from = first + group.members as usize;
        Some((first, &group.pattern))
    });
    alone.chain(groups)
}

/// What a file calls the table that a router stands in, and the name that it has there.
pub(crate) fn table_of(router: &Router) -> (&'static str, &str) {
    router.group().map_or(("router", router.name.as_str()), |group| ("group", group))
}
