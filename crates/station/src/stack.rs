//! The stack, its sockets, and one pass over both.

use bootinfo::Station as Duty;
use frame::Mac;
use ledger::StationTally;
use router::{Address, Buffer, Burst, Platform};
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, Ipv4Address};

use crate::client::{Datagrams, Requests, Stream};
use crate::memory::{Buffers, SocketMemory};
use crate::server::Server;
use crate::wire::{FrameBuffers, LARGEST_MTU, NIC, Wire};

/// Maximum number of rounds in which the stack may send in one pass; in each, a socket sends at most one frame.
const ROUNDS: usize = 256;

/// Configuration of a station.
#[derive(Clone, Copy, Debug)]
pub struct StationConfig<'o> {
    /// Duty of the station.
    pub duty: Duty,
    /// Ethernet address; not a group address.
    pub mac: Mac,
    /// Maximum length of an IP packet in octets; more than 1500 count as 1500.
    pub mtu: usize,
    /// Its addresses, at least one; invalid ones are ignored, and so are those beyond eight.
    pub addresses: &'o [Address],
    /// Address of the server that a client contacts: a neighbour, in host byte order.
    pub to_ip: u32,
    /// Octets that a client hands to the stack at once.
    pub write_len: usize,
    /// Seed of sequence numbers and ports: should differ at each start.
    pub seed: u64,
}

/// The stack and its sockets.
pub(crate) struct Stack<'a> {
    pub(crate) interface: Interface,
    pub(crate) sockets: SocketSet<'a>,
}

/// Duty of a station, with its state.
enum Work {
    Server(Server),
    Stream(Stream),
    Requests(Requests),
    Datagrams(Datagrams),
}

/// An end station. See the documentation of this crate.
pub struct Station<'a, B> {
    net: Stack<'a>,
    work: Work,
    lanes: FrameBuffers<B>,
    tally: &'a StationTally,
    /// Time of the last pass.
    now: Instant,
    /// Time of the next pass that is needed even if no frame arrives.
    due: Option<Instant>,
}

impl<'a, B: Buffer> Station<'a, B> {
    /// Creates a station that has sent no frame yet. `octets` is the memory for its sockets' buffers: at least
    /// [`LEAST_OCTETS`](crate::LEAST_OCTETS); more than [`MOST_OCTETS`](crate::MOST_OCTETS) is not used. `None` if they
    /// are too few, or if the station has no valid address.
    pub fn new<P: Platform<Buffer = B>>(
        orders: &StationConfig<'_>,
        (places, octets): (&'a mut SocketMemory<'a>, &'a mut [u8]),
        tally: &'a StationTally,
        platform: &mut P,
    ) -> Option<Self> {
        let now = instant(platform);
        let mut lanes = FrameBuffers::new(orders.mtu.clamp(LEAST_MTU, LARGEST_MTU));
        let interface = interface(orders, &mut lanes.on(platform), now)?;
        let (sockets, mut buffers) = places.split(octets)?;
        let mut net = Stack { interface, sockets: SocketSet::new(sockets) };
        let work = work(orders, &mut net.sockets, &mut buffers)?;
        Some(Self { net, work, lanes, tally, now, due: Some(now) })
    }

    /// Makes one pass: hands received frames to the stack, runs the duty, sends. Returns the frames of both directions:
    /// none while it waits for room in the ring, which the platform reports ([`Platform::room`]).
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

    /// Returns the milliseconds until the next pass that is needed even if no frame arrives; `None`: never.
    pub fn next_deadline(&self) -> Option<u64> {
        Some(self.due?.total_millis().saturating_sub(self.now.total_millis()).max(0) as u64)
    }

    fn earliest(&mut self) -> Option<Instant> {
        let stack = self.net.interface.poll_at(self.now, &self.net.sockets);
        let work = match &self.work {
            Work::Server(server) => server.due(&self.net),
            Work::Stream(stream) => stream.call().due(&self.net),
            Work::Requests(requests) => requests.call().due(&self.net),
            // It always has data to send, and waits only for room.
            Work::Datagrams(_) => Some(self.now),
        };
        match (stack, work) {
            (Some(stack), Some(work)) => Some(stack.min(work)),
            (stack, work) => stack.or(work),
        }
    }
}

impl Stack<'_> {
    /// Hands received frames to the stack; returns how many.
    fn read<P: Platform>(&mut self, now: Instant, wire: &mut Wire<'_, P>) -> usize {
        let unread = wire.unread();
        while self.interface.poll_ingress_single(now, wire, &mut self.sockets)
            != PollIngressSingleResult::None
        {}
        unread - wire.unread()
    }

    /// Lets the stack send until it has no more data, there is no more room, or it has used up its rounds.
    fn write<P: Platform>(&mut self, now: Instant, wire: &mut Wire<'_, P>) {
        for _ in 0..ROUNDS {
            if self.interface.poll_egress(now, wire, &mut self.sockets) == PollResult::None {
                break;
            }
        }
    }
}

/// Minimum MTU that a station accepts (RFC 791: every host must be able to receive 576 octets; a link need not have
/// that MTU).
pub(crate) const LEAST_MTU: usize = 128;

fn interface<P: Platform>(
    orders: &StationConfig<'_>,
    wire: &mut Wire<'_, P>,
    now: Instant,
) -> Option<Interface> {
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

fn work<'a>(
    orders: &StationConfig<'_>,
    sockets: &mut SocketSet<'a>,
    buffers: &mut Buffers<'a>,
) -> Option<Work> {
    Some(match orders.duty {
        Duty::Server => Work::Server(Server::new(sockets, buffers)?),
        Duty::TcpStream => Work::Stream(Stream::new(orders, sockets, buffers)?),
        Duty::TcpRequests => Work::Requests(Requests::new(orders, sockets, buffers)?),
        Duty::UdpStream => Work::Datagrams(Datagrams::new(orders, sockets, buffers)?),
    })
}

/// Discards frames of all NICs but NIC 0, which is the only one that a station uses.
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
