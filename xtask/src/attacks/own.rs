//! Attackers that are neither vhost-user peers nor guests: users of the host, owners that issue many requests,
//! hosts on a wire.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use api::{Client, Request};
use support::attack::Attack;
use support::{PacketSocket, UnprivilegedLocker, all_below};

use super::scene::{NAME, Scene, VictimConfig};

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Simultaneous clients: one less than the run accepts, in addition to the two that measure.
const CLIENTS: usize = 13;
/// Simultaneous scrapers.
const SCRAPERS: usize = 64;
/// Socket of the telemetry.
const METRICS: &str = "/run/ringroad-attacks.sock";
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

/// Clients that send as many requests as they can and read no answers.
pub(super) struct NonReadingClients {
    socket: PathBuf,
    question: Vec<u8>,
    clients: Vec<Option<UnixStream>>,
}

impl NonReadingClients {
    /// Clients of the control socket.
    pub(super) fn control() -> Result<Self> {
        let socket = Path::new("/run/ringroad/runs").join(NAME).join("control");
        let question = api::encode_request(&Request::Show { router: "near".to_owned() })?;
        Ok(Self { socket, question, clients: (0..CLIENTS).map(|_| None).collect() })
    }

    /// Clients of the telemetry.
    pub(super) fn telemetry() -> Self {
        let question = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
        let clients = (0..SCRAPERS).map(|_| None).collect();
        Self { socket: METRICS.into(), question, clients }
    }
}

impl Attack for NonReadingClients {
    fn act(&mut self, until: Instant) -> Result<bool> {
        let mut asked = false;
        for client in &mut self.clients {
            if client.as_ref().is_some_and(is_left) {
                *client = None;
            }
            if client.is_none() && Instant::now() < until {
                *client = connect(&self.socket)?;
            }
            while let Some(stream) = client
                && Instant::now() < until
                && stream.write(&self.question).is_ok_and(|sent| sent == self.question.len())
            {
                asked = true;
            }
        }
        if !asked {
            sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(asked)
    }

    fn rest(&mut self) -> Result<()> {
        self.clients.iter_mut().for_each(|client| *client = None);
        Ok(())
    }
}

/// Opens a non-blocking connection; none if the listener's backlog is full.
fn connect(path: &Path) -> Result<Option<UnixStream>> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(Some(socket.into())),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Returns true if the peer has hung up. Its data is not read.
fn is_left(stream: &UnixStream) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(stream.as_fd(), PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Host that sends broadcasts and ARP requests as fast as its TAP accepts them.
pub(super) struct Storm {
    wire: PacketSocket,
    number: u32,
}

impl Storm {
    pub(super) fn new(scene: &mut Scene) -> Result<Self> {
        let host = scene.host("attack-tap")?;
        let wire = PacketSocket::open(&host, "attack-tap")?;
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
