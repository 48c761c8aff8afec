//! The tunnel in the conformance suite that every port passes, and conditions that only a tunnel has to
//! withstand. The other end is a UDP socket of the kernel.

use std::net::Ipv4Addr;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU8, AtomicUsize};
use std::time::{Duration, Instant};

use conformance::{SinkBench, SourceBench, check_sink, check_source};
use port::{Offload, pump};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType, ipproto, sendto};

use super::*;
use crate::Attach;
use crate::requirements::tests::{served, wanted};

/// Time limit of every wait, even on a busy host. Each wait ends as soon as its condition holds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Port of the tunnel's own end, below those that the kernel gives away.
const NEAR: u16 = 4790;
/// More octets than all frames of a check occupy in the kernel.
const ROOM: usize = 32 << 20;

/// Returns true if this host grants a socket the receive buffer that the suite needs; otherwise prints why
/// not.
fn has_room() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("SKIPPED: needs root");
    }
    is_root
}

/// Returns a loopback address that no other test uses.
fn address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    Ipv4Addr::new(127, 0, 1, NEXT.fetch_add(1, Ordering::Relaxed))
}

fn socket() -> UdpSocket {
    UdpSocket::bind((address(), 0)).expect("a socket")
}

/// A tunnel to a UDP socket.
struct Bench {
    far: UdpSocket,
    source: Box<dyn Source>,
    sink: Arc<dyn Sink>,
    control: Arc<dyn Sink>,
    outside: Outside,
}

impl Bench {
    fn new() -> Self {
        Self::of(NicRequirements { queue_len: 8192, ..wanted("null") })
    }

    /// One whose frames leave by the way of a control plane.
    fn of_control() -> Self {
        let bench = Self::new();
        Self { sink: bench.control.clone(), ..bench }
    }

    /// That of a NIC with these requirements, but for the attachment.
    fn of(wanted: NicRequirements) -> Self {
        let far = socket();
        sockopt::set_socket_recv_buffer_size_force(&far, ROOM).expect("room");
        // Never bound before: a child that another test starts has copies of sockets that are closed meanwhile.
        let near = SocketAddr::from((address(), NEAR));
        let attach = format!("udp:{near}-{}", far.local_addr().expect("an address"));
        let mut ports = served(&NicRequirements { attach: Attach::read(&attach).expect("good"), ..wanted });
        far.connect(near).expect("the other end");
        let (source, sink) = (ports.sources.remove(0), ports.sinks.remove(0));
        Self { far, source, sink, control: ports.control.expect("a way out"), outside: ports.outside }
    }

    fn sent(&self, frames: &mut [Vec<u8>]) -> usize {
        let shown: Vec<_> = frames.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        self.sink.deliver(&shown)
    }

    /// Returns the sum of the counters with such names: `udp.write.frames`.
    fn counted(&self, is_it: impl Fn(&str) -> bool) -> u64 {
        let mut sum = 0;
        self.outside.each_group(&mut |group, counters| {
            counters
                .each(&mut |name, value| sum += if is_it(&format!("{group}.{name}")) { value } else { 0 });
        });
        sum
    }

    fn counts<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        names.map(|wanted| self.counted(|name| name == wanted))
    }

    /// Returns the lengths of the first frames that arrive.
    fn come(&mut self) -> Vec<usize> {
        let (mut lens, start) = (Vec::new(), Instant::now());
        while lens.is_empty() && start.elapsed() < PATIENCE {
            self.source.drain(BURST, &mut |frames| lens.extend(frames.iter().map(Frame::len)));
        }
        lens
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        let (mut all, mut room) = (Vec::new(), [0; LONGEST]);
        while let Ok((len, _)) = recv(&self.far, &mut room[..], RecvFlags::DONTWAIT) {
            all.push(room[..len].to_vec());
        }
        Some(all)
    }

    fn lost(&self) -> u64 {
        self.counted(|name| name.starts_with("udp.write.drop_"))
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        frames.iter().take_while(|frame| self.far.send(frame).is_ok()).count()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

#[test]
fn a_tunnel_is_a_sink_and_a_source() {
    if has_room() {
        check_sink(Bench::new);
        check_sink(Bench::of_control);
        check_source(Bench::new);
    }
}

/// A sink without room, which counts the frames that come without it.
#[derive(Default)]
struct Full(AtomicUsize);

impl Sink for Full {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.fetch_add(frames.len(), Ordering::Relaxed);
        0
    }

    fn room(&self) -> usize {
        0
    }
}

