//! Execution of steps by netlink requests. The calling thread is inside the router's namespace.

use std::io;
use std::os::fd::AsFd;

use netlink::{Generic, Kind, NextHop, Queue, RouteId, RouteKind, Settings};
use rustix::io::Errno;

use crate::error::Refusal;
use crate::executor::{Executor, Peer};
use crate::leftover::{GROUP, find_link, is_errno};
use crate::look::{BEHIND, FIRST, LOCAL, PROTOCOL, threads_file};
use crate::six;
use crate::{Mode, Neighbour, NewInterface, Object, Origin, PeerNamespace, Route, Setting, Step, TypedRoute};

/// Features that make a pair's frames pass through NAPI: GRO on at the receiving end, and all of these off at the
/// sending end (`veth_skb_is_eligible_for_gro` of drivers/net/veth.c).
const GRO: &str = "rx-gro";
const TSO: [&str; 4] = [
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
];

impl Executor<'_> {
    /// Carries a step out.
    ///
    /// # Errors
    /// The kernel refuses; then the state is as before.
    pub(crate) fn carry(&mut self, step: &Step) -> Result<(), Refusal> {
        match step {
            Step::Add(thing) => self.add(thing),
            Step::Remove(thing) => self.remove(thing),
            Step::Set { interface, to, .. } => self.set(interface, *to),
            Step::Parameter { key, to, .. } => set_parameter(key, to),
        }
    }

    /// Undoes steps, the last one first. Errors are ignored: there is no further fallback.
    pub(crate) fn undo(&mut self, done: &[Step]) {
        for step in done.iter().rev().filter_map(Step::inverse) {
            let _ = self.carry(&step);
        }
    }

    fn add(&mut self, thing: &Object) -> Result<(), Refusal> {
        match thing {
            Object::Interface(made) => self.make(made),
            Object::Address { interface, prefix } => {
                Ok(self.own.kernel.add_address(self.own.index(interface)?, *prefix)?)
            }
            Object::Route(route) => Ok(self.own.kernel.insert_route(&self.entered(route)?)?),
            Object::SpreadRoute(route) => self.spread(route),
            Object::TypedRoute(route) => Ok(self.own.kernel.insert_route(&entered(*route))?),
            Object::Neighbour(Neighbour { interface, ip, mac }) => {
                Ok(self.own.kernel.add_neighbour(self.own.index(interface)?, *ip, *mac)?)
            }
            Object::LocalRule { is_ipv4 } => self.move_local_rule(*is_ipv4, (FIRST, BEHIND)),
        }
    }

    /// Removes an object. Succeeds if the kernel has removed it already together with another one.
    fn remove(&mut self, thing: &Object) -> Result<(), Refusal> {
        match thing {
            Object::Interface(made) => self.unmake(made),
            Object::Address { interface, prefix } => {
                let removed = self
                    .own
                    .index(interface)
                    .and_then(|index| self.own.kernel.delete_address(index, *prefix));
                ignore_errors(removed, &[Errno::NODEV, Errno::ADDRNOTAVAIL])
            }
            Object::Route(route) => {
                let removed = self.entered(route).and_then(|route| self.own.kernel.remove_route(&route));
                ignore_errors(removed, &[Errno::NODEV, Errno::SRCH])
            }
            Object::SpreadRoute(route) => self.gather(route),
            Object::TypedRoute(route) => {
                ignore_errors(self.own.kernel.remove_route(&entered(*route)), &[Errno::SRCH])
            }
            Object::Neighbour(Neighbour { interface, ip, .. }) => {
                let removed =
                    self.own.index(interface).and_then(|index| self.own.kernel.delete_neighbour(index, *ip));
                ignore_errors(removed, &[Errno::NODEV, Errno::NOENT])
            }
            Object::LocalRule { is_ipv4 } => self.move_local_rule(*is_ipv4, (BEHIND, FIRST)),
        }
    }

    /// Moves the rule of table `local` from one priority to another. There is one at any time, without which the router would have no
    /// address of its own.
    fn move_local_rule(&self, is_ipv4: bool, (from, to): (u32, u32)) -> Result<(), Refusal> {
        let kernel = &self.own.kernel;
        ignore_errors(kernel.add_table_rule(is_ipv4, to, LOCAL), &[Errno::EXIST])?;
        ignore_errors(kernel.delete_table_rule(is_ipv4, from, LOCAL), &[Errno::NOENT])
    }

    fn entered(&self, route: &Route) -> io::Result<netlink::Route> {
        let index = self.own.index(&route.interface)?;
        Ok(netlink::Route {
            id: RouteId { table: route.table, to: route.to, tos: 0, metric: route.metric },
            kind: RouteKind::Unicast,
            next_hops: vec![NextHop { via: route.via, index, weight: 1 }],
            group: None,
            protocol: PROTOCOL,
        })
    }

    fn make(&mut self, made: &NewInterface) -> Result<(), Refusal> {
        match &made.origin {
            Origin::Veth { peer, at, bridge } => self.make_pair(made, (peer, at), bridge.as_deref())?,
            Origin::Macvlan { parent, mode } => self.make_macvlan(made, parent, *mode)?,
            Origin::Moved { link } => self.move_in(made, link)?,
            Origin::Vlan { lower, id } => {
                let kind = Kind::Vlan { lower: self.own.index(lower)?, id: *id };
                self.own.kernel.make_link(kind, &settings(made))?;
            }
            Origin::ServiceVlan { lower, id } => {
                let kind = Kind::ServiceVlan { lower: self.own.index(lower)?, id: *id };
                self.own.kernel.make_link(kind, &settings(made))?;
            }
            Origin::Vrf { table } => {
                // Its MTU and its Ethernet address are the kernel's.
                let named = Settings::default().name(&made.interface).group(GROUP);
                self.own.kernel.make_link(Kind::Vrf { table: *table }, &named)?;
            }
            Origin::External => return Err(Refusal::Told("it was not provided".to_owned())),
        }
        let index = self.own.kernel.link(made.interface.as_str())?.index;
        self.own.made.insert(made.interface.clone(), (index, made.origin.clone()));
        Ok(())
    }

    /// Creates a pair. Both ends get their settings in the request that creates them, except for those that need the
    /// other end to exist.
    fn make_pair(
        &mut self,
        made: &NewInterface,
        (peer, at): (&str, &PeerNamespace),
        bridge: Option<&str>,
    ) -> Result<(), Refusal> {
        let there = self.namespace(at)?;
        self.delete_former_pair(&made.interface, at)?;
        let bridge = match bridge {
            Some(name) => Some(self.bridge(name, at)?),
            None => None,
        };
        let other = Settings::default().name(peer).group(GROUP);
        let other = made.mtu.into_iter().fold(other, Settings::mtu);
        self.own.kernel.make_veth(&settings(made), &other, Some(there.as_fd()))?;
        let settled = self.settle_other_end(peer, at, bridge);
        if settled.is_err() {
            self.forget(&made.interface);
        }
        self.own.other_ends.insert(made.interface.clone(), settled?);
        Ok(())
    }

    /// Gives the other end of a pair its alias, and makes it a port of the bridge with this index, and up. Returns its index.
    pub(crate) fn settle_other_end(
        &mut self,
        peer: &str,
        at: &PeerNamespace,
        bridge: Option<u32>,
    ) -> Result<u32, Refusal> {
        let more = Settings::default().alias(&self.own.alias);
        let more = bridge.into_iter().fold(more, |more, bridge| more.master(bridge).up(true));
        let kernel = self.socket(at)?;
        kernel.set_link(peer, &more)?;
        Ok(kernel.link(peer)?.index)
    }

    /// Deletes the former pair of an interface if its own end is no longer in the namespace, because somebody has pulled it out: its
    /// other end would be in the way.
    fn delete_former_pair(&mut self, interface: &str, at: &PeerNamespace) -> Result<(), Refusal> {
        let is_same =
            matches!(self.own.made.get(interface), Some((_, Origin::Veth { at: was, .. })) if was == at);
        if !is_same {
            return Ok(());
        }
        let outside = self.namespace(at)?.netlink()?;
        match self.own.former_other_end(interface, &outside)? {
            Some(index) => ignore_errors(outside.delete_link(index), &[Errno::NODEV]),
            None => Ok(()),
        }
    }

    /// Index of a bridge.
    pub(crate) fn bridge(&mut self, name: &str, at: &PeerNamespace) -> Result<u32, Refusal> {
        match find_link(self.socket(at)?, name)? {
            Some(bridge) => Ok(bridge.index),
            None => Err(Refusal::Told(format!(
                "there is no bridge `{name}` {at}: `ip link add {name} type bridge`"
            ))),
        }
    }

    /// Creates a macvlan under a temporary unique name, because older kernels look for the name in the parent's
    /// namespace as well.
    fn make_macvlan(&mut self, made: &NewInterface, parent: &str, mode: Mode) -> Result<(), Refusal> {
        let own = self.own.namespace.clone();
        let before = name_before(&made.interface, own.id()?.inode);
        let outside = self.socket(&PeerNamespace::Home)?;
        let lower = outside.link(parent)?.index;
        let named = settings(&NewInterface { interface: before.clone(), ..made.clone() });
        outside.make_link_in(Kind::Macvlan { lower, mode }, &named, own.as_fd())?;
        let index = self.own.kernel.link(before.as_str())?.index;
        let renamed = self.own.kernel.set_link(index, &Settings::default().name(&made.interface));
        if renamed.is_err() {
            self.forget(&before);
        }
        Ok(renamed?)
    }

    /// Moves an interface of the host in. Its former state has been recorded and reported before.
    fn move_in(&mut self, made: &NewInterface, link: &str) -> Result<(), Refusal> {
        let Some(kept) = self.own.kept(&made.interface, link).cloned() else {
            return Err(Refusal::Told("its former state was not recorded: apply the file again".to_owned()));
        };
        // If the move succeeded but the renaming failed, an interface of this name would be taken for the moved one.
        if kept.link != made.interface && find_link(&self.own.kernel, &kept.link)?.is_some() {
            return Err(Refusal::Told(format!(
                "its namespace has another interface `{}`: rename that one",
                kept.link
            )));
        }
        let (own, alias) = (self.own.namespace.clone(), kept.alias());
        let outside = self.socket(&PeerNamespace::Home)?;
        let index = match find_link(outside, &kept.link)? {
            Some(link) => link.index,
            // Somebody has pulled it out of the namespace: it has the name there that it had here.
            None => kept.astray(outside)?.ok_or_else(|| io::Error::from(Errno::NODEV))?.index,
        };
        let named = Settings::default().name(&made.interface).alias(&alias);
        let moved = outside.move_link(index, own.as_fd(), &named);
        let interface = made.interface.as_str();
        let moved = moved.and_then(|()| self.own.kernel.set_link(interface, &settings_of(made)));
        if moved.is_err() {
            // It may have been moved but not configured.
            let _ = kept.bring_home(&self.own.kernel, &self.own.home);
        }
        Ok(moved?)
    }

    fn unmake(&mut self, made: &NewInterface) -> Result<(), Refusal> {
        if let Origin::Moved { link } = &made.origin {
            if let Some(kept) = self.own.kept(&made.interface, link) {
                kept.bring_home(&self.own.kernel, &self.own.home)?;
            }
        } else {
            let index = self.own.index(&made.interface);
            ignore_errors(index.and_then(|index| self.own.kernel.delete_link(index)), &[Errno::NODEV])?;
        }
        self.own.made.remove(&made.interface);
        self.own.other_ends.remove(&made.interface);
        Ok(())
    }

    /// Deletes an interface that was created but not configured.
    fn forget(&self, name: &str) {
        let _ = self.own.kernel.delete_link(name);
    }

    fn set(&mut self, interface: &str, to: Setting) -> Result<(), Refusal> {
        let settings = match to {
            Setting::Threaded(on) => return self.set_threads(interface, on),
            Setting::Queue(queue) => return self.set_queue(interface, queue),
            Setting::Mac(mac) => Settings::default().mac(mac),
            Setting::Mtu(mtu) => return self.set_mtu(interface, mtu),
            Setting::Up(up) => Settings::default().up(up),
            Setting::Vrf(table) => Settings::default().master(self.vrf_index(table)?),
        };
        Ok(self.own.kernel.set_link(self.own.index(interface)?, &settings)?)
    }

    /// Index of the VRF with this table; 0: none is asked for.
    fn vrf_index(&self, table: Option<u32>) -> io::Result<u32> {
        let Some(table) = table else { return Ok(0) };
        let mut made = self.own.made.values();
        let vrf = made.find(|(_, origin)| *origin == Origin::Vrf { table });
        vrf.map(|(index, _)| *index).ok_or_else(|| Errno::NODEV.into())
    }

    /// Sets the MTU of an interface, and of the other end of a pair: of both or of neither.
    fn set_mtu(&mut self, interface: &str, mtu: u32) -> Result<(), Refusal> {
        let wanted = Settings::default().mtu(mtu);
        let peer = self.peer(interface)?;
        if let Some(Peer { place, link }) = &peer {
            self.socket(place)?.set_link(link.index, &wanted)?;
        }
        let set = self.own.index(interface).and_then(|index| self.own.kernel.set_link(index, &wanted));
        if let (Err(_), Some(Peer { place, link })) = (&set, peer)
            && let Ok(outside) = self.socket(&place)
        {
            let _ = outside.set_link(link.index, &Settings::default().mtu(link.mtu));
        }
        Ok(set?)
    }

    /// Gives the other end of a pair a queueing discipline, or the default one.
    fn set_queue(&mut self, interface: &str, queue: Option<Queue>) -> Result<(), Refusal> {
        let Some(Peer { place, link }) = self.peer(interface)? else {
            let why = "the other end of the pair was moved or renamed: its queue cannot be set there";
            return if queue.is_none() { Ok(()) } else { Err(Refusal::Told(why.to_owned())) };
        };
        let outside = self.socket(&place)?;
        match queue {
            Some(queue) => Ok(outside.set_queue(link.index, queue)?),
            None => ignore_errors(outside.remove_queue(link.index), &[Errno::NOENT, Errno::NODEV]),
        }
    }

    fn set_threads(&mut self, interface: &str, on: bool) -> Result<(), Refusal> {
        let sysfs = self.own.namespace.sysfs()?;
        let write = |value: &str| sysfs.write(&threads_file(interface), value);
        if !on {
            // An interface that is down has no NAPI to switch.
            ignore_errors(write("0"), &[Errno::OPNOTSUPP, Errno::NOENT])?;
            return self.set_features(interface, false);
        }
        let done = self.set_features(interface, true).and_then(|()| Ok(write("1")?));
        match done {
            Err(Refusal::Kernel(e)) if is_errno(&e, Errno::OPNOTSUPP) => {
                let _ = self.set_features(interface, false);
                let why = "threaded NAPI is not possible: it has no NAPI of its own; use a veth or a virtual function";
                Err(Refusal::Told(why.to_owned()))
            }
            Err(e) => {
                let _ = self.set_features(interface, false);
                Err(e)
            }
            Ok(()) => Ok(()),
        }
    }

    /// Makes frames of a pair pass through the receiver's NAPI, or bypass it. Interfaces that are no pairs use NAPI in
    /// any case.
    fn set_features(&mut self, interface: &str, by_napi: bool) -> Result<(), Refusal> {
        if !matches!(self.own.made.get(interface), Some((_, Origin::Veth { .. }))) {
            return Ok(());
        }
        let inside = Generic::open()?;
        inside.set_features(self.own.index(interface)?, &[(GRO, by_napi)])?;
        match self.peer(interface)? {
            Some(peer) => {
                let features = TSO.map(|name| (name, !by_napi));
                Ok(self.generic(&peer.place)?.set_features(peer.link.index, &features)?)
            }
            None if by_napi => {
                let why = "the other end of the pair was moved or renamed: TSO cannot be turned off there";
                Err(Refusal::Told(why.to_owned()))
            }
            None => Ok(()),
        }
    }
}

