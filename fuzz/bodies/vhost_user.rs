//! A vhost-user peer that sends arbitrary data, in arbitrary pieces and with arbitrary descriptors: each message is
//! executed or the connection is closed, its rings are served meanwhile without harm, and nothing of it is left.
//!
//! The input is a list of steps, each of two octets and the data that follows: the kind and number of descriptors, and the
//! number of octets sent. The peer's memory contains the input itself, so that the rings are under the fuzzer's control,
//! too.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nic_port::NicQueues;
use port::Frame;
use ring::Bytes;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::SendFlags;
use vhost_user::backend::message::{MessageStream, ReadResult};
use vhost_user::backend::{Offer, Session};

/// Size of the peer's memory in octets.
const MEMORY: usize = 0x8000;

/// Resources of a peer.
struct Peer {
    socket: UnixStream,
    memory: OwnedFd,
    event: OwnedFd,
    pipe: OwnedFd,
}

impl Peer {
    fn new(socket: UnixStream, content: &[u8]) -> Self {
        let memory = memfd_create("peer", MemfdFlags::CLOEXEC).expect("a descriptor");
        let mut file = File::from(memory);
        file.write_all(&content[..content.len().min(MEMORY)]).expect("room");
        file.set_len(MEMORY as u64).expect("a size");
        let event = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let (pipe, _) = rustix::pipe::pipe().expect("a pipe");
        Self { socket, memory: file.into(), event, pipe }
    }

    /// Sends octets, with `count` descriptors of a kind.
    fn send(&self, octets: &[u8], kind: u8, count: usize) {
        let one = match kind {
            0 => &self.event,
            1 => &self.memory,
            2 => &self.pipe,
            _ => {
                // This is permanent.
                let _ = rustix::fs::ftruncate(&self.memory, 0);
                return;
            }
        };
        let _ = fd_passing::send(&self.socket, octets, &vec![one; count], SendFlags::DONTWAIT);
    }
}

/// Moves a burst in each direction through the rings that are served.
fn serve(queues: &std::sync::Arc<NicQueues>) {
    queues.source().drain(64, &mut |frames| assert!(frames.iter().all(|frame| frame.len() >= 14)));
    let mut octets = [0x5a; 100];
    let frame = Frame::new(Bytes::from_slice(&mut octets));
    queues.sink().deliver(&[frame; 2]);
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let (near, far) = UnixStream::pair().expect("a pair");
    let (peer, mut line) = (Peer::new(near, input), MessageStream::new(far));
    let queues = NicQueues::foreign(2).expect("descriptors");
    let offer = Offer { pairs: 2, longest: 1518, offload: true, memory_max: 64 << 30 };
    let mut session = Session::new(queues.clone(), offer);
    let mut rest = input;
    while let [how, len, octets @ ..] = rest {
        let (octets, more) = octets.split_at(octets.len().min(usize::from(*len)));
        rest = more;
        peer.send(octets, how & 3, usize::from(how >> 2).min(40));
        loop {
            let message = match line.read_message() {
                Ok(ReadResult::Message(message)) => message,
                Ok(ReadResult::Nothing) => break,
                Ok(ReadResult::End) | Err(_) => return,
            };
            match session.handle(message) {
                Ok(Some(answer)) if line.send_reply(&answer).is_err() => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
        serve(&queues);
        if session.look().is_err() {
            break;
        }
    }
    drop(session);
    assert!(queues.rx_broken().is_none() && queues.tx_broken().is_none(), "nothing of it is left");
    serve(&queues);
}