/// Returns how many of many frames are read though there is no room for them.
fn read_without_room(has_control: bool) -> usize {
    let mut bench = Bench::of(NicRequirements { queue_len: 256, has_control, ..wanted("null") });
    // The kernel takes what it has room for, and drops the rest.
    let frames = vec![vec![7; 1000]; 1000];
    assert_eq!(bench.feed(&frames), 1000);
    let full = Full::default();
    (0..100).for_each(|_| _ = pump(&mut *bench.source, &full));
    assert!(!bench.come().is_empty(), "what is left waits");
    full.0.load(Ordering::Relaxed)
}

#[test]
fn for_a_control_plane_a_queue_that_fills_up_is_read_without_room() {
    if has_room() {
        assert_eq!(read_without_room(false), 0);
        assert!(read_without_room(true) > 0);
    }
}

/// The socket takes few datagrams until the other end reads them.
#[test]
fn frames_of_a_control_plane_are_held_back_and_go_first() {
    let (near, far) = UnixDatagram::pair().expect("sockets");
    far.set_nonblocking(true).expect("set");
    let sender = Arc::new(Sender::new(Arc::new(near.into())));
    let control = ControlSender(sender.clone());
    let deliver = |sink: &dyn Sink, len: usize, copies: usize| {
        let mut octets = vec![vec![7; len]; copies];
        let frames: Vec<_> = octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        sink.deliver(&frames)
    };
    let taken = deliver(&*sender, 60, 10_000);
    assert!(taken < 10_000, "it is full");
    assert_eq!(deliver(&control, 70, MOST_HELD + 6), MOST_HELD, "the others are held back");
    assert_eq!(deliver(&*sender, 60, 1), 0);
    let counters = &sender.counters;
    assert_eq!(counters.drop_full.get(), (10_000 - taken) as u64 + 6 + 1);
    assert_eq!(counters.frames.get(), taken as u64);
    let come = || {
        let mut octets = [0; 100];
        std::iter::from_fn(|| far.recv(&mut octets).ok()).collect::<Vec<_>>()
    };
    assert_eq!(come(), vec![60; taken]);
    // Each time the other end has read all, there is room again; nothing else has to be delivered for that.
    let mut late = Vec::new();
    while late.len() < MOST_HELD {
        assert_eq!(control.room(), usize::MAX);
        let came = come();
        assert!(!came.is_empty(), "nothing is sent any more");
        late.extend(came);
    }
    assert_eq!(late, [70; MOST_HELD]);
    assert_eq!(deliver(&*sender, 60, 1), 1);
    assert_eq!(come(), [60]);
    assert_eq!(counters.frames.get(), (taken + MOST_HELD + 1) as u64);
}

#[test]
fn what_is_no_frame_does_not_come_and_what_is_too_long_does_not_go() {
    if !has_room() {
        return;
    }
    let mut bench = Bench::new();
    assert_eq!(bench.feed(&[vec![1; 13], vec![2; LONGEST + 1], vec![3; 60]]), 3);
    assert_eq!(bench.come(), [60]);
    let read = ["udp.read.drop_too_short", "udp.read.drop_too_long", "udp.read.frames"];
    assert_eq!(bench.counts(read), [1, 1, 1]);
    assert_eq!(bench.sent(&mut [vec![4; LONGEST + 1], vec![5; 60]]), 2);
    let written = ["udp.write.drop_too_long", "udp.write.frames", "udp.write.bytes"];
    assert_eq!(bench.counts(written), [1, 1, 60]);
}

