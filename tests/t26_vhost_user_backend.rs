//! Objective: a NIC of a router is the network card of other programs' virtual machines: DPDK's driver with all its ways to
//! lay out a ring, and stock QEMU with Debian's kernel, two of which talk TCP through one router. Peers are killed and
//! started anew while frames pass, and peers that break the protocol harm nobody but themselves.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hostbox::{Initramfs, Kernel, Machine};
use support::{Counters, Namespace, Running, Signal, Stage, children_of};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(40);
/// Nor does a guest under software emulation.
const GUEST_PATIENCE: Duration = Duration::from_secs(150);
/// Where testpmd answers.
const PEER: &str = "192.0.2.9";

fn nic(name: &str, attach: &str, address: &str, more: &str) -> String {
    format!("[[router.nic]]\nname = \"{name}\"\nattach = \"{attach}\"\naddress = \"{address}\"\n{more}\n")
}

/// A router between a socket and a host of the kernel's.
fn file(socket: &Path, more: &str) -> String {
    let guest = format!("vhost-user-backend:{}", socket.display());
    format!("[[router]]\nname = \"t26\"\n{more}\n")
        + &nic("guest", &guest, "192.0.2.1/24", "")
        + &nic("host", "tap:t26-host", "198.51.100.1/24", "")
}

struct Scene {
    stage: Stage,
    host: Namespace,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn set(more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("guest.sock");
        let mut stage =
            Stage::start_with(BINARY, &file(&socket, more), &["--json", "--log", "text"]).expect("it starts");
        let host = stage.host("t26-host", "198.51.100.2/24", "198.51.100.1").expect("a host");
        Self { stage, host, socket, _folder: folder }
    }

    fn answers(&self) -> bool {
        answers(&self.host, PEER)
    }

    /// So many echoes of so many octets, of which nearly all come back: a busy host may drop one.
    fn echoes(&self, count: u32, octets: u32) -> u32 {
        (0..count).filter(|_| self.echo(octets)).count() as u32
    }

    fn echo(&self, octets: u32) -> bool {
        let mut command = self.host.command("busybox");
        command.args(["ping", "-c", "1", "-w", "2", "-s", &octets.to_string(), PEER]);
        support::run(&mut command, PATIENCE).expect("ping ends").status.success()
    }

    /// Descriptors, and mappings of peers' memory, of the process that has the rings.
    fn held(&mut self) -> (usize, usize) {
        let plane = children_of(self.stage.run().id());
        let all = plane.iter().map(|plane| {
            let fds = fs::read_dir(format!("/proc/{}/fd", plane.id)).map_or(0, Iterator::count);
            let maps = fs::read_to_string(format!("/proc/{}/maps", plane.id)).unwrap_or_default();
            (fds, maps.lines().filter(|line| line.contains("rtemap") || line.contains("memseg")).count())
        });
        all.max().expect("a data plane")
    }

    fn complains(&mut self, of: &str) {
        let run = self.stage.run();
        wait_for(of, || run.complaints(0).iter().any(|line| line.contains(of)));
    }

    fn end(self) {
        let done = self.stage.finish_troubled(vec![self.host]).expect("it ends well, and leaves nothing");
        assert!(done.status.success(), "{}", done.stderr);
        assert!(!self.socket.exists(), "the socket is gone");
    }
}

