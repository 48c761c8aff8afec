//! Objective: stock QEMU with Debian's kernel on our vhost-user ports. Two guests exchange TCP traffic through one router, one
//! with offloads and one without; one of them is killed while the other fetches from it, and restarted. Then in a VLAN, with large
//! frames.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hostbox::{Initramfs, Kernel, Machine};
use support::{Counters, Running, Signal, Stage};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of a guest under software emulation, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(150);

/// Script of a stock guest: it serves a file, and fetches the other guest's file repeatedly. If LARGE is set, it is in VLAN 100, and
/// sends packets of so many octets before.
const GUEST: &str = r#"
lan=eth0
[ -z "$LARGE" ] || { lan=lan; ip link set eth0 mtu 9000 && ip link add link eth0 name lan type vlan id 100; } || exit 1
ip link set eth0 up && ip link set $lan up || exit 1
ip address add $OWN/24 dev $lan && ip route add default via $ROUTER || exit 1
echo "FEATURES $(cat /sys/bus/virtio/devices/virtio0/features)"
dd if=/dev/urandom of=/file bs=64k count=32 2>/dev/null
md5sum < /file > /sum
mkfifo /open && { sleep 1000 > /open & }
serve() { while :; do nc -l -p $1 < $2 >/dev/null; done & }
fetch() { timeout 15 nc $OTHER $1 < /open > $2 && [ -s $2 ]; }
serve 7001 /file && serve 7002 /sum
[ -z "$LARGE" ] || until ping -c 1 -W 2 -s $LARGE $OTHER > /dev/null; do sleep 0.2; done
while :; do
  if fetch 7002 /other && fetch 7001 /got && [ "$(md5sum < /got)" = "$(cat /other)" ]; then echo FETCHED; else sleep 0.2; fi
done
"#;

fn nic(name: &str, socket: &Path, address: &str, offload: bool) -> String {
    format!(
        "[[router.nic]]\nname = '{name}'\nattach = 'vhost-user-backend:{}'\naddress = '{address}'\noffload = {offload}\n",
        socket.display()
    )
}

/// Packs a guest's files; its script begins with these settings.
fn archive(kernel: &Kernel, folder: &Path, own: &str, settings: &str) -> anyhow::Result<PathBuf> {
    let mut files = Initramfs::new();
    files.program("busybox")?.modules(kernel, &["virtio_pci", "virtio_net", "8021q"])?;
    files.init(&format!("OWN={own} {settings}\n{GUEST}"));
    let to = folder.join(format!("{own}.cpio"));
    files.write(&to).map(|()| to)
}

/// Starts a guest at a socket. QEMU 7.2 without KVM does not work with MSI-X here, hence no vectors.
fn guest(kernel: &Kernel, initrd: &Path, socket: &Path) -> Running {
    let mut machine = Machine::new(kernel, initrd);
    let chardev = format!("socket,id=c0,path={},reconnect=1", socket.display());
    machine.memory(128).machine("q35,memory-backend=mem").arguments([
        "-object",
        "memory-backend-memfd,id=mem,size=128M,share=on",
        "-chardev",
        &chardev,
        "-netdev",
        "vhost-user,id=n0,chardev=c0",
        "-device",
        "virtio-net-pci,netdev=n0,vectors=0,romfile=",
    ]);
    Running::start(&mut machine.command()).expect("QEMU starts")
}

fn is_fetched(line: &str) -> bool {
    line.trim_end() == "FETCHED"
}

