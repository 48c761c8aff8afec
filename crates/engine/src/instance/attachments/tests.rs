use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use attach::HandedOver;
use config::Engine;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use vmm::{Child, Firmware, Forker, Spawn, Spawned};

use super::*;

/// Time limit of every wait: more than the search itself has (`LAUNCH_LIMIT`), whose time is that observed by looks.
const PATIENCE: Duration = Duration::from_secs(60);

/// Spawner that remembers the processes of the router `up`.
struct Mortal {
    forker: Forker,
    started: Mutex<Vec<i32>>,
}

impl Mortal {
    fn count(&self) -> usize {
        self.started.lock().expect("no panic").len()
    }

    fn kill_last(&self) {
        let pid =
            self.started.lock().expect("no panic").last().copied().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(pid.expect("a process"), rustix::process::Signal::KILL)
            .expect("it is there");
    }
}

impl Spawn for Mortal {
    fn spawn(&self, name: &str, firmware: Firmware) -> Result<Spawned> {
        let spawned = self.forker.spawn(name, firmware)?;
        if name == "up" {
            self.started.lock().expect("no panic").push(spawned.pid);
        }
        Ok(spawned)
    }

    fn kill(&self, process: &Child) {
        self.forker.kill(process);
    }
}

fn plan(text: &str) -> Plan {
    let mut plan = config::parse(text, "file.toml").expect("a good file");
    plan.routers.iter_mut().for_each(|router| router.engine = Some(Engine::Process));
    plan
}

const UP: &str = "[[router]]\nname = 'up'\n\
    [[router.nic]]\nname = 'in'\nattach = 'null'\naddress = '10.1.0.1/24'\n";

/// A router with a capture file to be replayed.
const SLOW: &str = "[[router]]\nname = 'slow'\n\
    [[router.nic]]\nname = 'out'\nattach = 'pcap:slow.pcap'\nreplay = 'gate'\naddress = '10.2.0.1/24'\n";

/// Attachment of its NIC with an eventfd in place of the file: reading it blocks until the test writes.
fn gated(gate: &OwnedFd) -> HandedOver {
    let capture = tempfile::tempfile().expect("a file").into();
    HandedOver {
        what: serde_json::json!([true, false]),
        descriptors: vec![capture, gate.try_clone().expect("a descriptor")],
    }
}

/// Lets the header of a capture file be read, eight octets at a time: magic, version; flags; length, link
/// type.
fn let_through(gate: &OwnedFd) {
    for word in [0x0004_0002_a1b2_c3d4, 1 << 32, 1 << 32 | 65_535_u64] {
        rustix::io::write(gate, &word.to_ne_bytes()).expect("it counts");
        // A second write before the read would be added to the counter.
        let waits = || poll(&mut [PollFd::new(gate, PollFlags::IN)], Some(&Timespec::default())) != Ok(0);
        while waits() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Another router is restarted while an `apply` is blocked by a file that is not read.
#[test]
fn others_are_looked_after_while_what_a_nic_is_plugged_into_is_found() {
    let forker = match Forker::new()
        .and_then(|forker| forker.spawn("trial", Firmware::Plain).map(|spawned| (forker, spawned)))
    {
        Ok((forker, trial)) => {
            vmm::process::end(&trial.pidfd);
            forker
        }
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    let mortal = Arc::new(Mortal { forker, started: Mutex::default() });
    let supplies = HostServices { spawner: Some(mortal.clone()), ..HostServices::default() };
    let mut instance = Instance::start(&plan(UP), supplies).expect("it starts");
    let file = UP.to_owned() + SLOW;
    let gate = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    let is_over = AtomicBool::new(false);
    let others_lived = std::thread::scope(|scope| {
        let player = scope.spawn(|| {
            mortal.kill_last();
            let start = Instant::now();
            while mortal.count() < 2 && !is_over.load(Ordering::Acquire) && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(2));
            }
            let others_lived = mortal.count() == 2 && !is_over.load(Ordering::Acquire);
            let_through(&gate);
            others_lived
        });
        let opened = [("slow.out".to_owned(), gated(&gate))].into();
        let supplies = HostServices { opened, ..HostServices::default() };
        let applied = instance.apply(&plan(&file), supplies);
        is_over.store(true, Ordering::Release);
        assert_eq!(applied.expect("it is applied").len(), 1);
        player.join().expect("no panic")
    });
    assert!(others_lived, "nobody looked after the others");
}