fn answers(from: &Namespace, to: &str) -> bool {
    let mut command = from.command("busybox");
    command.args(["ping", "-c", "1", "-w", "1", to]);
    support::run(&mut command, PATIENCE).expect("ping ends").status.success()
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "in vain: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// testpmd, which answers ARP and echoes by DPDK's driver of virtio, in a process that plays a guest.
struct Testpmd {
    run: Running,
    prefix: String,
}

impl Testpmd {
    fn start(socket: &Path, driver: &str, queues: u32) -> Self {
        let prefix = format!("t26-{}", std::process::id());
        let device = format!("net_virtio_user0,path={},queues={queues}{driver}", socket.display());
        let mut command = Command::new("dpdk-testpmd");
        command.args(["--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--file-prefix", &prefix]);
        command.args(["--lcores", "(0,1)@0", "--vdev", &device, "--", "--forward-mode=icmpecho"]);
        command.args(["--auto-start", "--total-num-mbufs=2048", "--stats-period=5"]);
        let (rxq, txq) = (format!("--rxq={queues}"), format!("--txq={queues}"));
        command.args([rxq, txq]);
        Self { run: Running::start(&mut command).expect("testpmd starts"), prefix }
    }

    fn kill(mut self) {
        self.run.signal(Signal::KILL).expect("it runs");
        self.run.wait(PATIENCE).expect("it is dead");
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(format!("/var/run/dpdk/{}", self.prefix));
    }
}

#[test]
fn dpdk_s_driver_with_every_layout_of_its_rings() {
    support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
    let scene = Scene::set("");
    // Packed rings are not offered: the driver takes split ones.
    let drivers = [
        "",
        ",packed_vq=1",
        ",in_order=1",
        ",in_order=0,mrg_rxbuf=0",
        ",mrg_rxbuf=0,in_order=1,vectorized=1",
    ];
    for driver in drivers {
        let peer = Testpmd::start(&scene.socket, driver, 1);
        wait_for("an answer", || scene.answers());
        for octets in [0, 56, 1472] {
            assert!(scene.echoes(5, octets) >= 4, "{driver:?}, {octets} octets");
        }
        peer.kill();
    }
    scene.end();
}

#[test]
fn several_pairs_of_queues() {
    support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
    let scene = Scene::set("vcpus = 2");
    let peer = Testpmd::start(&scene.socket, "", 2);
    wait_for("an answer", || scene.answers());
    assert!(scene.echoes(10, 56) >= 9);
    peer.kill();
    scene.end();
}

#[test]
fn a_peer_that_is_killed_comes_again_and_nothing_is_left_of_it() {
    support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
    let mut scene = Scene::set("");
    let mut held = Vec::new();
    for _ in 0..4 {
        let peer = Testpmd::start(&scene.socket, "", 1);
        wait_for("an answer", || scene.answers());
        held.push(scene.held());
        // In the middle of an echo.
        let mut flood = scene.host.command("busybox");
        let flood = flood.args(["ping", "-c", "200", "-i", "0.01", "-w", "3", PEER]);
        let flood = Running::start(flood).expect("ping starts");
        sleep(Duration::from_millis(200));
        peer.kill();
        drop(flood);
    }
    assert!(held.iter().skip(1).all(|now| *now == held[0]), "{held:?}");
    scene.complains("the peer is gone");
    scene.end();
}

/// A header of the protocol.
fn header(request: u32, flags: u32, size: u32) -> Vec<u8> {
    [request, flags, size].iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn peers_that_break_the_protocol_are_sent_away_and_the_next_one_is_served() {
    support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
    let mut scene = Scene::set("");
    let long = header(5, 1, 5000);
    let no_table = [header(5, 1, 40), vec![1; 40]].concat();
    let unknown = header(77, 1, 0);
    for (octets, told) in [(long, "5000 octets"), (no_table, "SET_MEM_TABLE"), (unknown, "request number 77")]
    {
        let mut peer = UnixStream::connect(&scene.socket).expect("it listens");
        peer.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        peer.write_all(&octets).expect("it is read");
        let mut rest = Vec::new();
        // A reset is an end as well: what it had sent was not all read.
        let _ = peer.read_to_end(&mut rest);
        scene.complains(told);
    }
    // One that says half a message and goes, and one that says nothing at all.
    let mut torn = UnixStream::connect(&scene.socket).expect("it listens");
    torn.write_all(&header(1, 1, 0)[..7]).expect("it is read");
    drop(torn);
    scene.complains("in the middle of a message");
    drop(UnixStream::connect(&scene.socket).expect("it listens"));
    assert!(answers(&scene.host, "198.51.100.1"), "the other port goes on");
    let peer = Testpmd::start(&scene.socket, "", 1);
    wait_for("an answer", || scene.answers());
    peer.kill();
    scene.end();
}

/// What a stock guest does: it serves a file and fetches the one of the other guest.
const GUEST: &str = r#"
ip link set eth0 up && ip address add $OWN/24 dev eth0 && ip route add default via $ROUTER || exit 1
echo "FEATURES $(cat /sys/bus/virtio/devices/virtio0/features)"
dd if=/dev/urandom of=/file bs=64k count=32 2>/dev/null
md5sum < /file > /sum
mkfifo /open && { sleep 1000 > /open & }
serve() { while :; do nc -l -p $1 < $2 >/dev/null; done & }
fetch() { nc $OTHER $1 < /open > $2 && [ -s $2 ]; }
serve 7001 /file && serve 7002 /sum
n=0
until ping -c 1 -W 1 $OTHER >/dev/null; do n=$((n + 1)); [ $n -gt 60 ] && exit 2; done
echo PINGED
until fetch 7002 /other; do n=$((n + 1)); [ $n -gt 60 ] && exit 3; sleep 1; done
fetch 7001 /got || exit 4
[ "$(md5sum < /got)" = "$(cat /other)" ] || exit 5
echo FETCHED
# Until it is switched off: the other one may still fetch.
sleep 1000
exit 0
"#;

fn archive(kernel: &Kernel, folder: &Path, own: &str, router: &str, other: &str) -> anyhow::Result<PathBuf> {
    let mut files = Initramfs::new();
    files.program("busybox")?.modules(kernel, &["virtio_pci", "virtio_net"])?;
    files.init(&format!("OWN={own} ROUTER={router} OTHER={other}\n{GUEST}"));
    let to = folder.join(format!("{own}.cpio"));
    files.write(&to).map(|()| to)
}

/// Runs a guest at a socket until it has fetched the other one's file. QEMU 7.2 without KVM cannot do with MSI-X here, hence
/// no vectors.
fn guest(kernel: &Kernel, initrd: &Path, socket: &Path) -> Running {
    let mut machine = Machine::new(kernel, initrd);
    let chardev = format!("socket,id=c0,path={},reconnect=1", socket.display());
    machine.memory(192).machine("q35,memory-backend=mem").arguments([
        "-object",
        "memory-backend-memfd,id=mem,size=192M,share=on",
        "-chardev",
        &chardev,
        "-netdev",
        "vhost-user,id=n0,chardev=c0",
        "-device",
        "virtio-net-pci,netdev=n0,vectors=0,romfile=",
    ]);
    let mut run = Running::start(&mut machine.command()).expect("QEMU starts");
    let fetched = run.wait_for_line(GUEST_PATIENCE, |line| line.trim_end() == "FETCHED");
    assert!(fetched.is_ok(), "{:#?}", run.lines(0));
    run
}

/// Whether the guest's driver agreed on this feature.
fn has_feature(said: &[String], bit: usize) -> bool {
    let features = said.iter().find_map(|line| line.strip_prefix("FEATURES ")).expect("it told its features");
    features.as_bytes().get(bit) == Some(&b'1')
}

fn two_guests(kernel: &Kernel, offload: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let more = format!("offload = {offload}");
    let attach = sockets.each_ref().map(|socket| format!("vhost-user-backend:{}", socket.display()));
    let text = "[[router]]\nname = \"t26\"\n".to_owned()
        + &nic("a", &attach[0], "192.0.2.1/24", &more)
        + &nic("b", &attach[1], "198.51.100.1/24", &more);
    let stage = Stage::start(BINARY, &text).expect("it starts");
    let initrd = |own, router, other| archive(kernel, folder.path(), own, router, other).expect("an archive");
    let initrds = [
        initrd("192.0.2.2", "192.0.2.1", "198.51.100.2"),
        initrd("198.51.100.2", "198.51.100.1", "192.0.2.2"),
    ];
    std::thread::scope(|scope| {
        let pairs = initrds.iter().zip(&sockets);
        let guests: Vec<_> =
            pairs.map(|(initrd, socket)| scope.spawn(move || guest(kernel, initrd, socket))).collect();
        let guests: Vec<Running> =
            guests.into_iter().map(|guest| guest.join().expect("it went well")).collect();
        for guest in &guests {
            // CSUM and HOST_TSO4.
            assert_eq!([0, 11].map(|bit| has_feature(&guest.lines(0), bit)), [offload; 2]);
        }
    });
    let done = stage.finish_troubled(Vec::new()).expect("it ends well, and leaves nothing");
    let counters =
        Counters::of(done.stdout.lines().filter(|line| line.contains("counters"))).expect("counters");
    let (frames, bytes) = (counters.get("t26.a.guest.tx.frames"), counters.get("t26.a.guest.tx.bytes"));
    assert!(bytes > 2_000_000, "a file of 2 MiB went through: {counters:?}");
    assert_eq!(bytes > 1600 * frames, offload, "{bytes} octets in {frames} frames");
    assert_eq!(counters.faults("t26"), [""; 0]);
}

#[test]
fn two_stock_guests_talk_tcp_through_a_router_with_offloads_and_without() {
    support::needs!(Root, Kvm, Program("qemu-system-x86_64"), Program("busybox"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target folder");
    let kernel = match Kernel::obtain(&target.join("box")) {
        Ok(kernel) => kernel,
        Err(why) => {
            println!("SKIPPED: {why:#}");
            return;
        }
    };
    [true, false].into_iter().for_each(|offload| two_guests(&kernel, offload));
}
