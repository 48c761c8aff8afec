//! The stack, its sockets, and one pass over both.

use bootinfo::Station as Duty;
use frame::Mac;
use ledger::StationTally;
use router::{Address, Buffer, Burst, Platform};
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, Ipv4Address};

use crate::client::{Datagrams, Requests, Stream};
use crate::memory::{Buffers, Places};
use crate::server::Server;
use crate::wire::{LARGEST_MTU, Lanes, NIC, Wire};

/// Rounds in which the stack may send in one pass; in each, a socket sends one frame at most.
const ROUNDS: usize = 256;

/// What a station is and does.
#[derive(Clone, Copy, Debug)]
pub struct Orders<'o> {
    /// What it does.
    pub duty: Duty,
    /// Its Ethernet address: not a group's.
    pub mac: Mac,
    /// Largest IP packet in octets; more than 1500 count as 1500.
    pub mtu: usize,
    /// Its addresses, at least one; those that no station can have are left out, and so are more than eight.
    pub addresses: &'o [Address],
    /// With whom a client speaks: a neighbour, in host byte order.
    pub to_ip: u32,
    /// Octets that a client hands to the stack at once.
    pub write_len: usize,
    /// Where sequence numbers and ports begin: better another one at each start.
    pub seed: u64,
}

/// The stack and its sockets.
pub(crate) struct Net<'a> {
    pub(crate) interface: Interface,
    pub(crate) sockets: SocketSet<'a>,
}

/// What a station does with its sockets.
enum Work {
    Server(Server),
    Stream(Stream),
    Requests(Requests),
    Datagrams(Datagrams),
}

/// An end station. See the head of this crate.
pub struct Station<'a, B> {
    net: Net<'a>,
    work: Work,
    lanes: Lanes<B>,
    tally: &'a StationTally,
    /// When it passed last.
    now: Instant,
    /// When it wants to pass although no frame comes.
    due: Option<Instant>,
}

impl<'a, B: Buffer> Station<'a, B> {
    /// A station that has sent nothing yet. `octets` are its sockets' buffers, at least
    /// [`LEAST_OCTETS`](crate::LEAST_OCTETS) and at most useful up to [`MOST_OCTETS`](crate::MOST_OCTETS). None if they
    /// are too few, or if the station has no address that a station can have.
    pub fn new<P: Platform<Buffer = B>>(
        orders: &Orders<'_>,
        (places, octets): (&'a mut Places<'a>, &'a mut [u8]),
        tally: &'a StationTally,
        platform: &mut P,
    ) -> Option<Self> {
        let now = instant(platform);
        let mut lanes = Lanes::new(orders.mtu.clamp(LEAST_MTU, LARGEST_MTU));
        let interface = interface(orders, &mut lanes.on(platform), now)?;
        let (sockets, mut buffers) = places.split(octets)?;
        let mut net = Net { interface, sockets: SocketSet::new(sockets) };
        let work = work(orders, &mut net.sockets, &mut buffers)?;
        Some(Self { net, work, lanes, tally, now, due: Some(now) })
    }

    /// One pass: what came, what the duty makes of it, what is to be sent. Returns frames of both directions: none while
    /// it waits for room in the ring, of which the platform knows ([`Platform::room`]).
    pub fn pass<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        discard_others(platform);
        self.now = instant(platform);
        if self.lanes.fill(platform) == 0 && self.due.is_none_or(|due| self.now < due) {
            return 0;
        }
        let mut wire = self.lanes.on(platform);
        let came = self.net.read(self.now, &mut wire);
        match &mut self.work {
            Work::Server(server) => server.work(&mut self.net, self.tally),
            Work::Stream(stream) => stream.work(&mut self.net, self.now, self.tally),
            Work::Requests(requests) => requests.work(&mut self.net, self.now, self.tally),
            Work::Datagrams(datagrams) => datagrams.work(&mut self.net, self.tally),
        }
        self.net.write(self.now, &mut wire);
        let frames = came + wire.sent();
        wire.finish();
        self.due = self.earliest();
        frames
    }

    /// Milliseconds until the station wants to pass although no frame comes; none: never.
    pub fn next_deadline(&self) -> Option<u64> {
        Some(self.due?.total_millis().saturating_sub(self.now.total_millis()).max(0) as u64)
    }

    fn earliest(&mut self) -> Option<Instant> {
        let stack = self.net.interface.poll_at(self.now, &self.net.sockets);
        let work = match &self.work {
            Work::Server(server) => server.due(&self.net),
            Work::Stream(stream) => stream.call().due(&self.net),
            Work::Requests(requests) => requests.call().due(&self.net),
            // It always has something to send, and waits only for room.
            Work::Datagrams(_) => Some(self.now),
        };
        match (stack, work) {
            (Some(stack), Some(work)) => Some(stack.min(work)),
            (stack, work) => stack.or(work),
        }
    }
}

impl Net<'_> {
    /// Hands what came to the stack; returns how many frames that was.
    fn read<P: Platform>(&mut self, now: Instant, wire: &mut Wire<'_, P>) -> usize {
        let unread = wire.unread();
        while self.interface.poll_ingress_single(now, wire, &mut self.sockets)
            != PollIngressSingleResult::None
        {}
        unread - wire.unread()
    }

    /// Lets the stack send until it has nothing more, there is no more room, or it is the next one's turn.
    fn write<P: Platform>(&mut self, now: Instant, wire: &mut Wire<'_, P>) {
        for _ in 0..ROUNDS {
            if self.interface.poll_egress(now, wire, &mut self.sockets) == PollResult::None {
                break;
            }
        }
    }
}

/// Smallest packet size that a station is content with (RFC 791: every one must be able to take 576 octets; that
/// much is not asked of a link).
pub(crate) const LEAST_MTU: usize = 128;

fn interface<P: Platform>(orders: &Orders<'_>, wire: &mut Wire<'_, P>, now: Instant) -> Option<Interface> {
    let mac = EthernetAddress(orders.mac.0);
    if !mac.is_unicast() {
        return None;
    }
    let mut config = Config::new(HardwareAddress::Ethernet(mac));
    config.random_seed = orders.seed;
    let mut interface = Interface::new(config, wire, now);
    interface.update_ip_addrs(|list| {
        for address in orders.addresses {
            let ip = IpAddress::Ipv4(Ipv4Address::from_bits(address.ip));
            if ip.is_unicast() && !list.is_full() {
                let _ = list.push(IpCidr::new(ip, address.prefix.min(32)));
            }
        }
    });
    (!interface.ip_addrs().is_empty()).then_some(interface)
}

fn work<'a>(orders: &Orders<'_>, sockets: &mut SocketSet<'a>, buffers: &mut Buffers<'a>) -> Option<Work> {
    Some(match orders.duty {
        Duty::Server => Work::Server(Server::new(sockets, buffers)?),
        Duty::TcpStream => Work::Stream(Stream::new(orders, sockets, buffers)?),
        Duty::TcpRequests => Work::Requests(Requests::new(orders, sockets, buffers)?),
        Duty::UdpStream => Work::Datagrams(Datagrams::new(orders, sockets, buffers)?),
    })
}

/// A station lives on NIC 0: what comes by another one is not for it.
fn discard_others<P: Platform>(platform: &mut P) {
    for nic in (0..platform.nics()).filter(|nic| *nic != NIC) {
        let mut burst = Burst::new();
        platform.receive(nic, &mut burst);
        burst.drain(..).for_each(|frame| platform.free(frame));
    }
}

fn instant<P: Platform>(platform: &P) -> Instant {
    Instant::from_millis(platform.now() as i64)
}
