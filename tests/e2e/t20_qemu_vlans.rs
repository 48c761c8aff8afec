//! Objective: frames with VLAN tags pass a stock e1000, QEMU's, and our driver in both directions, octet by octet: the driver leaves
//! the device's removal, insertion and filter of tags off. A firmware that returns each frame to its sender runs behind it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bootinfo::{BootInfo, NicInfo, NicModel, Role, TransmitMode};
use support::qemu::{Machine, Qemu};
use vmm::MachineConfig;
use vmm::pc::Pc;

/// Timeout for each frame, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time after which a frame that has not come back is sent again.
const LOOK: Duration = Duration::from_millis(500);
/// Ethernet addresses of the device and of its peer.
const OWN: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 9];
/// Tags of a frame: none, VLAN 100, a priority tag, and VLAN 100 behind service tag 200.
const TAGS: [&[[u8; 4]]; 4] =
    [&[], &[[0x81, 0, 0, 100]], &[[0x81, 0, 0xa0, 0]], &[[0x88, 0xa8, 0, 200], [0x81, 0, 0, 100]]];
/// Octets of a frame: few, as many as a frame with one tag has at most, and with two; the device drops longer ones.
const LENGTHS: [usize; 3] = [64, 1518, 1522];
/// Ethertype for experiments (IEEE 802).
const EXPERIMENTAL: [u8; 2] = [0x88, 0xb5];

/// Builds a frame for the device whose payload consists of this octet.
fn frame(tags: &[[u8; 4]], len: usize, octet: u8) -> Vec<u8> {
    let mut frame = [&OWN[..], &PEER, &tags.concat(), &EXPERIMENTAL].concat();
    frame.resize(len, octet);
    frame
}

/// The frame that comes back: its addresses are exchanged.
fn returned(frame: &[u8]) -> Vec<u8> {
    [&frame[6..12], &frame[..6], &frame[12..]].concat()
}

/// A firmware that returns frames, behind one e1000.
fn config() -> MachineConfig {
    let mut info = BootInfo::new(Role::Echo, 1);
    info.ring_size = 256;
    info.nic_count = 1;
    info.nics[0] = NicInfo {
        slot: 1,
        mtu: 1500,
        model: NicModel::E1000 as u32,
        mode: TransmitMode::Base as u32,
        ..NicInfo::default()
    };
    MachineConfig { name: "t20v".to_owned(), ram: 32 << 20, fib: None, group: None, info }
}

mod all {
    use super::*;

    #[test]
    fn frames_keep_their_tags_in_both_directions() {
        support::needs!(Program("qemu-system-x86_64"));
        let pc = Pc::new(config(), 1_000_000).expect("a machine");
        let machine = Machine {
            rom: pc.rom(),
            ram: pc.ram().expect("RAM"),
            ram_len: pc.ram_len(),
            vcpus: 1,
            mac: OWN,
            moderates: false,
            linked: true,
        };
        let mut qemu = Qemu::start(&machine).expect("QEMU starts");
        let mut known: Vec<Vec<u8>> = Vec::new();
        let cases = TAGS.into_iter().flat_map(|tags| LENGTHS.map(|len| (tags, len)));
        for (octet, (tags, len)) in (1..).zip(cases) {
            let sent = frame(tags, len, octet);
            known.push(returned(&sent));
            let end = Instant::now() + PATIENCE;
            loop {
                let state = pc.shared().vcpus[0].state.0.load(Ordering::Relaxed);
                assert!(state <= 1, "the firmware gave up: {state}");
                assert!(!qemu.ended().expect("QEMU's state"), "QEMU has ended");
                assert!(Instant::now() < end, "{len} octets behind {tags:02x?} do not come back");
                qemu.send(&sent);
                let Some(came) = qemu.receive(LOOK).expect("a link") else { continue };
                // One that was sent twice comes back twice.
                assert!(known.contains(&came), "{len} octets behind {tags:02x?}: {came:02x?}");
                if known.last() == Some(&came) {
                    break;
                }
            }
        }
        qemu.end().expect("QEMU ends");
    }
}
