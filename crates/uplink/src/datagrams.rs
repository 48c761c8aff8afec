//! UDP sockets for protocols that look at the IP header: of each datagram they tell where it was sent to, by which interface it
//! came, and with which time to live.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

use crate::request::set_option;

/// Octets of the longest address (`struct sockaddr_in6`).
const NAME: usize = 28;
/// Octets for control messages: an address, an interface and a time to live take less than 80.
const CONTROL: usize = 128;
/// Octets of the header of a control message (`struct cmsghdr`).
const MESSAGE: usize = 16;
/// Class of routing protocols in the kernel and on the way (class selector 6).
const CLASS: u8 = 0xc0;

const _: () = assert!(size_of::<libc::cmsghdr>() == MESSAGE && size_of::<libc::sockaddr_in6>() == NAME);

/// Socket that receives.
#[derive(Debug)]
pub struct Datagrams(OwnedFd);

/// Where a datagram comes from, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Index of the interface.
    pub index: u32,
    /// Time to live, or hop limit.
    pub ttl: u8,
}

impl Datagrams {
    /// Receives datagrams for a port of all addresses of one family.
    ///
    /// # Errors
    /// The port is in use, or no descriptors are left.
    pub fn open(port: u16, is_ipv6: bool) -> io::Result<Self> {
        let (family, any) = if is_ipv6 {
            (AddressFamily::INET6, IpAddr::V6(Ipv6Addr::UNSPECIFIED))
        } else {
            (AddressFamily::INET, IpAddr::V4(Ipv4Addr::UNSPECIFIED))
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        let on: libc::c_int = 1;
        if is_ipv6 {
            sockopt::set_ipv6_v6only(&socket, true)?;
            set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, &on)?;
            set_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &on)?;
        } else {
            set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_PKTINFO, &on)?;
            set_option(socket.as_fd(), libc::IPPROTO_IP, libc::IP_RECVTTL, &on)?;
        }
        bind(&socket, &SocketAddr::new(any, port))?;
        Ok(Self(socket))
    }

    /// Receives a datagram, if there is one. What does not fit into `octets` is lost. `None`: the kernel did not say where it
    /// comes from.
    ///
    /// # Errors
    /// `WouldBlock`: there is none.
    pub fn receive(&self, octets: &mut [u8]) -> io::Result<(usize, Option<Origin>)> {
        receive(self.as_fd(), octets)
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Socket that sends from an address and port with this time to live, in the class of routing protocols. It never blocks.
///
/// # Errors
/// The address is not one of the namespace, the port is in use, or no descriptors are left.
pub fn sender(from: SocketAddr, ttl: u8) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(from)?;
    socket.set_nonblocking(true)?;
    if from.is_ipv4() {
        sockopt::set_ip_ttl(&socket, ttl.into())?;
        sockopt::set_ip_tos(&socket, CLASS)?;
    } else {
        sockopt::set_ipv6_unicast_hops(&socket, Some(ttl))?;
        sockopt::set_ipv6_tclass(&socket, CLASS.into())?;
    }
    Ok(socket)
}

/// Receives a datagram from a socket whose options ask for these control messages, as [`Datagrams::receive`] does.
pub(crate) fn receive(socket: BorrowedFd<'_>, octets: &mut [u8]) -> io::Result<(usize, Option<Origin>)> {
    let (mut name, mut control) = ([0_u8; NAME], [0_u8; CONTROL]);
    let mut part = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
    // SAFETY: a header of null pointers and zero lengths is one without name, parts and control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_name, header.msg_namelen) = (name.as_mut_ptr().cast(), NAME as libc::socklen_t);
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), CONTROL);
    // SAFETY: the name, the part with its octets and the control data live until the call returns, are
    // borrowed by nobody else, and are as long as the header says.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    Ok((len, origin(&name, &control[..header.msg_controllen.min(CONTROL)])))
}

fn origin(name: &[u8; NAME], control: &[u8]) -> Option<Origin> {
    let (source, mut destination, mut index, mut ttl) = (source(name)?, None, 0, 0);
    for (level, kind, data) in messages(control) {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                index = word(data, 0)?;
                destination = Some(IpAddr::from(*data.get(8..)?.first_chunk::<4>()?));
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                destination = Some(IpAddr::from(*data.first_chunk::<16>()?));
                index = word(data, 16)?;
            }
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                ttl = u8::try_from(word(data, 0)?).ok()?;
            }
            _ => {}
        }
    }
    Some(Origin { source, destination: destination?, index, ttl })
}

/// Address of a `struct sockaddr_in` or `sockaddr_in6`.
fn source(name: &[u8; NAME]) -> Option<IpAddr> {
    match libc::c_int::from(u16::from_ne_bytes([name[0], name[1]])) {
        libc::AF_INET => Some(IpAddr::from(*name[4..].first_chunk::<4>()?)),
        libc::AF_INET6 => Some(IpAddr::from(*name[8..].first_chunk::<16>()?)),
        _ => None,
    }
}

/// Control messages: level, kind, data.
fn messages(control: &[u8]) -> impl Iterator<Item = (i32, i32, &[u8])> {
    let mut rest = control;
    std::iter::from_fn(move || {
        let len = usize::from_ne_bytes(*rest.first_chunk()?);
        let message = rest.get(..len).filter(|message| message.len() >= MESSAGE)?;
        rest = rest.get(len.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
        let [level, kind] = [8, 12].map(|at| word(message, at).map(u32::cast_signed));
        Some((level?, kind?, &message[MESSAGE..]))
    })
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rustix::net::getsockname;

    use super::*;

    /// Receives within ten seconds.
    fn received(datagrams: &Datagrams) -> (Vec<u8>, Origin) {
        let (end, mut octets) = (Instant::now() + Duration::from_secs(10), [0; 64]);
        loop {
            match datagrams.receive(&mut octets) {
                Ok((len, origin)) => return (octets[..len].to_vec(), origin.expect("its header")),
                Err(error) => assert!(error.kind() == io::ErrorKind::WouldBlock, "{error}"),
            }
            assert!(Instant::now() < end, "nothing came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_datagram_comes_with_what_its_header_says() {
        for (loopback, is_ipv6) in
            [(IpAddr::from(Ipv4Addr::LOCALHOST), false), (IpAddr::from(Ipv6Addr::LOCALHOST), true)]
        {
            let datagrams = Datagrams::open(0, is_ipv6).expect("a socket");
            let bound = getsockname(&datagrams.0).expect("bound").try_into();
            let port = SocketAddr::port(&bound.expect("an address"));
            let sender = sender(SocketAddr::new(loopback, 0), 255).expect("a socket");
            sender.send_to(&[7; 24], (loopback, port)).expect("sent");
            let (octets, origin) = received(&datagrams);
            assert_eq!(octets, [7; 24]);
            assert_eq!(origin, Origin { source: loopback, destination: loopback, index: 1, ttl: 255 });
        }
    }

    #[test]
    fn control_data_that_is_cut_off_ends_the_messages() {
        let len = 20_usize.to_ne_bytes();
        let whole = [&len[..], &0_i32.to_ne_bytes(), &2_i32.to_ne_bytes(), &255_i32.to_ne_bytes()].concat();
        assert_eq!(messages(&whole).count(), 1);
        assert_eq!(messages(&whole[..19]).count(), 0);
        assert_eq!(messages(&[0; 16]).count(), 0);
    }
}