/// Waits until a guest has fetched the other one's file, after this many lines of its console.
fn fetches(guest: &Running, after: usize) {
    let end = std::time::Instant::now() + PATIENCE;
    while !guest.lines(after).iter().any(|line| is_fetched(line)) {
        assert!(std::time::Instant::now() < end, "{:#?}", guest.lines(0));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns true if the guest's driver negotiated this feature.
fn has_feature(guest: &Running, bit: usize) -> bool {
    let said = guest.lines(0);
    let features = said.iter().find_map(|line| line.strip_prefix("FEATURES ")).expect("it told its features");
    features.as_bytes().get(bit) == Some(&b'1')
}

/// Returns the guests' kernel, if it can be had.
fn kernel() -> Option<Kernel> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let kernel = Kernel::obtain(&target.join("box"));
    kernel.inspect_err(|why| println!("SKIPPED: {why:#}")).ok()
}

/// Entries of a ring of the router.
const RING: u64 = 1024;

mod all {
    use super::*;

    #[test]
    fn stock_guests_talk_tcp_through_a_router_and_one_is_killed_meanwhile() {
        support::needs!(Root, Kvm, Program("qemu-system-x86_64"), Program("busybox"));
        let Some(kernel) = kernel() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        let text = "[[router]]\nname = 't26q'\n".to_owned()
            + &nic("a", &a, "192.0.2.1/24", true)
            + &nic("b", &b, "198.51.100.1/24", false);
        let stage = Stage::start(BINARY, &text).expect("it starts");
        let initrd = |own, settings| archive(&kernel, folder.path(), own, settings).expect("an archive");
        let initrd_a = initrd("192.0.2.2", "ROUTER=192.0.2.1 OTHER=198.51.100.2");
        let initrd_b = initrd("198.51.100.2", "ROUTER=198.51.100.1 OTHER=192.0.2.2");
        let (guest_a, mut guest_b) = (guest(&kernel, &initrd_a, &a), guest(&kernel, &initrd_b, &b));
        fetches(&guest_a, 0);
        fetches(&guest_b, 0);
        for (guest, offload) in [(&guest_a, true), (&guest_b, false)] {
            // Features CSUM and HOST_TSO4.
            assert_eq!([0, 11].map(|bit| has_feature(guest, bit)), [offload; 2]);
        }
        // Kill it while both fetch.
        guest_b.signal(Signal::KILL).expect("it runs");
        guest_b.wait(PATIENCE).expect("it is dead");
        let guest_b = guest(&kernel, &initrd_b, &b);
        let before = guest_a.lines(0).len();
        fetches(&guest_b, 0);
        fetches(&guest_a, before);
        drop((guest_a, guest_b));
        let done = stage.finish_troubled(Vec::new()).expect("it ends well, and leaves nothing");
        let counters =
            Counters::of(done.stdout.lines().filter(|line| line.contains("counters"))).expect("counters");
        let count = |name: &str| counters.get(&format!("t26q.{name}"));
        // Large frames came from one guest, and were segmented for the other, which sent none.
        assert!(count("a.guest.tx.left_segments") > 20, "{counters:?}");
        assert_eq!(count("b.guest.tx.left_segments"), 0);
        assert!(
            count("b.guest.rx.bytes") > 4_000_000 && count("a.guest.rx.bytes") > 4_000_000,
            "{counters:?}"
        );
        assert!(count("b.guest.rx.bytes") <= 1514 * count("b.guest.rx.frames"), "{counters:?}");
        // Both guests were killed in traffic: frames that were on their way to them wait in the router's rings for the next
        // ones.
        let waiting = counters.sum(|name| name.starts_with("t26q.vcpu0.") && name.ends_with(".tx_frames"))
            - count("a.tx.frames")
            - count("b.tx.frames");
        assert!(waiting <= 2 * RING, "{waiting} frames: {counters:?}");
        let mut faults = counters.faults("t26q");
        faults.retain(|fault| waiting == 0 || !fault.contains("host tx.frames"));
        assert_eq!(faults, [""; 0]);
    }

    #[test]
    fn stock_guests_have_vlans_with_large_frames() {
        support::needs!(Root, Kvm, Program("qemu-system-x86_64"), Program("busybox"));
        let Some(kernel) = kernel() else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
        let nic = |name: &str, socket: &Path, address: &str| {
            format!(
                "[[router.nic]]\nname = '{name}'\nattach = 'vhost-user-backend:{}'\nmtu = 9000\n\
                 [[router.interface]]\nname = 'vlan-{name}'\nnic = '{name}'\nvlan = 100\naddress = '{address}'\n",
                socket.display()
            )
        };
        let text = "[[router]]\nname = 't26v'\n".to_owned()
            + &nic("a", &a, "192.0.2.1/24")
            + &nic("b", &b, "198.51.100.1/24");
        let stage = Stage::start(BINARY, &text).expect("it starts");
        let initrd = |own, settings| archive(&kernel, folder.path(), own, settings).expect("an archive");
        let initrd_a = initrd("192.0.2.2", "ROUTER=192.0.2.1 OTHER=198.51.100.2 LARGE=8900");
        let initrd_b = initrd("198.51.100.2", "ROUTER=198.51.100.1 OTHER=192.0.2.2 LARGE=8900");
        let guests = [guest(&kernel, &initrd_a, &a), guest(&kernel, &initrd_b, &b)];
        guests.iter().for_each(|guest| fetches(guest, 0));
        drop(guests);
        stage.finish_troubled(Vec::new()).expect("it ends well, and leaves nothing");
    }
}