fn set_parameter(key: &str, to: &str) -> Result<(), Refusal> {
    match netns::set_sysctl(key, to).map_err(Refusal::from) {
        Err(Refusal::Kernel(e)) if six::disables(key, to) && is_errno(&e, Errno::NOENT) => Ok(()),
        done => done,
    }
}

/// A route by which nothing is forwarded, as the kernel enters it.
fn entered(route: TypedRoute) -> netlink::Route {
    let is_default = !route.to.ip.is_ipv4() && route.metric == 0;
    let metric = if is_default { six::METRIC } else { route.metric };
    netlink::Route {
        id: RouteId { table: route.table, to: route.to, tos: 0, metric },
        kind: route.kind,
        next_hops: Vec::new(),
        group: None,
        protocol: PROTOCOL,
    }
}

/// Settings with which an interface is created.
fn settings(made: &NewInterface) -> Settings {
    settings_of(made).name(&made.interface).group(GROUP)
}

fn settings_of(made: &NewInterface) -> Settings {
    let settings = made.mac.into_iter().fold(Settings::default(), Settings::mac);
    made.mtu.into_iter().fold(settings, Settings::mtu)
}

/// Treats these error numbers as success.
fn ignore_errors(outcome: io::Result<()>, fine: &[Errno]) -> Result<(), Refusal> {
    match outcome {
        Err(e) if fine.iter().any(|errno| is_errno(&e, *errno)) => Ok(()),
        other => Ok(other?),
    }
}

/// Temporary name of an interface until it is renamed: unique in this namespace and in that of the host.
fn name_before(interface: &str, namespace: u64) -> String {
    format!("rr~{:08x}", hash(interface.bytes().chain(namespace.to_le_bytes())))
}

/// FNV-1a of octets.
pub(crate) fn hash(octets: impl Iterator<Item = u8>) -> u32 {
    octets.fold(0x811c_9dc5, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193))
}
