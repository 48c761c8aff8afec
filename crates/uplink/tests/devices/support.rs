//! Common parts of the tests with real devices.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ledger::Group;
use port::{Frame, Frames, Sink, Source};
use ring::{BURST, Bytes};
use uplink::{Mac, Netns};

/// Ethernet, IPv4 and UDP header, in octets.
pub(crate) const HEADERS: usize = 42;

/// Returns true if this host permits namespaces and TAPs; prints once per test if not.
pub(crate) fn devices() -> bool {
    let root = rustix::process::geteuid().is_root();
    let tun = std::path::Path::new("/dev/net/tun").exists();
    let able = root && tun && Netns::new().is_ok();
    if !able {
        println!("SKIPPED: needs root, /dev/net/tun and network namespaces");
    }
    able
}

/// Returns the number of frames that a counter group reports as lost.
pub(crate) fn losses(group: &dyn Group) -> u64 {
    let mut lost = 0;
    group.each(&mut |name, value| lost += if name.starts_with("drop_") { value } else { 0 });
    lost
}

/// Receives every frame that waits at a socket.
pub(crate) fn frames_at(socket: &impl AsFd) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut octets = [0; 1 << 16];
    while let Ok(len) = rustix::io::read(socket, &mut octets) {
        frames.push(octets[..len].to_vec());
    }
    frames
}

/// Waits until an interface that is up sends and receives: some time after its carrier appears the kernel
/// gives it its queues, and a bridge lets its frames through.
pub(crate) fn wait_until_running(netns: &Netns, name: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let shown = netns.command("ip").args(["-d", "-o", "link", "show", name]).output().expect("ip").stdout;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        let runs =
            shown.contains("LOWER_UP") && !shown.contains(" qdisc noop ") && !shown.contains("state DOWN");
        if runs && (!shown.contains("bridge_slave") || shown.contains("bridge_slave state forwarding")) {
            return;
        }
        assert!(Instant::now() < end, "{name} is not running: {shown}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Source and destination of a UDP datagram.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) from: (Mac, Ipv4Addr),
    pub(crate) to: (Mac, Ipv4Addr),
}

/// Returns a frame of `len` octets with a UDP datagram that carries `number`; a checksum of 0 means none.
pub(crate) fn datagram(way: Way, len: usize, number: u32) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[0..6].copy_from_slice(&way.to.0);
    frame[6..12].copy_from_slice(&way.from.0);
    frame[12..14].copy_from_slice(&[8, 0]);
    let ip_len = (len - 14) as u16;
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
    frame[22] = 64;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&way.from.1.octets());
    frame[30..34].copy_from_slice(&way.to.1.octets());
    let sum =
        (14..34).step_by(2).map(|i| u32::from(u16::from_be_bytes([frame[i], frame[i + 1]]))).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    frame[34..36].copy_from_slice(&(1000 + (number % 16) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&2000u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(ip_len - 20).to_be_bytes());
    frame[HEADERS..HEADERS + 4].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Returns the number in a frame made by [`datagram`].
pub(crate) fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[HEADERS..HEADERS + 4].try_into().unwrap())
}

/// Delivers copies of these frames in one call.
pub(crate) fn deliver(sink: &dyn Sink, frames: &mut [Vec<u8>]) -> usize {
    let shown: Frames<'_> = frames.iter_mut().map(|f| Frame::new(Bytes::from_slice(f))).collect();
    sink.deliver(&shown)
}

/// Time limit of every wait, even on a busy host.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Drains until `count` frames have arrived.
pub(crate) fn collect(source: &mut dyn Source, count: usize) -> Vec<Vec<u8>> {
    collect_from(&mut [source], count)
}

/// Drains several sources until `count` frames have arrived in total.
pub(crate) fn collect_from(sources: &mut [&mut dyn Source], count: usize) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let start = Instant::now();
    while all.len() < count && start.elapsed() < PATIENCE {
        for source in &mut *sources {
            all.extend(drained(*source));
        }
    }
    all
}

/// Returns the frames that one call of `drain` shows.
pub(crate) fn drained(source: &mut dyn Source) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    source.drain(BURST, &mut |frames| {
        for frame in frames {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            all.push(octets);
        }
    });
    all
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
