//! Attackers at the sockets of a run: clients that read no answers, and clients that do not end their requests.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::{LONGEST_APPLY, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::attack::Attack;

use super::own::Owner;
use super::scene::{NAME, Scene, VictimConfig};

/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// Simultaneous clients: one less than the run accepts, in addition to the two that measure.
const CLIENTS: usize = 13;
/// Clients beside one more that comes and goes, or beside an owner.
const OTHERS: usize = CLIENTS - 1;
/// Simultaneous scrapers.
const SCRAPERS: usize = 64;
/// Socket of the telemetry.
const METRICS: &str = "/run/ringroad-attacks.sock";

/// Clients that send as many requests as they can and read no answers.
pub(super) struct NonReadingClients {
    socket: PathBuf,
    question: Vec<u8>,
    clients: Vec<Option<UnixStream>>,
}

impl NonReadingClients {
    /// Clients of the control socket.
    pub(super) fn control() -> Result<Self> {
        Self::asking(&Request::Show { router: "near".to_owned() }, CLIENTS)
    }

    /// So many clients of the control socket with this request.
    fn asking(request: &Request, count: usize) -> Result<Self> {
        let question = api::encode_request(request)?;
        Ok(Self { socket: control_socket(), question, clients: (0..count).map(|_| None).collect() })
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

/// Clients that ask for events, which an owner causes, and read none.
pub(super) struct Listeners {
    clients: NonReadingClients,
    owner: Owner,
}

impl Listeners {
    pub(super) fn new(scene: &mut Scene, requests: Vec<Request>) -> Result<Self> {
        let clients = NonReadingClients::asking(&Request::Events { since: None }, OTHERS)?;
        Ok(Self { clients, owner: Owner::new(scene, requests)? })
    }
}

impl Attack for Listeners {
    fn act(&mut self, until: Instant) -> Result<bool> {
        let asked = self.clients.act(until)?;
        Ok(self.owner.act(until)? && asked)
    }

    fn rest(&mut self) -> Result<()> {
        self.clients.rest()
    }
}

/// Clients that apply the longest file that a run reads. In turn, they wait for the answer and leave without reading it; leave before
/// the end of their line; stop in the middle of it and stay.
pub(super) struct HalfRequests {
    apply: Vec<u8>,
    /// Clients that stay for the rest of a slice, unless the run disconnects them.
    staying: Vec<UnixStream>,
    turn: usize,
}

impl HalfRequests {
    pub(super) fn new(site: VictimConfig) -> Result<Self> {
        Ok(Self { apply: longest_apply(&site.file())?, staying: Vec::new(), turn: 0 })
    }
}

impl Attack for HalfRequests {
    fn act(&mut self, until: Instant) -> Result<bool> {
        self.staying.retain(|client| !is_left(client));
        let Some(client) = connect(&control_socket())? else { return Ok(false) };
        let len = self.apply.len();
        self.turn += 1;
        match self.turn % 3 {
            0 if self.staying.len() < OTHERS => {
                let is_said = say(&client, &self.apply[..len / 2], until);
                self.staying.push(client);
                Ok(is_said)
            }
            1 => Ok(say(&client, &self.apply, until) && wait_for(&client, PollFlags::IN, until)),
            _ => Ok(say(&client, &self.apply[..len - 1], until)),
        }
    }

    fn rest(&mut self) -> Result<()> {
        self.staying.clear();
        Ok(())
    }
}

/// Builds the longest request that a run reads: to try out this file, with a comment behind it.
fn longest_apply(text: &str) -> Result<Vec<u8>> {
    let line = |comment: usize| {
        let text = [text, "#", &"x".repeat(comment)].concat();
        api::encode_request(&Request::Apply { file: "attacks.toml".to_owned(), text, dry_run: true })
    };
    // The newline does not count.
    let room = (LONGEST_APPLY + 1).checked_sub(line(0)?.len());
    Ok(line(room.context("the file is longer than any that can be applied")?)?)
}

fn control_socket() -> PathBuf {
    Path::new("/run/ringroad/runs").join(NAME).join("control")
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
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Sends these octets; returns true if all of them have gone out in time.
fn say(mut client: &UnixStream, mut octets: &[u8], until: Instant) -> bool {
    while !octets.is_empty() && Instant::now() < until {
        match client.write(octets) {
            Ok(sent) => octets = octets.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait_for(client, PollFlags::OUT, until);
            }
            Err(_) => return false,
        }
    }
    octets.is_empty()
}

/// Waits for an event at the connection; returns true if it came in time.
fn wait_for(client: &UnixStream, what: PollFlags, until: Instant) -> bool {
    let mut fds = [PollFd::new(client, what)];
    let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
    poll(&mut fds, left.as_ref()).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_apply_is_as_long_as_a_run_reads() {
        let mut line = longest_apply("[[router]]\nname = 'bad'\n").expect("there is room");
        assert_eq!(line.pop(), Some(b'\n'));
        assert_eq!(line.len(), LONGEST_APPLY);
        let request = api::parse_request(&line).expect("a request");
        assert!(matches!(request, Request::Apply { dry_run: true, .. }), "{request:?}");
        longest_apply(&"x".repeat(LONGEST_APPLY)).expect_err("there is none");
    }
}
