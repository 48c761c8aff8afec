//! A steady flow of numbered datagrams from one namespace to another, each accounted for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::Namespace;

/// Size of the receiver's socket buffer, for times when its thread is off the CPU.
const BUFFER: usize = 32 << 20;
/// Interval at which the sender catches up with the clock.
const TICK: Duration = Duration::from_millis(1);
/// Most datagrams sent without a pause.
const MOST_AT_ONCE: u128 = 100;
/// Interval at which the receiver checks for its end.
const LOOK: Duration = Duration::from_millis(50);
/// Time without a datagram after which none is in flight any more, even on a busy host.
const QUIET: Duration = Duration::from_secs(4);
/// Octets of a datagram: its number, and padding.
const LENGTH: usize = 32;
/// Timeout of the first datagram, generous for a busy host.
const FIRST: Duration = Duration::from_secs(60);

/// Counts of datagrams sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams accepted by the sender's kernel.
    pub sent: u64,
    /// Datagrams that it refused: no link, no route, no neighbour, no room.
    pub refused: u64,
    /// Datagrams that arrived, each counted once.
    pub received: u64,
    /// Datagrams that arrived again.
    pub repeated: u64,
    /// Datagrams that arrived after one with a higher number.
    pub late: u64,
    /// The longest time between two arrivals.
    pub longest_gap: Duration,
}

impl Tally {
    /// Datagrams that were sent and have not arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }
}

/// Flow that continues until it is stopped.
#[derive(Debug)]
pub struct Flow {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Tells the sender to end.
    enough: AtomicBool,
    /// The sender has ended, and so must the receiver when everything has arrived, or nothing arrives any more.
    over: AtomicBool,
    /// The remaining datagrams are of no interest.
    left: AtomicBool,
    sent: AtomicU64,
    refused: AtomicU64,
    arrivals: Mutex<Arrivals>,
}

