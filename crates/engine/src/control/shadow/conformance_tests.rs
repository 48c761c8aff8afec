//! The source of a control plane's frames in the conformance suite that every port passes. A socket that sends out of the TAP is the
//! kernel of the control plane.

use std::path::Path;
use std::time::Duration;

use conformance::{SourceBench, check_source};
use uplink::{Netns, PacketSender, TapConfig};

use super::*;

/// Time limit of every wait, even on a busy host. Each wait ends as soon as its condition holds.
const PATIENCE: Duration = Duration::from_secs(60);
/// More frames than a check feeds.
const QUEUE: u32 = 2000;

/// Returns true if this host permits namespaces and TAPs; otherwise prints why not.
fn devices() -> bool {
    let root = rustix::process::geteuid().is_root();
    let able = root && Path::new("/dev/net/tun").exists() && Netns::new().is_ok();
    if !able {
        println!("SKIPPED: needs root, /dev/net/tun and network namespaces");
    }
    able
}

struct Bench {
    source: ShadowSource,
    kernel: PacketSender,
    _netns: Netns,
}

impl Bench {
    fn new() -> Self {
        let netns = Netns::new().expect("a namespace");
        let _ = netns.settle(false).expect("settled");
        let config = TapConfig { queue_len: QUEUE, netns: Some(&netns), ..TapConfig::default() };
        let tap = Tap::open("shadow", &config).expect("a TAP");
        let kernel = PacketSender::open(&netns, "shadow").expect("a socket");
        let (source, _) = tap.split();
        let (is_unplugged, counters) = (Arc::new(|| false), Arc::default());
        let source = ShadowSource { source, is_unplugged, counters, passes: 0 };
        Self { source, kernel, _netns: netns }
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        frames.iter().take_while(|frame| self.kernel.repeat(frame, 1) == 1).count()
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

#[test]
fn a_shadow_is_a_source() {
    if devices() {
        check_source(Bench::new);
    }
}
