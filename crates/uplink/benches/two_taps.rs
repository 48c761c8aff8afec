//! Two TAPs connected by the kernel's forwarding, one thread: writes a burst into one and drains the other.
//! Compares our port with a bare loop of read and write on the same devices, alternately. Prints million
//! frames per second, and the ratio of each pair: on a busy host only the ratio is meaningful.
//!
//! `cargo bench -p ringroad-uplink` (root, /dev/net/tun).

use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use port::{Bell, Frame, Frames, Sink, Source};
use ring::{BURST, Bytes};
use uplink::{Mac, Netns, Tap, TapConfig, TapSink, TapSource};

const SLICE: Duration = Duration::from_millis(100);
const ROUNDS: usize = 11;
const KERNEL: Mac = [2, 0, 0, 0, 1, 0];
const FAR: Mac = [2, 0, 0, 0, 2, 9];

fn main() {
    let netns = match Netns::new() {
        Ok(netns) => netns,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let links = netns.settle(true).expect("a namespace of our own can be set up");
    let config = TapConfig { mac: Some(KERNEL), netns: Some(&netns), ..TapConfig::default() };
    let mut ports = [0u8, 1].map(|side| {
        let name = format!("t{side}");
        let port = Tap::open(&name, &config).expect("the names are free").into_ports().remove(0);
        links.add_address(&name, Ipv4Addr::new(198, 18, side, 1), 24).expect("the device is ours");
        port
    });
    links.add_neighbour("t1", Ipv4Addr::new(198, 18, 1, 2), FAR).expect("the device is ours");
    let [(back, near), (far, _)] = &mut ports;
    for len in [60, 1514] {
        let pairs: Vec<[f64; 2]> =
            (0..ROUNDS).map(|_| [turn(near, far, len), bare(back, far, len)]).collect();
        let [ours, bare, ratio] = [|p: &[f64; 2]| p[0], |p: &[f64; 2]| p[1], |p: &[f64; 2]| p[0] / p[1]]
            .map(|of| spread(&pairs, of));
        println!("turn/{len}: port {ours} Mpps, bare {bare} Mpps, ratio {ratio} (median, range, n={ROUNDS})");
    }
}

/// Median and range of one value over all pairs.
fn spread(pairs: &[[f64; 2]], of: fn(&[f64; 2]) -> f64) -> String {
    let mut all: Vec<f64> = pairs.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    format!("{:.3} ({:.3}..{:.3})", all[all.len() / 2], all[0], all[all.len() - 1])
}

/// With our port.
fn turn(near: &TapSink, far: &mut TapSource, len: usize) -> f64 {
    let mut octets = vec![datagram(len); BURST];
    let frames: Frames<'_> = octets.iter_mut().map(|f| Frame::new(Bytes::from_slice(f))).collect();
    rate(|| {
        near.deliver(&frames);
        far.drain(BURST, &mut |frames| {
            std::hint::black_box(frames);
        })
    })
}

/// With one write and one read per frame, and nothing else.
fn bare(near: &TapSource, far: &TapSource, len: usize) -> f64 {
    let frame = datagram(len);
    let mut buffer = [0; 2048];
    let (Some(near), Some(far)) = (descriptor(near), descriptor(far)) else { return f64::NAN };
    rate(|| {
        let mut came = 0;
        for _ in 0..BURST {
            rustix::io::write(near, &frame).expect("the device is up");
            came += usize::from(rustix::io::read(far, &mut buffer).is_ok());
        }
        came
    })
}

fn descriptor(source: &TapSource) -> Option<BorrowedFd<'_>> {
    match source.bell() {
        Bell::Readable(fd) => Some(fd),
        _ => None,
    }
}

fn rate(mut step: impl FnMut() -> usize) -> f64 {
    let (start, mut frames) = (Instant::now(), 0);
    while start.elapsed() < SLICE {
        frames += (0..16).map(|_| step()).sum::<usize>();
    }
    frames as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Returns a UDP datagram from one side to the other.
fn datagram(len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&KERNEL);
    frame[6] = 2;
    let ip_len = (len - 14) as u16;
    frame[12..18].copy_from_slice(&[8, 0, 0x45, 0, (ip_len >> 8) as u8, ip_len as u8]);
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[198, 18, 0, 2, 198, 18, 1, 2]);
    let sum: u32 = frame[14..34].chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame[34..42].copy_from_slice(&[3, 232, 7, 208, ((ip_len - 20) >> 8) as u8, (ip_len - 20) as u8, 0, 0]);
    frame
}
