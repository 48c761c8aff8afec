//! Attackers that are neither vhost-user peers nor guests: users of the host, owners that issue many requests,
//! hosts on a wire.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use api::{Client, Request};
use support::attack::Attack;
use support::{PacketSocket, UnprivilegedLocker, all_below};

use super::scene::{Scene, VictimConfig};

/// TAP of the attacked router, whose other end a host has.
const WIRE: &str = "attack-tap";
/// Its MTU, which a host restores.
const MTU: &str = "1500";
/// Timeout of `ip`.
const PATIENCE: Duration = Duration::from_secs(60);
/// Threads created in one act.
const BURST: u32 = 200;

/// Owner that issues requests, one after the other.
pub(super) struct Owner {
    client: Client,
    requests: Vec<Request>,
    turn: usize,
}

impl Owner {
    pub(super) fn new(scene: &mut Scene, requests: Vec<Request>) -> Result<Self> {
        Ok(Self { client: scene.client()?, requests, turn: 0 })
    }

    /// Issues the next request; returns true if it succeeded.
    fn ask(&mut self) -> bool {
        let request = &self.requests[self.turn % self.requests.len()];
        self.turn += 1;
        self.client.ask(request).is_ok()
    }
}

impl Attack for Owner {
    fn act(&mut self, _: Instant) -> Result<bool> {
        Ok(self.ask())
    }
}

pub(super) fn set(key: &str, value: &str) -> Request {
    Request::Set { router: "bad".to_owned(), key: key.to_owned(), value: value.to_owned() }
}

pub(super) fn apply(site: VictimConfig) -> Request {
    Request::Apply { file: "attacks.toml".to_owned(), text: site.file(), dry_run: false }
}

/// User of the host that holds locks on every file that it may open, while an owner applies files.
pub(super) struct Locks {
    owner: Owner,
    places: Vec<PathBuf>,
    held: Option<UnprivilegedLocker>,
}

impl Locks {
    pub(super) fn new(scene: &mut Scene, requests: Vec<Request>) -> Result<Self> {
        let owner = Owner::new(scene, requests)?;
        let places = vec!["/sys/fs/cgroup".into(), "/run/ringroad".into(), scene.stage.path("")];
        Ok(Self { owner, places, held: None })
    }
}

impl Attack for Locks {
    fn act(&mut self, _: Instant) -> Result<bool> {
        if self.held.is_none() {
            let files = self.places.iter().flat_map(|place| all_below(place));
            self.held = Some(UnprivilegedLocker::lock("-x", files.filter(|path| path.is_dir()))?);
        }
        Ok(self.owner.ask())
    }

    fn rest(&mut self) -> Result<()> {
        self.held = None;
        Ok(())
    }
}

/// Threads that are created and exit, so that thread IDs are reused, while a router is restarted.
pub(super) struct Threads(pub(super) Owner);

impl Attack for Threads {
    fn act(&mut self, until: Instant) -> Result<bool> {
        for _ in 0..BURST {
            thread::Builder::new().spawn(|| ())?.join().map_err(|_| anyhow!("a panic"))?;
        }
        Ok(Instant::now() < until && self.0.ask())
    }
}

/// Host that sends broadcasts and ARP requests as fast as its TAP accepts them.
pub(super) struct Storm {
    wire: PacketSocket,
    number: u32,
}

impl Storm {
    pub(super) fn new(scene: &mut Scene) -> Result<Self> {
        let host = scene.host(WIRE)?;
        let wire = PacketSocket::open(&host, WIRE)?;
        scene.hosts.push(host);
        Ok(Self { wire, number: 0 })
    }

    /// Builds an ARP request for the router's address, from a different station each time.
    fn question(&self) -> Vec<u8> {
        let [_, a, b, c] = self.number.to_be_bytes();
        let station = [2, 0, 0x36, a, b, c];
        let head = [&[0xff; 6][..], &station, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        let mut frame = [&head[..], &station, &[10, 2, 2, 3 + c % 250], &[0; 6], &[10, 2, 2, 1]].concat();
        frame.resize(60, 0);
        frame
    }
}

impl Attack for Storm {
    fn act(&mut self, _: Instant) -> Result<bool> {
        for _ in 0..BURST {
            self.number = self.number.wrapping_add(1);
            self.wire.send(&self.question())?;
        }
        Ok(true)
    }
}

/// Host that sets its end of a TAP down and up, and changes its MTU.
pub(super) struct Flaps {
    /// Name of the host's namespace.
    host: String,
    turn: usize,
}

impl Flaps {
    /// Changes in turn, as arguments of `ip link set`.
    const CHANGES: [&[&str]; 5] = [&["down"], &["up"], &["mtu", "9000"], &["mtu", "68"], &["mtu", MTU]];

    pub(super) fn new(scene: &mut Scene) -> Result<Self> {
        let host = scene.host(WIRE)?;
        let name = host.name().to_owned();
        scene.hosts.push(host);
        Ok(Self { host: name, turn: 0 })
    }

    fn change(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.host, "link", "set", WIRE]).args(words);
        let done = support::run(&mut command, PATIENCE)?;
        ensure!(done.status.success(), "ip link set {WIRE} {}: {}", words.join(" "), done.stderr);
        Ok(())
    }
}

impl Attack for Flaps {
    fn act(&mut self, _: Instant) -> Result<bool> {
        self.change(Self::CHANGES[self.turn % Self::CHANGES.len()])?;
        self.turn += 1;
        Ok(true)
    }

    fn rest(&mut self) -> Result<()> {
        self.change(&["mtu", MTU, "up"])
    }
}
