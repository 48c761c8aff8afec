//! Options of the kernel's UDP sockets that the standard library does not offer.

use std::net::UdpSocket;
use std::os::fd::AsFd;

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
}
