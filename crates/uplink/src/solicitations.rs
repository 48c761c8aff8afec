//! Socket of a router that advertises itself on a link (RFC 4861, 6.2): it hears router solicitations and nothing else, and sends
//! advertisements. Packets that are forwarded do not pass it.

use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use frame::{ipv6, nd};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, bind, ipproto, sendto, socket_with, sockopt,
};

use crate::datagrams::{Origin, receive};
use crate::request::set_option;

/// Option of ICMPv6 sockets: a bit for each type, set if such messages are not received (`ICMPV6_FILTER` of `linux/icmpv6.h`).
const FILTER: libc::c_int = 1;
/// Hop limit of neighbour discovery.
const HOPS: u8 = 255;

/// Socket for the solicitations of one link.
#[derive(Debug)]
pub struct RouterSolicitations {
    socket: OwnedFd,
    index: u32,
}

impl RouterSolicitations {
    /// Hears solicitations that arrive at the interface with this index, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// There is no such interface, the kernel has no IPv6, the caller may not open raw sockets, or no descriptors are left.
    pub fn open(index: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET6, SocketType::RAW, flags, Some(ipproto::ICMPV6))?;
        // What arrived before there was a filter is of other interfaces or types, and is read as such.
        set_option(socket.as_fd(), libc::IPPROTO_ICMPV6, FILTER, &only(nd::ROUTER_SOLICIT))?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &index.cast_signed())?;
        let on: libc::c_int = 1;
        set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &on)?;
        set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &on)?;
        sockopt::set_ipv6_unicast_hops(&socket, Some(HOPS))?;
        sockopt::set_ipv6_multicast_hops(&socket, HOPS.into())?;
        sockopt::set_ipv6_multicast_loop(&socket, false)?;
        sockopt::set_ipv6_add_membership(&socket, &Ipv6Addr::from(ipv6::ALL_ROUTERS), index)?;
        Ok(Self { socket, index })
    }

    /// Receives an ICMPv6 message, if there is one, as [`crate::datagrams::Datagrams::receive`] does.
    ///
    /// # Errors
    /// `WouldBlock`: there is none.
    pub fn receive(&self, octets: &mut [u8]) -> io::Result<(usize, Option<Origin>)> {
        receive(self.socket.as_fd(), octets)
    }

    /// Sends an ICMPv6 message from an address of the interface; the kernel writes its checksum. It never blocks.
    ///
    /// # Errors
    /// `AddrNotAvailable`: the interface does not have the address, or it is not confirmed yet (RFC 4862).
    pub fn send(&self, (from, to): (Ipv6Addr, Ipv6Addr), message: &[u8]) -> io::Result<()> {
        // The kernel refuses an address that is not confirmed here, not when it sends.
        bind(&self.socket, &SocketAddrV6::new(from, 0, 0, self.index))?;
        sendto(&self.socket, message, SendFlags::DONTWAIT, &SocketAddrV6::new(to, 0, 0, self.index))?;
        Ok(())
    }
}

impl AsFd for RouterSolicitations {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Filter that passes messages of one type.
fn only(kind: u8) -> [u32; 8] {
    let mut refused = [u32::MAX; 8];
    refused[usize::from(kind / 32)] &= !(1 << (kind % 32));
    refused
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use frame::icmpv6::ECHO_REQUEST;
    use netlink::Netlink;
    use support::Namespace;

    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const HOST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    const EVERY_ROUTER: Ipv6Addr = Ipv6Addr::from_bits(ipv6::ALL_ROUTERS);

    /// Tries again for ten seconds: `None` is not there yet.
    fn soon<T>(mut look: impl FnMut() -> Option<T>) -> T {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < end, "it does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// An ICMPv6 message of this type without options.
    fn message(kind: u8) -> [u8; 8] {
        [kind, 0, 0, 0, 0, 0, 0, 0]
    }

    fn open(place: &Namespace, link: &str) -> (u32, RouterSolicitations) {
        let opened = place.inside(|| {
            let index = Netlink::open()?.link(link)?.index;
            Ok::<_, io::Error>((index, RouterSolicitations::open(index)?))
        });
        opened.expect("inside").expect("a socket")
    }

    #[test]
    fn the_filter_passes_one_type() {
        let bits = only(nd::ROUTER_SOLICIT).map(u32::count_zeros);
        assert_eq!(bits, [0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(only(nd::ROUTER_SOLICIT)[4], !(1 << 5));
    }

    #[test]
    fn it_hears_solicitations_of_its_link_and_sends_from_confirmed_addresses() {
        support::needs!(Root, Program("ip"));
        let place = Namespace::add("rr-solicits").expect("a namespace");
        place.ip(&["link", "add", "router", "type", "veth", "peer", "name", "host"]).expect("a pair");
        for (link, own) in [("router", ROUTER), ("host", HOST)] {
            place.ip(&["link", "set", link, "up"]).expect("up");
            place.ip(&["address", "add", &format!("{own}/64"), "dev", link, "nodad"]).expect("an address");
        }
        let (index, router) = open(&place, "router");
        let (_, host) = open(&place, "host");
        let say = |kind| host.send((HOST, EVERY_ROUTER), &message(kind)).ok();
        soon(|| say(ECHO_REQUEST));
        soon(|| say(nd::ROUTER_SOLICIT));
        let mut octets = [0; 64];
        // The host's kernel asks by itself too, and tells its Ethernet address.
        let (len, origin) = soon(|| router.receive(&mut octets).ok().filter(|(len, _)| *len == 8));
        assert_eq!((len, octets[0]), (8, nd::ROUTER_SOLICIT), "the echo request is not for it");
        let expected = Origin { source: HOST.into(), destination: EVERY_ROUTER.into(), index, ttl: HOPS };
        assert_eq!(origin, Some(expected));
        let refused =
            router.send((HOST, EVERY_ROUTER), &message(nd::ROUTER_ADVERT)).expect_err("not its own");
        assert_eq!(refused.kind(), io::ErrorKind::AddrNotAvailable);
    }
}
