//! A stream of octets from one namespace to another, each accounted for.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::Namespace;

/// Sends octets through a new connection and checks each at the other end.
///
/// # Panics
/// If it does not connect, stands still for `patience`, or something else arrives than was sent.
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
