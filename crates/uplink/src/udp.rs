//! Options of the kernel's UDP sockets that the standard library does not offer.

use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::Error;
use crate::request::set_option;

/// Enables UDP GSO: the kernel accepts one send as one packet, which is segmented into datagrams of `payload`
/// octets each, as late as possible (UDP_SEGMENT, udp(7); Linux 4.18).
///
/// # Errors
/// The kernel does not support it.
pub fn segment(socket: &UdpSocket, payload: u16) -> Result<(), Error> {
    set_option(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, &libc::c_int::from(payload))
        .map_err(|e| Error::system("leaving the cutting of UDP packets to the kernel", e))
}

/// `SO_MEMINFO` of `asm-generic/socket.h`: the octets that wait to be received, their limit, and more numbers of 32 bits.
const MEMINFO: libc::c_int = 55;

/// Returns true if half of a socket's receive buffer is in use, or more; false if the kernel does not say (Linux 4.12).
pub fn is_half_full(socket: BorrowedFd<'_>) -> bool {
    let (mut found, mut len) = ([0_u32; 2], size_of::<[u32; 2]>() as libc::socklen_t);
    let (fd, value) = (socket.as_raw_fd(), (&raw mut found).cast());
    // SAFETY: the kernel writes at most `len` octets there, which are numbers, and the length before the call returns.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, MEMINFO, value, &raw mut len) };
    let [used, limit] = found;
    done == 0 && limit > 0 && used >= limit / 2
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_sent_at_once_arrives_in_datagrams_of_that_size() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        segment(&sender, 1000).unwrap();
        assert_eq!(sender.send(&[7; 2500]).unwrap(), 2500);
        let mut octets = [0; 4096];
        let came = [(); 3].map(|()| receiver.recv(&mut octets).unwrap());
        assert_eq!(came, [1000, 1000, 500]);
    }

    #[test]
    fn a_socket_that_is_not_read_fills_up() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 1 << 16).unwrap();
        assert!(!is_half_full(receiver.as_fd()));
        (0..500).for_each(|_| assert_eq!(sender.send(&[7; 1000]).unwrap(), 1000));
        assert!(is_half_full(receiver.as_fd()));
        receiver.set_nonblocking(true).unwrap();
        while receiver.recv(&mut [0; 1000]).is_ok() {}
        assert!(!is_half_full(receiver.as_fd()));
    }
}
