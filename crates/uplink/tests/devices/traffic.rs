//! Load and sleep: the kernel's queue before a source, the bell, and several threads at one sink.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use port::{Bell, Sink, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uplink::{Links, Netns, Tap, TapConfig, TapSink, TapSource};

use crate::support::{PATIENCE, Way, collect, datagram, deliver, devices, drained, wait_for};

const KERNEL: [u8; 6] = [2, 0, 0, 0, 1, 0];
const OURS: [u8; 6] = [2, 0, 0, 0, 1, 9];
const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// A namespace connected to us by one TAP.
struct Site {
    netns: Netns,
    _links: Links,
    source: TapSource,
    sink: Arc<TapSink>,
}

fn site(queue_len: u32) -> Site {
    let netns = Netns::new().expect("namespace");
    let links = netns.settle(false).expect("settle");
    let config = TapConfig { queue_len, mac: Some(KERNEL), netns: Some(&netns), ..TapConfig::default() };
    let (source, sink) = Tap::open("t0", &config).expect("TAP").split();
    links.add_address("t0", HERE, 24).expect("address");
    links.add_neighbour("t0", THERE, OURS).expect("neighbour");
    Site { netns, _links: links, source, sink }
}

/// A socket of the namespace's kernel.
fn socket(site: &Site) -> UdpSocket {
    site.netns.run(|| UdpSocket::bind((HERE, 2000))).expect("enter").expect("bind")
}

#[test]
fn what_does_not_fit_the_queue_is_lost_in_the_kernel_and_counted_there() {
    if !devices() {
        return;
    }
    let mut site = site(4);
    let socket = socket(&site);
    for _ in 0..10 {
        // The kernel may or may not report the loss to the sender.
        let _ = socket.send_to(&[0; 100], (THERE, 9));
    }
    // The kernel accepts or drops each frame within the call that sends it.
    assert_eq!(collect(&mut site.source, 4).len(), 4);
    assert!(drained(&mut site.source).is_empty());
    let seen = site.netns.counters("t0").expect("counters");
    assert_eq!((seen.tx_frames, seen.tx_drops), (4, 6));
    assert!(site.netns.counters("t1").is_err_and(|e| e.to_string().contains("there is no such interface")));
}

#[test]
fn the_bell_wakes_a_sleeper() {
    if !devices() {
        return;
    }
    let mut site = site(100);
    let socket = socket(&site);
    assert!(!site.source.arm());
    let sleeper = format!("/proc/self/task/{}/stat", rustix::thread::gettid().as_raw_nonzero());
    let sender = std::thread::spawn(move || {
        wait_for("a sleeper", || {
            std::fs::read_to_string(&sleeper)
                .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")))
        });
        socket.send_to(&[0; 100], (THERE, 9)).expect("send");
    });
    let Bell::Readable(fd) = site.source.bell() else { panic!("a TAP is readable when frames wait") };
    let limit = Timespec::try_from(PATIENCE).expect("a time");
    assert_eq!(poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)), Ok(1));
    assert_eq!(collect(&mut site.source, 1).len(), 1);
    sender.join().expect("sender");
}

#[test]
fn threads_that_deliver_at_the_same_time_lose_and_miscount_nothing() {
    if !devices() {
        return;
    }
    const THREADS: u32 = 4;
    const BURSTS: u32 = 8;
    let site = site(100);
    let socket = socket(&site);
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let way = Way { from: (OURS, THERE), to: (KERNEL, HERE) };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let sink: &dyn Sink = &*site.sink;
            scope.spawn(move || {
                for burst in 0..BURSTS {
                    let first = (thread * BURSTS + burst) * 4;
                    let mut frames: Vec<_> = (first..first + 4).map(|n| datagram(way, 60, n)).collect();
                    assert_eq!(deliver(sink, &mut frames), 4);
                }
            });
        }
    });
    let sent = (THREADS * BURSTS * 4) as usize;
    let mut seen = vec![0; sent];
    let mut octets = [0; 64];
    for _ in 0..sent {
        assert_eq!(socket.recv(&mut octets).expect("a datagram"), 60 - 42);
        seen[u32::from_be_bytes([octets[0], octets[1], octets[2], octets[3]]) as usize] += 1;
    }
    assert_eq!(seen, vec![1; sent], "each datagram came once");
    assert_eq!(site.sink.counters().frames.get(), sent as u64);
    assert_eq!(site.netns.counters("t0").expect("counters").rx_frames, sent as u64);
}
