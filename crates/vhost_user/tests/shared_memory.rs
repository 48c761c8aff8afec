//! Limits of the memory that a peer may share, tested over its socket and under the seccomp filter of its
//! thread.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use door::Door;
use rustix::fs::{MemfdFlags, memfd_create};
use sandbox::Confinement;
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo};
use vhost_user::backend::{Backend, News, Offer};

/// Time limit of every wait, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const TIB: u64 = 1 << 40;
/// Default of `memory_max` in a file.
const MEMORY_MAX: u64 = 64 << 30;

struct Scene {
    backend: Backend,
    folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let door = Door::listen(&folder.path().join("vm.sock")).expect("a socket");
        let offer = Offer { pairs: 1, longest: 1518, offload: false, memory_max: MEMORY_MAX };
        let backend = Backend::start("memory-peer", door, offer, Confinement::On).expect("a thread");
        Self { backend, folder }
    }

    /// Shares these ranges, each of a file of its own, and returns the peer's answer.
    fn share(&self, octets: u64, files: &[File]) -> Result<(), vhost::Error> {
        let socket = UnixStream::connect(self.folder.path().join("vm.sock")).expect("it listens");
        let mut peer = Frontend::from_stream(socket, 2);
        peer.set_owner()?;
        peer.get_features()?;
        peer.get_protocol_features()?;
        peer.set_protocol_features(VhostUserProtocolFeatures::REPLY_ACK)?;
        peer.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        let range = |(number, file): (u64, &File)| VhostUserMemoryRegionInfo {
            guest_phys_addr: number * octets,
            memory_size: octets,
            userspace_addr: number * octets,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        let table: Vec<_> = (0..).zip(files).map(range).collect();
        peer.set_mem_table(&table).map(drop)
    }

    fn told(&self) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(News::Fault(line)) = self.backend.look_after() {
                return line;
            }
            assert!(Instant::now() < end, "nothing was told");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn memory(octets: u64) -> File {
    let file = File::from(memfd_create("shared", MemfdFlags::CLOEXEC).expect("a file"));
    file.set_len(octets).expect("a sparse file");
    file
}

/// Returns the octets of address space in which files of these tests are mapped.
fn mapped() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("an address");
    let ours = maps.lines().filter(|line| line.contains("/memfd:shared"));
    let spans = ours.filter_map(|line| line.split(' ').next()?.split_once('-'));
    spans.map(|(first, last)| number(last) - number(first)).sum()
}

#[test]
fn more_than_may_be_shared_is_refused_in_one_line_before_any_of_it_is_mapped() {
    let scene = Scene::set();
    let files: Vec<_> = (0..32).map(|_| memory(TIB)).collect();
    scene.share(TIB, &files).expect_err("32 TiB are too much");
    let line = scene.told();
    let why = "a memory table of 32768 GiB, and at most 64 GiB may be shared (memory_max)";
    assert!(line.contains(why) && !line.contains('\n'), "{line}");
    assert_eq!(mapped(), 0);
    // The next peer, with as much as is permitted.
    let half = [memory(MEMORY_MAX / 2), memory(MEMORY_MAX / 2)];
    scene.share(MEMORY_MAX / 2, &half).expect("it may be shared");
}

#[test]
fn a_file_on_disk_is_refused_in_one_line() {
    let scene = Scene::set();
    let disk = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file on disk");
    disk.set_len(1 << 20).expect("a size");
    scene.share(1 << 20, &[disk]).expect_err("it is no memory");
    let line = scene.told();
    assert!(line.contains("not of tmpfs, hugetlbfs or memfd_create(2)") && !line.contains('\n'), "{line}");
}

#[test]
fn a_file_of_tmpfs_is_memory() {
    let scene = Scene::set();
    let file = tempfile::tempfile_in("/dev/shm").expect("a file of tmpfs");
    file.set_len(1 << 20).expect("a size");
    scene.share(1 << 20, &[file]).expect("as QEMU shares it");
}
