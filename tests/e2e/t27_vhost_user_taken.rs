//! Objective: a peer that was handed a router's memory takes its huge pages for itself. That router ends, with a line, and is
//! restarted; the data plane survives, and the router beside it loses nothing.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::Errno;
use support::attack::be_handed;
use support::{Flow, HugePages, Stage, children_of};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const MEMORY: u64 = 32 << 20;
/// Huge pages for both routers' memory, and none to spare.
const PAGES: u32 = (2 * MEMORY / (2 << 20)) as u32;
/// Datagrams a second.
const RATE: u32 = 1000;

fn file(engine: &str) -> String {
    let nic = |name: &str, attach: &str, address: &str| {
        format!("[[router.nic]]\nname = '{name}'\nattach = '{attach}'\naddress = '{address}'\n")
    };
    format!("[[router]]\nname = 't27t'\nengine = '{engine}'\n")
        + &nic("wan", "vhost-user-frontend:v.sock", "192.0.2.1/24")
        + "[[router]]\nname = 't27n'\n"
        + &nic("left", "tap:t27n-left", "198.51.100.1/24")
        + "queue_len = 4096\n"
        + &nic("right", "tap:t27n-right", "203.0.113.1/24")
}

/// Frees all pages of a file and takes them for another one.
fn take(memory: &File) -> File {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(memory, hole, 0, MEMORY).expect("a hole");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let thief = File::from(memfd_create("thief", flags).expect("a file"));
    thief.set_len(MEMORY).expect("a size");
    let end = Instant::now() + PATIENCE;
    // Pages that the router accesses meanwhile are allocated again.
    while fallocate(&thief, FallocateFlags::empty(), 0, MEMORY).is_err() {
        assert!(Instant::now() < end, "the router keeps its pages");
        fallocate(memory, hole, 0, MEMORY).expect("a hole");
    }
    thief
}

fn plane(run: u32) -> u32 {
    let plane =
        children_of(run).into_iter().find(|child| child.words.iter().any(|word| word == "data-plane"));
    plane.expect("a data plane").id
}

fn is_told(stage: &mut Stage, what: &str) {
    let end = Instant::now() + PATIENCE;
    while !stage.run().stderr_lines(0).iter().any(|line| line.contains(what)) {
        assert!(Instant::now() < end, "never {what:?}: {:?}", stage.run().stderr_lines(0));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Takes one router's memory away while another one forwards.
fn takes_the_memory(engine: &str) {
    let Some(_pages) = HugePages::set(PAGES) else {
        println!("SKIPPED: this host does not give {PAGES} huge pages");
        return;
    };
    let mut stage = Stage::start(BINARY, &file(engine)).expect("it starts");
    let left = stage.host("t27n-left", "198.51.100.2/24", "198.51.100.1").expect("left");
    let right = stage.host("t27n-right", "203.0.113.2/24", "203.0.113.1").expect("right");
    let address: SocketAddr = "203.0.113.2:7027".parse().expect("an address");
    let flow = Flow::start(&left, &right, address, RATE).expect("a flow");
    flow.reaches(100, PATIENCE).expect("it flows");
    assert_eq!(HugePages::free(), 0, "both routers are in huge pages");
    let before = plane(stage.run().id());
    let listener = UnixListener::bind(stage.path("v.sock")).expect("a socket");
    let (peer, _) = listener.accept().expect("somebody comes");
    let memory = be_handed(&peer).expect("the memory");
    drop(listener);
    let sealed = rustix::fs::fcntl_add_seals(&memory, rustix::fs::SealFlags::FUTURE_WRITE);
    assert_eq!(sealed, Err(Errno::PERM), "nobody else seals it");
    let thief = take(&memory);
    is_told(&mut stage, "/t27t: failed: ");
    is_told(&mut stage, "/t27t: restarting");
    flow.reaches(flow.so_far().received + u64::from(RATE), PATIENCE).expect("the router beside it goes on");
    assert_eq!(plane(stage.run().id()), before, "the same data plane");
    let tally = flow.stop().expect("it ends");
    assert_eq!((tally.lost(), tally.repeated), (0, 0), "{tally:?}");
    drop((peer, memory, thief));
    stage.finish_troubled(vec![left, right]).expect("it ends well, and leaves nothing");
}

mod alone {
    use super::*;

    #[test]
    fn a_peer_takes_the_memory_that_it_was_handed() {
        support::needs!(Root, Kvm, Tun);
        takes_the_memory("kvm");
    }

    mod all {
        use super::*;

        #[test]
        fn a_peer_takes_the_memory_of_a_process() {
            support::needs!(Root, Kvm, Tun);
            takes_the_memory("process");
        }
    }
}
