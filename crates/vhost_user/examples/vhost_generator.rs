//! Generator and sink for any router, at two vhost-user ports, for measurements
//! (`bench/peers/router_over_vhost_user.sh`): `vhost_generator IN OUT MAC [OCTETS]`. Frames of 60 octets
//! (without FCS), or of OCTETS, for the station MAC, UDP from 198.18.0.2 to 198.18.1.2, go to the guest at
//! socket IN as fast as it posts buffers; frames that the guest at socket OUT sends are taken and counted. It
//! prints one line per second: `rx N`; and one line for each line of its input: `total N at NANOSECONDS`,
//! both since it started. One busy-polling thread; it ends at the end of its input.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use door::Door;
use port::Frame;
use ring::{BURST, Bytes};
use sandbox::Confinement;
use vhost_user::backend::{Backend, Offer};

/// Octets of a frame, without FCS: the default, and the permitted range.
const FRAME: usize = 60;
const FRAMES: std::ops::RangeInclusive<usize> = FRAME..=1514;

/// A frame of this length for this station.
fn frame(mac: &str, len: usize) -> Result<Vec<u8>> {
    let octets = mac.split(':').map(|octet| u8::from_str_radix(octet, 16));
    let station = octets.collect::<Result<Vec<u8>, _>>().context("an Ethernet address")?;
    ensure!(station.len() == 6, "{mac} is no Ethernet address");
    let ([high, low], [udp_high, udp_low]) =
        (((len - 14) as u16).to_be_bytes(), ((len - 34) as u16).to_be_bytes());
    let mut ip = vec![0x45, 0, high, low, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 18, 1, 2];
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = [0x10, 0, 0x10, 1, udp_high, udp_low, 0, 0];
    let mut frame = [&station[..], &[2, 0, 0, 0, 0, 0xfe, 8, 0], &ip, &udp].concat();
    frame.resize(len, 0);
    Ok(frame)
}

fn port(path: &str) -> Result<Backend> {
    let offer = Offer { pairs: 1, longest: 1518, offload: false, memory_max: 64 << 30 };
    Backend::start(path, Door::listen(Path::new(path))?, offer, Confinement::Off)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [into, out, mac, rest @ ..] = &arguments[..] else {
        anyhow::bail!("usage: vhost_generator IN OUT MAC [OCTETS]")
    };
    let len = rest.first().map_or(Ok(FRAME), |len| len.parse()).context("octets of a frame")?;
    ensure!(FRAMES.contains(&len), "frames of {FRAMES:?} octets can be sent, not of {len}");
    let mut octets = frame(mac, len)?;
    let (into, out) = (port(into)?, port(out)?);
    let (sink, mut source) = (into.queues().sink(), out.queues().source());
    let (received, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let frames = [Frame::new(Bytes::from_slice(&mut octets)); BURST];
            while !stop.load(Ordering::Relaxed) {
                let room = sink.room().min(BURST);
                if room > 0 {
                    sink.deliver(&frames[..room]);
                }
                let taken = source.drain(BURST, &mut |_| ());
                received.fetch_add(taken as u64, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let before = received.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_secs(1));
                println!("rx {}", received.load(Ordering::Relaxed) - before);
            }
        });
        let (mut line, started) = (String::new(), Instant::now());
        while std::io::stdin().read_line(&mut line).is_ok_and(|octets| octets > 0) {
            let (at, total) = (started.elapsed().as_nanos(), received.load(Ordering::Relaxed));
            println!("total {total} at {at}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}