impl Shared {
    /// Returns true if the receiver has heard nothing for `silent` and need not wait for more.
    fn is_complete(&self, silent: Duration) -> bool {
        let all = || self.arrivals().received >= self.sent.load(Relaxed);
        self.over.load(Relaxed) && (self.left.load(Relaxed) || all() || silent > QUIET)
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Received numbers, as a bitmap.
#[derive(Debug, Default)]
struct Arrivals {
    seen: Vec<u64>,
    received: u64,
    repeated: u64,
    late: u64,
    highest: Option<u64>,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Arrivals {
    fn count(&mut self, number: u64, now: Instant) {
        let (word, bit) = (usize::try_from(number / 64).unwrap_or(usize::MAX), 1 << (number % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit == 0 {
            self.seen[word] |= bit;
            self.received += 1;
        } else {
            self.repeated += 1;
        }
        self.late += u64::from(self.highest.is_some_and(|highest| number < highest));
        self.highest = self.highest.max(Some(number));
        if let Some(last) = self.last.replace(now) {
            self.longest_gap = self.longest_gap.max(now - last);
        }
    }
}

impl Flow {
    /// Sends this many datagrams a second, or fewer on a busy host, from `from` to an address in `to`. The numbered
    /// datagrams begin when all hosts on the path have resolved their neighbours, because a router queues few datagrams for
    /// an unresolved one.
    ///
    /// # Errors
    ///
    /// A socket cannot be opened, or nothing arrives within a minute.
    pub fn start(from: &Namespace, to: &Namespace, address: SocketAddr, per_second: u32) -> Result<Self> {
        let receiver = to.inside(|| receiver(address))??;
        let any = match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let sender = from.inside(|| UdpSocket::bind((any, 0)))??;
        sender.connect(address).context("no way to the receiver")?;
        // Frames that wait for a neighbour's address must not block the sender.
        sender.set_nonblocking(true)?;
        find_the_way(&sender, &receiver)?;
        let shared = Arc::new(Shared::default());
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let (ours, theirs) = (Arc::clone(&shared), Arc::clone(&shared));
        // The sockets stay in the namespaces in which they were created.
        let threads = vec![
            named("flow-send").spawn(move || send(&sender, per_second, &ours))?,
            named("flow-receive").spawn(move || receive(&receiver, &theirs))?,
        ];
        Ok(Self { shared, threads })
    }

    /// Returns the counts so far; datagrams in flight count as lost.
    pub fn so_far(&self) -> Tally {
        let sent = self.shared.sent.load(Relaxed);
        let arrivals = self.shared.arrivals();
        Tally {
            // More may have been sent between the two readings.
            sent: sent.max(arrivals.received),
            refused: self.shared.refused.load(Relaxed),
            received: arrivals.received,
            repeated: arrivals.repeated,
            late: arrivals.late,
            longest_gap: arrivals.longest_gap,
        }
    }

    /// Waits until a datagram that was sent from now on arrives; returns the time that took. `None`: not in time.
    pub fn resumes(&self, within: Duration) -> Option<Duration> {
        let (start, number) = (Instant::now(), self.shared.sent.load(Relaxed));
        while start.elapsed() < within {
            // Refused datagrams have numbers too, so a number may exceed the count of those sent.
            if self.shared.arrivals().highest.is_some_and(|highest| highest > number + self.refused()) {
                return Some(start.elapsed());
            }
            thread::sleep(TICK);
        }
        None
    }

    /// Waits until this many datagrams have arrived.
    pub fn reaches(&self, received: u64, within: Duration) -> Result<()> {
        let start = Instant::now();
        while self.so_far().received < received {
            ensure!(start.elapsed() < within, "not {received} in {within:?}: {:?}", self.so_far());
            thread::sleep(TICK);
        }
        Ok(())
    }

    /// Returns how many datagrams arrive while this many more are sent.
    ///
    /// # Errors
    /// The sender does not send them in time.
    pub fn arrive_while_sending(&self, more: u64, within: Duration) -> Result<u64> {
        let (start, before) = (Instant::now(), self.so_far());
        loop {
            let now = self.so_far();
            if now.sent >= before.sent + more {
                return Ok(now.received - before.received);
            }
            ensure!(start.elapsed() < within, "not {more} more sent in {within:?}: {now:?}");
            thread::sleep(TICK);
        }
    }

    fn refused(&self) -> u64 {
        self.shared.refused.load(Relaxed)
    }

    /// Stops the sender and then, when everything has arrived or nothing arrives any more, the receiver.
    pub fn stop(mut self) -> Result<Tally> {
        self.end()?;
        Ok(self.so_far())
    }

    fn end(&mut self) -> Result<()> {
        self.shared.enough.store(true, Relaxed);
        self.threads
            .drain(..)
            .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a panic in a flow"))?)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.shared.left.store(true, Relaxed);
        let _ = self.end();
    }
}

fn receiver(address: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(address).with_context(|| format!("cannot receive at {address}"))?;
    set_socket_recv_buffer_size_force(&socket, BUFFER).context("no large socket buffer")?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

/// Sends datagrams without a number until one arrives.
fn find_the_way(sender: &UdpSocket, receiver: &UdpSocket) -> Result<()> {
    let end = Instant::now() + FIRST;
    while Instant::now() < end {
        let _ = sender.send(&[]);
        // It blocks for at most `LOOK`.
        if receiver.recv(&mut [0; LENGTH]).is_ok() {
            return Ok(());
        }
    }
    bail!("nothing arrives within {FIRST:?}")
}

fn send(socket: &UdpSocket, per_second: u32, shared: &Shared) -> Result<()> {
    let (mut last, mut number) = (Instant::now(), 0_u64);
    let each = Duration::from_secs(1) / per_second.max(1);
    while !shared.enough.load(Relaxed) {
        let now = Instant::now();
        let due = now.duration_since(last).as_nanos() / each.as_nanos().max(1);
        // A sender that was off the CPU does not make up for it by a burst that no queue could hold.
        let due = due.min(MOST_AT_ONCE) as u32;
        last = if due == MOST_AT_ONCE as u32 { now } else { last + each * due };
        for _ in 0..due {
            let mut octets = [0; LENGTH];
            octets[..8].copy_from_slice(&number.to_be_bytes());
            let counter = if socket.send(&octets).is_ok() { &shared.sent } else { &shared.refused };
            counter.fetch_add(1, Relaxed);
            number += 1;
        }
        thread::sleep(TICK);
    }
    shared.over.store(true, Relaxed);
    Ok(())
}

fn receive(socket: &UdpSocket, shared: &Shared) -> Result<()> {
    let (mut octets, mut last) = ([0; LENGTH], Instant::now());
    loop {
        let length = socket.recv(&mut octets);
        let now = Instant::now();
        match length {
            Ok(LENGTH) => {
                let number = octets[..8].try_into().map(u64::from_be_bytes)?;
                // Other senders may send here as well.
                if number <= shared.sent.load(Relaxed) + shared.refused.load(Relaxed) {
                    shared.arrivals().count(number, now);
                    last = now;
                }
            }
            _ if shared.is_complete(now - last) => return Ok(()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