/// The kernel reports the ICMP error at the next call, whichever that is: no frame is lost by that.
#[test]
fn an_end_where_nobody_is_loses_nothing_of_what_follows() {
    if !has_room() {
        return;
    }
    let mut bench = Bench::new();
    let (at, near) =
        (bench.far.local_addr().expect("an address"), bench.far.peer_addr().expect("an address"));
    bench.far = socket();
    assert_eq!(bench.sent(&mut [vec![6; 60]]), 1);
    bench.far = UdpSocket::bind(at).expect("its address is free");
    bench.far.connect(near).expect("the other end");
    assert_eq!(bench.sent(&mut [vec![6; 60]]), 1);
    bench.far.set_read_timeout(Some(PATIENCE)).expect("set");
    assert_eq!(bench.far.recv(&mut [0; 100]).expect("what was sent then"), 60);
    assert_eq!(
        (bench.counted(|name| name.ends_with(".refused")), bench.counts(["udp.write.frames"])),
        (1, [2])
    );
    assert_eq!(bench.source.drain(1, &mut |_| {}), 0);
}

/// Reports to the sender of datagrams from `near` to `far` that a filter on the way has dropped one: ICMP type 3, code 13 (RFC 1812,
/// section 5.2.7.1).
fn report_a_filter(near: SocketAddr, far: SocketAddr) {
    let (IpAddr::V4(from), IpAddr::V4(to)) = (near.ip(), far.ip()) else { panic!("addresses of version 4") };
    let mut octets = vec![3, 13, 0, 0, 0, 0, 0, 0];
    octets.extend([0x45, 0, 0, 88, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    octets.extend(from.octets().into_iter().chain(to.octets()));
    octets.extend([near.port(), far.port(), 68, 0].map(u16::to_be_bytes).concat());
    assert!(Offload::checksum(0, 2).expect("in range").complete(&mut octets));
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP));
    let to = SocketAddr::new(near.ip(), 0);
    sendto(socket.expect("a raw socket"), &octets, SendFlags::empty(), &to).expect("sent");
}

#[test]
fn an_error_that_was_reported_before_loses_no_frame() {
    if !has_room() {
        return;
    }
    let bench = Bench::new();
    let far = bench.far.local_addr().expect("an address");
    report_a_filter(bench.far.peer_addr().expect("an address"), far);
    let Bell::Readable(socket) = bench.source.bell() else { panic!("a socket") };
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    let mut reported = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    assert_eq!(poll(&mut reported, Some(&patience)), Ok(1), "the error is there");
    assert_eq!(bench.sent(&mut [vec![9; 60], vec![9; 61]]), 2);
    assert_eq!(bench.counts(["udp.write.frames", "udp.write.drop_other"]), [2, 0]);
}

#[test]
fn strangers_are_not_heard() {
    if !has_room() {
        return;
    }
    let mut bench = Bench::new();
    let stranger = socket();
    stranger.send_to(&[7; 60], bench.far.peer_addr().expect("an address")).expect("sent");
    assert_eq!(bench.feed(&[vec![8; 61]]), 1);
    assert_eq!(bench.come(), [61]);
}

#[test]
fn two_ends_are_of_one_version_and_each_has_a_port() {
    assert!(ends("192.0.2.1:1-198.51.100.1:2").is_ok() && ends("[2001:db8::1]:1-[2001:db8::2]:2").is_ok());
    for wrong in [
        "",
        "192.0.2.1:1",
        "192.0.2.1:1-198.51.100.1",
        "192.0.2.1:0-198.51.100.1:2",
        "192.0.2.1:1-[2001:db8::2]:2",
        "192.0.2.1:1-0.0.0.0:2",
        "192.0.2.1:1-224.0.0.1:2",
    ] {
        let said = ends(wrong).expect_err(wrong);
        assert!(said.contains("write e.g. \"udp:192.0.2.1:4789-198.51.100.1:4789\""), "{said}");
    }
}
