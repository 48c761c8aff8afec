//! vhost-user port without a router, for comparative measurements (`bench/peers/vhost_user_backend.sh`):
//! `vhost_port MODE SOCKET [SOCKET]`. MODE is what is done with frames:
//!
//! * `rx`: frames are taken from the guest and counted;
//! * `tx`: the guest is given frames of 64 octets, as fast as it posts buffers;
//! * `io`: frames that a guest sends go to the guest at the other socket, or back if there is only one
//!   socket.
//!
//! It prints one line per second with the frames of that second: `pps N`. One busy-polling thread; it ends at
//! the end of its input.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use door::Door;
use port::pump;
use port::{Frame, Null, Sink, Source};
use ring::{BURST, Bytes};
use sandbox::Confinement;
use vhost_user::backend::{Backend, Offer};

/// Octets of a frame, without FCS.
const FRAME: usize = 64;

/// Offers the same frame endlessly.
struct Offered(&'static mut [u8]);

impl Source for Offered {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let frame = Frame::new(Bytes::from_slice(self.0));
        let frames = [frame; BURST];
        let frames = &frames[..budget.min(BURST)];
        take(frames);
        frames.len()
    }
}

type Way = (Box<dyn Source>, Arc<dyn Sink>);

fn ways(mode: &str, ports: &[Backend]) -> Result<Vec<Way>> {
    let source = |port: &Backend| port.queues().source();
    let sink = |port: &Backend| port.queues().sink();
    let offered = || Box::new(Offered(Box::leak(Box::new([2; FRAME])))) as Box<dyn Source>;
    Ok(match mode {
        "rx" => ports.iter().map(|port| (source(port), Arc::new(Null::new()) as Arc<dyn Sink>)).collect(),
        "tx" => ports.iter().map(|port| (offered(), sink(port))).collect(),
        "io" => {
            let to = ports.iter().cycle().skip(1);
            ports.iter().zip(to).map(|(from, to)| (source(from), sink(to))).collect()
        }
        _ => bail!("{mode:?} is no mode: rx, tx or io"),
    })
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().context("usage: vhost_port rx|tx|io SOCKET [SOCKET]")?;
    let port = |(number, path): (usize, String)| {
        let offer = Offer { pairs: 1, longest: 1518, offload: false, memory_max: 64 << 30 };
        let door = Door::listen(Path::new(&path))?;
        Backend::start(&format!("port{number}"), door, offer, Confinement::Off)
    };
    let ports = arguments.enumerate().map(port).collect::<Result<Vec<_>>>()?;
    let mut ways = ways(&mode, &ports)?;
    let (moved, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let frames: usize = ways.iter_mut().map(|(source, sink)| pump(&mut **source, &**sink)).sum();
                moved.fetch_add(frames as u64, Ordering::Relaxed);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let before = moved.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_secs(1));
                println!("pps {}", moved.load(Ordering::Relaxed) - before);
            }
        });
        let mut line = String::new();
        // Reads until the end of the input, ignoring its content.
        while std::io::stdin().read_line(&mut line).is_ok_and(|octets| octets > 0) {}
        stop.store(true, Ordering::Relaxed);
    });
    Ok(())
}
