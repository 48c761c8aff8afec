//! Interfaces of one network namespace: their state, addresses, neighbours and routes, by the requests of
//! netdevice(7). IPv4 only: those requests know no IPv6.

mod counters;

use std::ffi::c_ulong;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

pub use counters::{LinkCounters, LinkTable};

use crate::Error;
use crate::request::{InterfaceRequest, Name, ioctl, sockaddr, socket_address};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Asks for an interface's index (netdevice(7)).
const SIOCGIFINDEX: c_ulong = 0x8933;

/// `ATF_COM | ATF_PERM` of `linux/if_arp.h`: complete, and never aged.
const PERMANENT: libc::c_int = 0x02 | 0x04;

/// The interfaces of the network namespace in which this was opened, wherever it is used afterwards.
#[derive(Debug)]
pub struct Links {
    socket: OwnedFd,
}

impl Links {
    /// The interfaces of the calling thread's namespace.
    pub fn here() -> Result<Self, Error> {
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map(|socket| Self { socket })
            .map_err(|errno| Error::system("opening a socket for interface requests", errno.into()))
    }

    /// Sets an interface up or down.
    pub fn set_up(&self, name: &str, up: bool) -> Result<(), Error> {
        let mut request = self.ask(name, libc::SIOCGIFFLAGS, &[], "reading the flags of")?;
        let flags = u16::from_ne_bytes([request.value[0], request.value[1]]);
        let bit = libc::IFF_UP as u16;
        let flags = if up { flags | bit } else { flags & !bit };
        request.value[..2].copy_from_slice(&flags.to_ne_bytes());
        request
            .send(self.socket.as_fd(), libc::SIOCSIFFLAGS)
            .map_err(|e| Error::system(format!("setting `{name}` {}", if up { "up" } else { "down" }), e))
    }

    /// Sets the largest IP packet, in octets.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), Error> {
        self.ask(name, libc::SIOCSIFMTU, &mtu.to_ne_bytes(), "setting the MTU of").map(drop)
    }

    /// The largest IP packet, in octets.
    pub fn mtu(&self, name: &str) -> Result<u32, Error> {
        let [a, b, c, d, ..] = self.ask(name, libc::SIOCGIFMTU, &[], "reading the MTU of")?.value;
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }

    /// Sets the Ethernet address.
    pub fn set_mac(&self, name: &str, mac: Mac) -> Result<(), Error> {
        self.ask(name, libc::SIOCSIFHWADDR, &hardware_address(mac), "setting the Ethernet address of")
            .map(drop)
    }

    /// The Ethernet address.
    pub fn mac(&self, name: &str) -> Result<Mac, Error> {
        let value = self.ask(name, libc::SIOCGIFHWADDR, &[], "reading the Ethernet address of")?.value;
        let mut mac = [0; 6];
        mac.copy_from_slice(&value[2..8]);
        Ok(mac)
    }

    /// Sets how many frames wait in the kernel for the device (on a TAP: for its reader).
    pub fn set_queue_len(&self, name: &str, frames: u32) -> Result<(), Error> {
        self.ask(name, libc::SIOCSIFTXQLEN, &frames.to_ne_bytes(), "setting the queue length of").map(drop)
    }

    /// Gives the interface its one IPv4 address; the kernel adds the route to the network by itself.
    pub fn set_address(&self, name: &str, ip: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let mask = mask(prefix)?;
        self.ask(name, libc::SIOCSIFADDR, &socket_address(ip), "setting the address of")?;
        self.ask(name, libc::SIOCSIFNETMASK, &socket_address(mask), "setting the netmask of").map(drop)
    }

    /// Whether somebody is at the other end of its cable: it is up and has a carrier.
    pub fn is_running(&self, name: &str) -> Result<bool, Error> {
        let value = self.ask(name, libc::SIOCGIFFLAGS, &[], "reading the flags of")?.value;
        let both = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
        Ok(u16::from_ne_bytes([value[0], value[1]]) & both == both)
    }

    /// Adds a neighbour that needs no ARP.
    pub fn add_neighbour(&self, name: &str, ip: Ipv4Addr, mac: Mac) -> Result<(), Error> {
        let mut request = libc::arpreq {
            arp_pa: sockaddr(socket_address(ip)),
            arp_ha: sockaddr(hardware_address(mac)),
            arp_flags: PERMANENT,
            arp_netmask: sockaddr([0; 16]),
            arp_dev: Name::new(name)?.0.map(|c| c as libc::c_char),
        };
        // SAFETY: SIOCSARP reads a `struct arpreq`, which holds no pointer.
        unsafe { ioctl(self.socket.as_fd(), libc::SIOCSARP, &mut request) }
            .map_err(|e| Error::system(format!("adding the neighbour {ip} on `{name}`"), e))
    }

    /// Adds a route through a gateway that lies on a connected network.
    pub fn add_route(&self, to: Ipv4Addr, prefix: u8, via: Ipv4Addr) -> Result<(), Error> {
        let mut request = libc::rtentry {
            rt_pad1: 0,
            rt_dst: sockaddr(socket_address(to)),
            rt_gateway: sockaddr(socket_address(via)),
            rt_genmask: sockaddr(socket_address(mask(prefix)?)),
            rt_flags: libc::RTF_UP | libc::RTF_GATEWAY,
            rt_pad2: 0,
            rt_pad3: 0,
            rt_tos: 0,
            rt_class: 0,
            rt_pad4: [0; 3],
            rt_metric: 0,
            rt_dev: std::ptr::null_mut(),
            rt_mtu: 0,
            rt_window: 0,
            rt_irtt: 0,
        };
        // SAFETY: SIOCADDRT reads a `struct rtentry`; its one pointer is null, which means "any device".
        unsafe { ioctl(self.socket.as_fd(), libc::SIOCADDRT, &mut request) }
            .map_err(|e| Error::system(format!("adding the route {to}/{prefix} via {via}"), e))
    }

    /// The number by which the kernel knows the interface.
    pub fn index(&self, name: &str) -> Result<u32, Error> {
        let [a, b, c, d, ..] = self.ask(name, SIOCGIFINDEX, &[], "looking for")?.value;
        Ok(u32::from_ne_bytes([a, b, c, d]))
    }

    /// Whether the namespace has an interface of this name.
    pub fn exists(&self, name: &str) -> Result<bool, Error> {
        match self.ask(name, libc::SIOCGIFFLAGS, &[], "looking for") {
            Ok(_) => Ok(true),
            Err(Error::NoInterface { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn ask(
        &self,
        name: &str,
        request: c_ulong,
        value: &[u8],
        doing: &str,
    ) -> Result<InterfaceRequest, Error> {
        let mut asked = InterfaceRequest::new(Name::new(name)?, value);
        asked
            .send(self.socket.as_fd(), request)
            .map_err(|e| Error::system(format!("{doing} `{name}`"), e))
            .map(|()| asked)
    }
}

/// The octets of a `struct sockaddr` with an Ethernet address.
fn hardware_address(mac: Mac) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..2].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
    octets[2..8].copy_from_slice(&mac);
    octets
}

fn mask(prefix: u8) -> Result<Ipv4Addr, Error> {
    match prefix {
        0 => Ok(Ipv4Addr::UNSPECIFIED),
        1..=32 => Ok(Ipv4Addr::from(u32::MAX << (32 - u32::from(prefix)))),
        _ => Err(Error::Range { what: "a prefix length", found: prefix.into(), expected: "0 to 32" }),
    }
}

#[cfg(test)]
mod tests;
