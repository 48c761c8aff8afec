//! The members of a group as routers of the plan, and plans with other numbers of them.

use std::time::Duration;

use super::{
    BEFORE_NUMBER, Group, GroupKind, Interconnect, MOST_BALANCERS, MOST_MEMBERS, MOST_SPARE, Surplus, probed,
};
use crate::cpus::CpuSet;
use crate::mac::Mac;
use crate::plan::{Attach, Neighbour, Nic, Plan, Router, Switch};
use crate::setting::{Key, Setting, is_of_rates};
use crate::source_lines::SourceLines;
use crate::values::BadValue;
use crate::verify::verify;

/// How long the switches between balancers and back ends keep an address. Balancers name the port, so it decides little.
const AGEING: Duration = Duration::from_secs(300);

/// Adds a group and its members, which stand in the file where the router of this index does.
pub(crate) fn add(group: Group, index: usize, plan: &mut Plan) {
    plan.switches.extend(group.switches());
    for router in group.routers() {
        plan.places.repeat(index, plan.routers.len());
        plan.routers.push(router);
    }
    plan.groups.push(group);
}

impl Group {
    /// Its members, as the pattern has them, and those balancers that are virtual machines.
    fn routers(&self) -> impl Iterator<Item = Router> + '_ {
        let balancers = if self.has_machines() { self.balancers() } else { 0 };
        let members = (0..self.members).map(|number| self.router(number));
        members.chain((0..balancers).map(|number| self.machine(number)))
    }

    /// The static neighbours of each of its members.
    pub fn neighbours(&self) -> Vec<Neighbour> {
        self.router(0).neighbours
    }

    pub(super) fn router(&self, number: u32) -> Router {
        let name = self.member(number);
        let mut router = Router { name, ..self.pattern.clone() };
        if let GroupKind::Multistage(stages) = &self.kind {
            let inside = |nic: &mut Nic| self.plug_inside(nic, &stages.interconnect, number);
            router.nics.iter_mut().for_each(inside);
            self.name_link_locals(&mut router);
        }
        self.deal_cpus(&mut router, number);
        probed::add(&mut router, self.has_machines());
        router
    }

    /// Gives a member its part of the CPUs that threads are pinned to: they are dealt out over all members.
    fn deal_cpus(&self, router: &mut Router, number: u32) {
        let of = |set: &Option<CpuSet>, threads: usize| {
            let first = number as usize * threads;
            CpuSet::from_cpus((first..first + threads).filter_map(|thread| Some(set.as_ref()?.deal(thread))))
        };
        router.pin.vcpu = of(&self.pattern.pin.vcpu, self.pattern.vcpus as usize);
        router.pin.vhost = of(&self.pattern.pin.vhost, self.pattern.vhost_threads());
    }

    /// Plugs a NIC of a back end into the interconnection. Where that learns where addresses are each has one of its own, but the
    /// group's link-local address; a balancer that is a part of our switch names the port.
    fn plug_inside(&self, nic: &mut Nic, interconnect: &Interconnect, number: u32) {
        nic.attach = self.inside(nic, interconnect);
        if self.is_apart() {
            nic.six.name_link_local(nic.mac);
            nic.mac = Mac::derived(&self.member(number), &nic.name);
        }
    }

    /// Gives the VLANs of a back end whose NICs have addresses of their own the group's link-local address.
    fn name_link_locals(&self, router: &mut Router) {
        for own in router.forwarding.interfaces.iter_mut().filter(|_| self.is_apart()) {
            if let Some(nic) = self.pattern.nics.get(own.nic) {
                own.six.name_link_local(nic.mac);
            }
        }
    }

    /// The interconnection behind the balancers' NIC.
    pub(super) fn inside(&self, nic: &Nic, interconnect: &Interconnect) -> Attach {
        match interconnect {
            Interconnect::Switch => switch_port(&self.inner_switch(nic)),
            Interconnect::Bridge(bridge) => bridge.clone(),
        }
    }

    /// The name of the switch between the balancers' NIC and the back ends'. No switch of a file has such a name.
    pub(super) fn inner_switch(&self, nic: &Nic) -> String {
        format!("{}{BEFORE_NUMBER}{}", self.name, nic.name)
    }

    /// The switches that only it has.
    fn switches(&self) -> Vec<Switch> {
        let GroupKind::Multistage(stages) = &self.kind else { return Vec::new() };
        if stages.interconnect != Interconnect::Switch {
            return Vec::new();
        }
        let switch = |nic: &Nic| Switch { name: self.inner_switch(nic), ageing: AGEING };
        self.pattern.nics.iter().map(switch).collect()
    }
}

/// A port of a switch that the plan has.
fn switch_port(name: &str) -> Attach {
    Attach::read(&format!("switch:{name}")).unwrap_or_else(|_| Attach::null())
}

