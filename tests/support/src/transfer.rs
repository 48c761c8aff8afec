//! Transfer of octets from one namespace to another, each accounted for: in a stream, and in datagrams.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::Namespace;

/// Sends octets through a new connection and checks each at the other end.
///
/// # Panics
/// It does not connect, stalls for `patience`, or other octets arrive than were sent.
pub fn transfer(from: &Namespace, to: &Namespace, address: SocketAddr, octets: usize, patience: Duration) {
    let listener = to.inside(|| TcpListener::bind(address)).expect("inside").expect("bind");
    let receiver = thread::spawn(move || {
        let mut stream = listener.accept().expect("a connection").0;
        stream.set_read_timeout(Some(patience)).expect("a timeout");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("the stream goes on");
        all
    });
    let stream = from.inside(|| TcpStream::connect_timeout(&address, patience)).expect("inside");
    let mut stream = stream.expect("it connects");
    stream.set_write_timeout(Some(patience)).expect("a timeout");
    let sent: Vec<u8> = (0..octets).map(|at| (at % 251) as u8).collect();
    stream.write_all(&sent).expect("the stream goes on");
    drop(stream);
    assert!(receiver.join().expect("the receiver") == sent, "what came is not what was sent");
}

/// Opens a UDP socket in a namespace, at this port (0: any).
///
/// # Panics
/// It cannot be opened.
pub fn datagrams(namespace: &Namespace, port: u16, patience: Duration) -> UdpSocket {
    let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port));
    let socket = namespace.inside(bind).expect("inside").expect("bind");
    socket.set_read_timeout(Some(patience)).expect("a timeout");
    socket
}

/// Sends a datagram to `to`, where `at` receives it, and the same one back.
///
/// # Panics
/// One of them does not arrive, or arrives changed.
pub fn echo(from: &UdpSocket, at: &UdpSocket, to: SocketAddr, octets: usize) {
    let sent: Vec<u8> = (0..octets).map(|at| (at * 7 % 256) as u8).collect();
    let mut buffer = vec![0; 1 << 16];
    from.send_to(&sent, to).expect("sent");
    let (length, peer) = at.recv_from(&mut buffer).expect("it comes");
    assert!(buffer[..length] == sent[..]);
    at.send_to(&sent, peer).expect("sent back");
    let length = from.recv(&mut buffer).expect("it comes back");
    assert!(buffer[..length] == sent[..]);
}
