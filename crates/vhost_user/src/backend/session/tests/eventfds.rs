//! Event descriptors of a peer: what is refused, and what may block us.

use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vmm_sys_util::aio::{IOCB_CMD_PREAD, IOCB_FLAG_RESFD, IoContext, IoControlBlock};

use super::*;

#[test]
fn what_is_no_eventfd_rings_nothing() {
    let mut peer = Peer::new();
    let (pipe, _far) = rustix::pipe::pipe().expect("a pipe");
    let (_near, end) = rustix::pipe::pipe().expect("a pipe");
    let epoll =
        rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).expect("a descriptor");
    let full = event();
    rustix::io::write(&full, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
    for fd in [again(&peer.file), pipe, end, epoll, full] {
        for request in [FrontendReq::SET_VRING_CALL, FrontendReq::SET_VRING_KICK] {
            let fault = peer.send(request, &0u64.to_le_bytes(), again(&fd)).expect_err("it is none");
            assert!(matches!(fault, Fault::Bells { ring: 0, .. }), "{fault}");
            assert_eq!(fault.to_string(), "ring 0: its descriptor is no eventfd, or is full");
        }
    }
}

/// Writes can take a counter only to one below its maximum; the kernel itself goes beyond. Then even a write
/// of 0 waits.
#[test]
fn an_eventfd_at_its_maximum_is_refused_and_waited_for_by_no_thread() {
    let mut peer = Peer::new();
    // Without O_NONBLOCK.
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
    let Ok(context) = IoContext::new(1) else {
        println!("SKIPPED: this kernel has no asynchronous I/O (io_setup)");
        return;
    };
    let mut octets = [0u8; 8];
    let mut read = IoControlBlock {
        aio_lio_opcode: IOCB_CMD_PREAD as u16,
        aio_fildes: peer.file.as_raw_fd() as u32,
        aio_buf: octets.as_mut_ptr() as u64,
        aio_nbytes: octets.len() as u64,
        aio_flags: IOCB_FLAG_RESFD,
        aio_resfd: event.as_raw_fd() as u32,
        ..IoControlBlock::default()
    };
    assert_eq!(context.submit(&[&mut read]).expect("memory is read"), 1);
    let mut fds = [PollFd::new(&event, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).expect("the read ends");
    assert_eq!(fds[0].revents(), PollFlags::ERR, "it is at its maximum");
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for request in [FrontendReq::SET_VRING_CALL, FrontendReq::SET_VRING_KICK] {
            let refused = peer.send(request, &0u64.to_le_bytes(), again(&event));
            let _ = tell.send(refused.expect_err("it is full").to_string());
        }
    });
    for _ in 0..2 {
        let line = told.recv_timeout(Duration::from_secs(60)).expect("no thread waits");
        assert_eq!(line, "ring 0: its descriptor is no eventfd, or is full");
    }
}

/// A peer that clears O_NONBLOCK and fills the counter of its call eventfd, after it was accepted.
#[test]
fn a_peer_that_makes_us_wait_is_found_out() {
    let mut peer = Peer::new();
    peer.agree(PLAIN);
    peer.share();
    peer.lay_out(0);
    peer.enable(0);
    let mut place = slots();
    let mut driver = driver(&peer, 0, &mut place);
    assert!(driver.push(1, BUFFERS, 2048, true));
    driver.publish();
    let call = peer.calls.last().expect("a call");
    rustix::fs::fcntl_setfl(call, rustix::fs::OFlags::empty()).expect("it is the peer's");
    let _ = rustix::io::read(call, &mut [0; 8]);
    rustix::io::write(call, &(u64::MAX - 1).to_ne_bytes()).expect("it has room");
    peer.session.look().expect("nobody waits yet");
    let (queues, sink) = (peer.session.queues.clone(), peer.session.queues.sink());
    let server = std::thread::spawn(move || {
        let mut octets = [7; 60];
        sink.deliver(&[Frame::new(ring::Bytes::from_slice(&mut octets))])
    });
    while !server.is_finished() {
        queues.interrupt_blocked_writers();
        // A thread to which signals are sent without a pause gets no further than its handler.
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.join().expect("no panic"), 1);
    assert!(matches!(peer.session.look(), Err(Fault::Waited)));
}