impl Plan {
    /// The plan with another number of members of a group beside its spare ones, which wake where more are wanted; those that stay are
    /// as they are.
    ///
    /// # Errors
    /// There is no such group, it may not have so many, or the plan as a whole must not be so: one line.
    pub fn with_members(&self, name: &str, members: u32) -> Result<Self, BadValue> {
        let known = self.group(name);
        let spare = known.map_or(0, |group| group.members.saturating_sub(members).min(group.spare));
        let others = known.map_or(0, |group| group.parked - group.spares()).min(members.saturating_sub(1));
        self.with_numbers(name, members, (members.saturating_add(spare), others + spare))
    }

    /// The plan with so many members of a group in all, and so many of these parked. `told` is the number that it may have or not.
    fn with_numbers(&self, name: &str, told: u32, (members, parked): (u32, u32)) -> Result<Self, BadValue> {
        let mut plan = self.clone();
        let group = plan.groups.iter_mut().find(|group| group.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
            BadValue(format!("there is no group {name:?}; groups: {}", names.join(", ")))
        })?;
        let key = group.members_key();
        let most = MOST_MEMBERS - group.remote_members().count() as u32;
        let (min, max) = group.scale.map_or((1, most), |scale| (scale.min, scale.max));
        if !(min..=max).contains(&told) {
            let what = format!("group {name}: {key}: {told} is out of range; write {min} to {max}");
            return Err(BadValue(what));
        }
        (group.members, group.parked) = (members, parked);
        plan.regroup(self);
        let faults = verify(&plan);
        if faults.is_empty() { Ok(plan) } else { Err(plan.errors(faults).of_setting(name, key)) }
    }

    /// The plan with so many members of a group awake: of those that there are the youngest are parked, and more are started where there
    /// are too few.
    ///
    /// # Errors
    /// As those of [`Plan::with_members`].
    pub fn with_awake(&self, name: &str, awake: u32) -> Result<Self, BadValue> {
        let known = self.group(name);
        let least = known.and_then(|group| group.scale).map_or(1, |scale| scale.min);
        let members = known.map_or(0, |group| group.members);
        if known.is_some() && awake < least {
            let what = format!("group {name}: awake: {awake} is out of range; write {least} or more");
            return Err(BadValue(what));
        }
        let members = awake.max(members);
        self.with_numbers(name, members, (members, members - awake))
    }

    /// The plan with so many spare members of a group, as far as it may have so many. Others that are parked are spare ones as well where
    /// there are too few, and stay where there are too many.
    ///
    /// # Errors
    /// As those of [`Plan::with_members`]; or its members can have none beside them.
    pub fn with_spare(&self, name: &str, spare: u32) -> Result<Self, BadValue> {
        let refuse = |what: String| Err(BadValue(format!("group {name}: {}: {what}", GroupKind::SPARE_KEY)));
        if spare > MOST_SPARE {
            return refuse(format!("{spare} is out of range; write 0 to {MOST_SPARE}"));
        }
        let mut plan = self.clone();
        let Some(group) = plan.groups.iter_mut().find(|group| group.name == name) else {
            return self.with_members(name, 1);
        };
        if spare > 0 && group.pattern.is_in_kernel() {
            return refuse("kernel routers have none in this version".to_owned());
        }
        let (spares, others) = (group.spares(), group.parked - group.spares());
        group.spare = spare;
        let parked = if spare < spares { others + spare } else { group.parked.max(spare) };
        let (awake, members) = (group.awake(), group.with_parked(parked));
        plan.with_numbers(name, members, (members, members - awake))
    }

    /// Has groups that follow the load have as many members as before, as many of them parked, as far as they may: a file says only how
    /// many there are when the run starts.
    pub(crate) fn inherit_members(&mut self, before: &Self) {
        let follows = |group: &Group| Some((group.name.clone(), group.scale?, before.group(&group.name)?));
        let scaled: Vec<_> = self.groups.iter().filter_map(follows).collect();
        for (name, scale, old) in scaled {
            // Where the plan must not be so, the number of the file stands.
            let members = old.members.clamp(scale.min, scale.max);
            let idle = members.saturating_sub(scale.min);
            let parked = if scale.surplus == Surplus::Park { old.parked.min(idle) } else { 0 };
            let Ok(plan) = self.with_numbers(&name, members, (members, parked)) else { continue };
            *self = plan;
        }
    }

    /// The plan with another number of balancers of a multistage group.
    ///
    /// # Errors
    /// There is no such group, or it may not have so many: one line.
    pub fn with_balancers(&self, name: &str, balancers: u32) -> Result<Self, BadValue> {
        let mut plan = self.clone();
        let group = plan.groups.iter_mut().find(|group| group.name == name);
        let Some(GroupKind::Multistage(stages)) = group.map(|group| &mut group.kind) else {
            return Err(BadValue(format!("there is no multistage group {name:?}")));
        };
        if !(1..=MOST_BALANCERS).contains(&balancers) {
            let what =
                format!("group {name}: balancers: {balancers} is out of range; write 1 to {MOST_BALANCERS}");
            return Err(BadValue(what));
        }
        stages.balancers = balancers;
        if !plan.group(name).is_some_and(Group::has_machines) {
            return Ok(plan);
        }
        plan.regroup(self);
        let faults = verify(&plan);
        if faults.is_empty() { Ok(plan) } else { Err(plan.errors(faults).of_setting(name, "balancers")) }
    }

    /// The plan with one setting of all members of a group changed; other settings of single members stay.
    ///
    /// # Errors
    /// As those of [`Plan::with`], which this is for groups.
    pub(crate) fn with_in_group(&self, name: &str, key: &str, value: &str) -> Result<Self, BadValue> {
        if is_of_rates(key) {
            return Err(BadValue(format!("group {name}: {key}: a group has none in this version")));
        }
        let of = Setting::find(key).map(|setting| setting.key);
        if let Some(number) = of.filter(|of| of.is_of_group()) {
            return self.with_number(name, number, (key, value));
        }
        let mut plan = self.clone();
        let of_group = plan.groups.iter_mut().filter(|group| group.name == name);
        of_group.map(|group| &mut group.pattern).try_for_each(|pattern| pattern.set(key, value))?;
        let is_of_kernel = of.is_some_and(Key::is_of_kernel);
        let is_meant = |router: &Router| router.membership().is_some() || !is_of_kernel;
        let own = plan.routers.iter_mut().filter(|router| router.group() == Some(name));
        own.filter(|router| is_meant(router)).try_for_each(|router| router.set(key, value))?;
        if let Some(class @ (Key::PinVcpu | Key::PinVhost)) = of {
            plan.deal_cpus(name, class);
        }
        let faults = verify(&plan);
        if faults.is_empty() { Ok(plan) } else { Err(plan.errors(faults).of_setting(name, key)) }
    }

    /// The plan with another number of members or balancers of a group.
    fn with_number(&self, name: &str, of: Key, (key, value): (&str, &str)) -> Result<Self, BadValue> {
        let refused = |what: String| BadValue(format!("group {name}: {key}: {what}"));
        if of == Key::Members
            && let Some(group) = self.group(name)
            && group.members_key() != key
        {
            return Err(refused(format!("this kind of group has {}", group.members_key())));
        }
        let with = match of {
            Key::Awake => Self::with_awake,
            Key::Spare => Self::with_spare,
            Key::Balancers => Self::with_balancers,
            _ => Self::with_members,
        };
        let number = value.parse::<u32>();
        with(self, name, number.map_err(|_| refused(format!("{value:?} is no number; write e.g. 3")))?)
    }

    /// Gives members and balancers of a group their parts of the CPUs that threads of one class are pinned to.
    fn deal_cpus(&mut self, name: &str, class: Key) {
        let Some(group) = self.groups.iter().find(|group| group.name == name) else { return };
        for router in self.routers.iter_mut().filter(|router| router.group() == Some(name)) {
            let before = router.pin.clone();
            let (member, balancer) = (router.membership(), router.balancing());
            match (member.map(|(_, number)| number), balancer.map(|(_, number)| number)) {
                (Some(number), _) => group.deal_cpus(router, number),
                (None, Some(number)) => group.deal_cpus_to_balancer(router, number),
                (None, None) => {}
            }
            match class {
                Key::PinVcpu => router.pin.vhost = before.vhost,
                _ => router.pin.vcpu = before.vcpu,
            }
        }
    }

    /// Lists the routers anew, by groups of which another plan knows the members that stay.
    fn regroup(&mut self, before: &Self) {
        self.routers.clear();
        self.places = SourceLines { file: before.places.file.clone(), ..SourceLines::default() };
        self.places.keep_run(&before.places);
        let alone = before.routers.iter().enumerate().filter(|(_, router)| router.group().is_none());
        alone.for_each(|(index, router)| self.push_like(router.clone(), &before.places, index));
        for group in std::mem::take(&mut self.groups) {
            self.push_members(&group, before);
            self.groups.push(group);
        }
    }

    fn push_members(&mut self, group: &Group, before: &Self) {
        let find = |name: &str| before.routers.iter().position(|router| router.name == name);
        let first = find(&group.member(0)).unwrap_or_default();
        for new in group.routers() {
            let known = find(&new.name);
            let router = known.and_then(|index| before.routers.get(index)).cloned().unwrap_or(new);
            self.push_like(router, &before.places, known.unwrap_or(first));
        }
    }

    /// Adds a router that stands in the file where another plan's does.
    fn push_like(&mut self, router: Router, places: &SourceLines, index: usize) {
        self.places.copy(places, index, self.routers.len());
        self.routers.push(router);
    }
}
