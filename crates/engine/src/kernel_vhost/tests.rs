//! Re-creation of a deleted link under a NIC that the kernel serves. The vhost-net device is scripted: it
//! records at which queues it was told to serve, and whether the kernel had the interface of those queues.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nic::virtio_net::{QueueRole, QueueSetup};
use nic_port::{ExportedQueue, Memory, NicQueues, SetUp};
use ring::Region;
use uplink::{Netns, TapConfig};

use super::*;

/// Record of starts, each with whether the interface existed, and of stops (`None`).
type Told = Arc<Mutex<Vec<Option<bool>>>>;

struct Scripted(Told);

impl Scripted {
    fn note(&self, what: Option<bool>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

impl Device for Scripted {
    fn begin(&self, _: &Arc<SetUp>, pair: [&ExportedQueue; 2], queue: &OwnedFd) -> Result<()> {
        assert_eq!(pair.map(|ring| ring.index), [0, 1]);
        let copy = vec![queue.try_clone()?];
        self.note(Some(Tap::from_descriptors("t0", copy, Default::default())?.is_there()));
        Ok(())
    }

    fn end(&self) {
        self.note(None);
    }
}

/// Guest memory that is never accessed by the scripted device.
struct Unread;

impl Memory for Unread {
    fn region(&self) -> Region {
        unreachable!("nobody reads it")
    }

    fn octets(&self) -> usize {
        0
    }

    fn share_file(&self) -> io::Result<&File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The set-up that a driver makes with one queue pair.
fn set_up() -> SetUp {
    let queues = NicQueues::foreign(1).expect("descriptors");
    let ring = |index, role| {
        let (layout, features) = Default::default();
        ExportedQueue::new(&QueueSetup { index, role, layout, features, vector: None }, &queues, None)
    };
    let rings = vec![ring(0, QueueRole::Receive(0)), ring(1, QueueRole::Transmit(0))];
    SetUp::new(0, rings, Arc::new(Unread))
}

/// Returns a network namespace if the host permits interfaces to be made; otherwise prints why not.
fn namespace() -> Option<Netns> {
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/net/tun").exists();
    let netns = Netns::new().ok().filter(|_| able);
    if netns.is_none() {
        println!("SKIPPED: needs root, /dev/net/tun and network namespaces");
    }
    netns
}

fn tap(netns: &Netns, queues: u16) -> Tap {
    Tap::open("t0", &TapConfig { queues, netns: Some(netns), ..TapConfig::default() }).expect("a TAP")
}

fn handed(tap: Tap) -> HandedOver {
    HandedOver::of(attach::link(tap).hand_over()).expect("descriptors")
}

/// A NIC with one queue pair that the kernel serves at an interface.
fn served(told: &Told, tap: Tap) -> KernelNic {
    let queues = tap.descriptors().map(|queue| queue.try_clone_to_owned()).collect::<Result<_, _>>();
    let devices: Vec<Arc<dyn Device>> = vec![Arc::new(Scripted(told.clone()))];
    let receiver = KernelVhost::new(devices, queues.expect("descriptors")).expect("one of each");
    KernelNic { receiver, threads: Vec::new(), names: Vec::new(), tap }
}

#[test]
fn a_link_that_is_there_again_is_served_on_and_one_that_does_not_fit_is_refused() {
    let Some(netns) = namespace() else { return };
    let told = Told::default();
    let all = || std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    let nic = served(&told, tap(&netns, 1));
    let (_, receiver) = nic.consumer().expect("the kernel takes its rings");
    receiver.begin(set_up());
    assert_eq!((all(), nic.fault()), (vec![Some(true)], None));
    let mut delete = netns.command("ip");
    assert!(delete.args(["link", "delete", "t0"]).status().expect("ip").success());
    assert!(!nic.tap.is_there());
    assert!(nic.replace(handed(tap(&netns, 2))).is_err(), "it has another number of queues");
    assert!(!nic.tap.is_there() && all().is_empty(), "nothing was touched");
    nic.replace(handed(tap(&netns, 1))).expect("it is put there");
    assert_eq!((all(), nic.fault()), (vec![None, Some(true)], None));
    assert!(nic.tap.is_there());
    receiver.end();
    assert_eq!(all(), [None]);
    // No guest uses the NIC now: the next link is only stored.
    assert!(netns.command("ip").args(["link", "delete", "t0"]).status().expect("ip").success());
    nic.replace(handed(tap(&netns, 1))).expect("it is put there");
    assert_eq!(all(), [None]);
}
