//! Clients of the telemetry that send arbitrary octets in arbitrary pieces, come and leave at any time, and read or do not. Finds panics, blocking,
//! clients beyond the limit or the time, and answers that are cut, are not as long as they say, or are a page that was not asked for.
//!
//! The input consists of steps of two octets: what happens and to whom, and an amount. If a client sends, so many octets follow.

use std::fs::{self, DirBuilder};
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use telemetry::{Limits, Place, Responder};

const LIMITS: Limits = Limits { clients: 3, request: 200, time: Duration::from_secs(1) };
const PAGE: &str = "a 1\n";
/// Most clients that a step chooses among.
const CLIENTS: usize = 8;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let folder = Folder::make();
    let path = folder.0.join("socket");
    let mut responder = Responder::bind(&Place::Unix(path.clone()), LIMITS).expect("a socket");
    let (mut clients, mut now, mut rest) = (Vec::new(), Instant::now(), input);
    while let Some((&[what, amount], after)) = rest.split_first_chunk() {
        rest = after;
        let whom = usize::from(what >> 3) % CLIENTS;
        match what & 7 {
            0 if clients.len() < CLIENTS => clients.push(Client::connect(&path)),
            1 if whom < clients.len() => drop(clients.swap_remove(whom)),
            2 => now += Duration::from_millis(amount.into()),
            3 => responder.answer(PAGE),
            4 => responder.refuse(),
            5 => clients.get_mut(whom).into_iter().for_each(Client::read),
            _ => {
                let (octets, after) = rest.split_at(rest.len().min(amount.into()));
                rest = after;
                clients.get_mut(whom).into_iter().for_each(|client| client.say(octets));
            }
        }
        responder.serve(now);
        assert!(responder.watched().count() <= LIMITS.clients + 1);
        assert!(responder.deadline().is_none_or(|end| end > now && end <= now + LIMITS.time));
    }
    clients.iter_mut().for_each(Client::read);
    responder.serve(now + LIMITS.time);
    assert_eq!((responder.watched().count(), responder.deadline()), (1, None), "somebody stays");
}

/// A client, with what it has sent and received.
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
    heard: Vec<u8>,
}

impl Client {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        Self { stream, said: Vec::new(), heard: Vec::new() }
    }

    fn say(&mut self, octets: &[u8]) {
        // It may have been disconnected.
        let sent = self.stream.write(octets).unwrap_or_default();
        self.said.extend_from_slice(&octets[..sent]);
    }

    /// Reads what there is, and checks that it is one whole answer.
    fn read(&mut self) {
        let mut octets = [0; 1024];
        while let Ok(len @ 1..) = self.stream.read(&mut octets) {
            self.heard.extend_from_slice(&octets[..len]);
        }
        if self.heard.is_empty() {
            return;
        }
        let text = std::str::from_utf8(&self.heard).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        if self.said.starts_with(b"HEAD ") {
            return assert!(body.is_empty() && !head.starts_with("HTTP/1.1 200 "), "{text}");
        }
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{text}");
        let is_page = head.starts_with("HTTP/1.1 200 ");
        assert_eq!(is_page, body == PAGE, "{text}");
        let is_asked = [&b"GET /metrics"[..], b"GET http://"].iter().any(|start| {
            self.said.len() >= start.len() && self.said[..start.len()].eq_ignore_ascii_case(start)
        });
        assert!(!is_page || is_asked, "{:?}", self.said);
    }
}

/// A folder for the socket, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Self {
        let path = std::env::temp_dir().join(format!("ringroad-fuzz-telemetry-{}", std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
