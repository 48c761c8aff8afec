//! What the kernel's own UDP sockets are to do that the standard library cannot say.

use std::net::UdpSocket;
use std::os::fd::AsFd;

use crate::Error;
use crate::request::set_option;

/// Has the kernel take what is sent by this socket at once as one packet, which becomes datagrams of `payload` octets each
/// where nobody behind takes it as it is (UDP_SEGMENT, udp(7); Linux 4.18).
///
/// # Errors
/// The kernel cannot.
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
