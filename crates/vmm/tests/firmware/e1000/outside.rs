//! Our e1000 driver on another device: what stock QEMU sends is identical, octet by octet, to what our device
//! sends.

use std::thread::sleep;
use std::time::{Duration, Instant};

use bootinfo::{Role, TrafficInfo, TransmitMode};
use support::qemu::{Machine, Qemu};
use vmm::MachineConfig;
use vmm::pc::Pc;

use super::bench::{MAC, Wish, benches, info};

/// Octets of Ethernet, IPv4 and TCP headers.
const HEADERS: usize = 54;
/// Number of frames compared.
const FRAMES: usize = 400;
const WITHIN: Duration = Duration::from_secs(60);

/// Returns the frames that stock QEMU's device sends.
fn sent_by_qemu(wish: &Wish) -> Vec<Vec<u8>> {
    let config =
        MachineConfig { name: "outside".to_owned(), ram: 32 << 20, fib: None, group: None, info: info(wish) };
    let pc = Pc::new(config, 1_000_000).expect("a machine");
    let (rom, ram) = (pc.rom(), pc.ram().expect("RAM"));
    let (ram_len, vcpus) = (pc.ram_len(), wish.vcpus);
    let machine = Machine { rom, ram, ram_len, vcpus, mac: MAC, moderates: false, linked: false };
    let mut qemu = Qemu::start(&machine).expect("QEMU starts");
    let (since, counters) = (Instant::now(), &pc.shared().vcpus[0].nics[0]);
    while (counters.tx_frames.get() as usize) < FRAMES {
        assert!(!qemu.ended().expect("QEMU's state"), "QEMU ended");
        assert!(since.elapsed() < WITHIN, "{} frames in {WITHIN:?}", counters.tx_frames.get());
        sleep(Duration::from_millis(5));
    }
    qemu.end().expect("QEMU ends").frames
}

/// QEMU is slow.
mod all {
    use super::*;

    #[test]
    fn stock_qemu_sends_the_same_frames() {
        support::needs!(Program("qemu-system-x86_64"));
        for (octets, segment_len) in [(60, 0), (1514, 0), (15_054, 1514), (65_549, 1514), (3054, 354)] {
            let base = Wish { role: Role::Source, mode: TransmitMode::Base, ..Wish::default() };
            let traffic = TrafficInfo { frame_len: octets, segment_len, ..base.traffic };
            let wish = Wish { traffic, ..base };
            let mut theirs = sent_by_qemu(&wish);
            // After a packet whose payload fills its last segment QEMU sends an empty one, which the manual
            // does not describe.
            theirs.retain(|frame| segment_len == 0 || frame.len() > HEADERS);
            assert!(theirs.len() >= FRAMES);
            for mut bench in benches(&wish) {
                for (number, (ours, theirs)) in bench.sent(FRAMES).iter().zip(&theirs).enumerate() {
                    assert_eq!(
                        ours, theirs,
                        "{}: frame {number} of {octets} octets in {segment_len}",
                        bench.name
                    );
                }
            }
        }
    }
}
