//! Streams of frames, as zebra writes them.

use std::net::IpAddr;

use fpm::wire::{append, next_hop, route, types};
use netlink::{NextHop, Prefix};

/// Protocol of routes in a stream unless stated: BGP's (RTPROT_BGP).
pub const BGP: u8 = 186;
/// Table of routes in a stream: `main`.
pub const MAIN: u32 = 254;
/// Metric that zebra writes for each route (`NL_DEFAULT_ROUTE_METRIC`).
const METRIC: u32 = 20;

/// How a route in a stream forwards.
#[derive(Clone, Copy, Debug)]
pub enum By<'a> {
    /// By a next-hop object.
    Group(u32),
    /// By one next hop.
    Hop(NextHop),
    /// By several.
    Hops(&'a [NextHop]),
    /// Not at all.
    Blackhole,
}

/// Stream of frames, in the making.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    octets: Vec<u8>,
    message: Vec<u8>,
}

impl Stream {
    /// Octets so far.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Adds a route, as zebra does for a destination that it did not have.
    pub fn add(&mut self, to: Prefix, by: By<'_>) -> &mut Self {
        self.put_route(types::NEW_ROUTE, to, BGP, Some(by));
        self.frame()
    }

    /// Adds a route of another protocol (RTPROT_*).
    pub fn add_of(&mut self, protocol: u8, to: Prefix, by: By<'_>) -> &mut Self {
        self.put_route(types::NEW_ROUTE, to, protocol, Some(by));
        self.frame()
    }

    /// Replaces a route: deletes it and adds it in one frame.
    pub fn replace(&mut self, to: Prefix, by: By<'_>) -> &mut Self {
        self.put_route(types::DEL_ROUTE, to, BGP, None);
        self.put_route(types::NEW_ROUTE, to, BGP, Some(by));
        self.frame()
    }

    /// Deletes a route.
    pub fn delete(&mut self, to: Prefix) -> &mut Self {
        self.put_route(types::DEL_ROUTE, to, BGP, None);
        self.frame()
    }

    /// Adds or changes a next-hop object with one next hop.
    pub fn hop(&mut self, id: u32, hop: NextHop) -> &mut Self {
        let start = self.begin_next_hop(types::NEW_NEXT_HOP, id);
        self.attribute(next_hop::OIF, &hop.index.to_ne_bytes());
        if let Some(via) = hop.via {
            self.address(next_hop::GATEWAY, via);
        }
        self.end(start);
        self.frame()
    }

    /// Adds or changes a next-hop object that consists of others, with their weights (1 to 256).
    pub fn group(&mut self, id: u32, members: &[(u32, u16)]) -> &mut Self {
        let start = self.begin_next_hop(types::NEW_NEXT_HOP, id);
        let octets: Vec<u8> = members
            .iter()
            .flat_map(|(id, weight)| {
                let [a, b, c, d] = id.to_ne_bytes();
                [a, b, c, d, weight.saturating_sub(1) as u8, 0, 0, 0]
            })
            .collect();
        self.attribute(next_hop::GROUP, &octets);
        self.end(start);
        self.frame()
    }

    /// Deletes a next-hop object.
    pub fn delete_group(&mut self, id: u32) -> &mut Self {
        let start = self.begin_next_hop(types::DEL_NEXT_HOP, id);
        self.end(start);
        self.frame()
    }

    /// Adds a frame with these octets in place of netlink messages.
    pub fn raw(&mut self, payload: &[u8]) -> &mut Self {
        append(&mut self.octets, payload);
        self
    }

    fn frame(&mut self) -> &mut Self {
        append(&mut self.octets, &self.message);
        self.message.clear();
        self
    }

    fn put_route(&mut self, kind: u16, to: Prefix, protocol: u8, by: Option<By<'_>>) {
        const UNIVERSE: u8 = 0;
        let (unicast, blackhole) = (1, 6);
        let fate = if matches!(by, Some(By::Blackhole)) { blackhole } else { unicast };
        let start = self.begin(kind);
        let family = family(to.ip);
        self.message.extend([family, to.len, 0, 0, MAIN as u8, protocol, UNIVERSE, fate, 0, 0, 0, 0]);
        self.address(route::DST, to.ip);
        self.attribute(route::PRIORITY, &METRIC.to_ne_bytes());
        match by {
            Some(By::Group(id)) => self.attribute(route::NH_ID, &id.to_ne_bytes()),
            Some(By::Hop(hop)) => {
                if let Some(via) = hop.via {
                    self.address(route::GATEWAY, via);
                }
                self.attribute(route::OIF, &hop.index.to_ne_bytes());
            }
            Some(By::Hops(hops)) => self.multipath(hops),
            Some(By::Blackhole) | None => {}
        }
        self.end(start);
    }

    fn multipath(&mut self, hops: &[NextHop]) {
        let start = self.message.len();
        self.message.extend([0, 0]);
        self.message.extend(route::MULTIPATH.to_ne_bytes());
        for hop in hops {
            let at = self.message.len();
            self.message.extend([0, 0, 0, hop.weight.saturating_sub(1) as u8]);
            self.message.extend(hop.index.to_ne_bytes());
            if let Some(via) = hop.via {
                self.address(route::GATEWAY, via);
            }
            self.set_short(at);
        }
        self.set_short(start);
    }

    fn begin_next_hop(&mut self, kind: u16, id: u32) -> usize {
        let start = self.begin(kind);
        self.message.extend([0, 0, 11, 0, 0, 0, 0, 0]);
        self.attribute(next_hop::ID, &id.to_ne_bytes());
        start
    }

    /// Begins a message; returns where.
    fn begin(&mut self, kind: u16) -> usize {
        const REQUEST_CREATE_REPLACE: u16 = 0x501;
        let start = self.message.len();
        self.message.extend([0; 4]);
        self.message.extend(kind.to_ne_bytes());
        self.message.extend(REQUEST_CREATE_REPLACE.to_ne_bytes());
        self.message.extend([0; 8]);
        start
    }

    fn end(&mut self, start: usize) {
        let len = (self.message.len() - start) as u32;
        self.message[start..start + 4].copy_from_slice(&len.to_ne_bytes());
    }

    fn address(&mut self, name: u16, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => self.attribute(name, &ip.octets()),
            IpAddr::V6(ip) => self.attribute(name, &ip.octets()),
        }
    }

    fn attribute(&mut self, name: u16, value: &[u8]) {
        let start = self.message.len();
        self.message.extend([0, 0]);
        self.message.extend(name.to_ne_bytes());
        self.message.extend(value);
        self.set_short(start);
        self.message.resize(self.message.len().next_multiple_of(4), 0);
    }

    /// Writes the length of what began at `start` there.
    fn set_short(&mut self, start: usize) {
        let len = (self.message.len() - start) as u16;
        self.message[start..start + 2].copy_from_slice(&len.to_ne_bytes());
    }
}

const fn family(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 2 } else { 10 }
}
