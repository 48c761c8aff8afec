//! A machine at a vhost-user socket that sends one frame repeatedly at a steady rate: an honest peer, far cheaper than a TAP.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::on_cpu;
use crate::vhost_peer::{BUFFERS, RingWords, VhostPeer, WRITE, event, ring};

/// Index of the receive ring: it has room for a router's few ARP requests, which are not read.
const RECEIVE: u32 = 0;
/// Index of the transmit ring.
const TRANSMIT: u32 = 1;
/// Entries of each ring.
const ENTRIES: u16 = 4096;
/// Octets of `virtio_net_hdr`, all 0: no pending offloads.
const HEADER: [u8; 12] = [0; 12];
/// Interval between two bursts.
const TICK: Duration = Duration::from_micros(200);
/// Longest delay that the sender makes up for after being off its CPU.
const MOST_BEHIND: Duration = Duration::from_millis(2);
/// Timeout for the frames in flight: on a busy host, the device's thread waits for a CPU or in the kernel meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);

/// Machine that sends, until dropped.
#[derive(Debug)]
pub struct PacedSender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    enough: AtomicBool,
    given: AtomicU64,
}

impl PacedSender {
    /// Sends this frame this many times a second to a listening backend, from a thread on this CPU.
    ///
    /// # Errors
    /// No backend listens there, or the thread cannot be started.
    pub fn start(path: &Path, frame: &[u8], per_second: u64, cpu: usize) -> Result<Self> {
        let peer = VhostPeer::connect(path)?.with_entries(ENTRIES);
        peer.begin()?;
        let octets = [&HEADER[..], frame].concat();
        peer.memory().write_all_at(&octets, BUFFERS)?;
        (0..ENTRIES)
            .try_for_each(|entry| peer.describe(TRANSMIT, entry, (BUFFERS, octets.len() as u32), 0))?;
        peer.offer(TRANSMIT, |place| place)?;
        (0..ENTRIES).try_for_each(|entry| peer.describe(RECEIVE, entry, (BUFFERS + 2048, 2048), WRITE))?;
        peer.offer(RECEIVE, |place| place)?;
        let words = peer.words()?;
        words.set_available(RECEIVE, ENTRIES)?;
        let call = event()?;
        for number in [RECEIVE, TRANSMIT] {
            words.ask_for_silence(number)?;
            peer.lay_out(number, &call)?;
        }
        peer.give_doorbell(RECEIVE)?;
        let doorbell = peer.give_doorbell(TRANSMIT)?;
        peer.wait_until_heard()?;
        let shared = Arc::new(Shared::default());
        let line = Line { peer, words, doorbell, _call: call, posted: 0, shared: Arc::clone(&shared) };
        let thread = thread::Builder::new().name("paced".to_owned());
        let thread = thread.spawn(move || on_cpu(cpu).and_then(|()| line.run(per_second)))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Number of frames handed to the device so far.
    pub fn given(&self) -> u64 {
        self.shared.given.load(Relaxed)
    }

    /// Ends it when the device has taken all frames; returns the number of frames handed over.
    ///
    /// # Errors
    /// The connection has been closed.
    pub fn stop(mut self) -> Result<u64> {
        self.end()?;
        Ok(self.given())
    }

    fn end(&mut self) -> Result<()> {
        self.shared.enough.store(true, Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.map_or(Ok(()), |ended| ended.map_err(|_| anyhow!("a panic in a sender"))?)
    }
}

impl Drop for PacedSender {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// State of the sender's thread.
struct Line {
    peer: VhostPeer,
    words: RingWords,
    doorbell: OwnedFd,
    _call: OwnedFd,
    /// Available index, modulo 65,536.
    posted: u16,
    shared: Arc<Shared>,
}

impl Line {
    fn run(mut self, per_second: u64) -> Result<()> {
        let (mut since, mut due) = (Instant::now(), 0);
        while !self.shared.enough.load(Relaxed) {
            let wanted = (since.elapsed().as_nanos() * u128::from(per_second) / 1_000_000_000) as u64;
            let behind = wanted.saturating_sub(due);
            if behind > per_second * MOST_BEHIND.as_millis() as u64 / 1000 {
                (since, due) = (Instant::now(), 0);
            } else {
                due += u64::from(self.give(behind.min(u64::from(ENTRIES)) as u16)?);
            }
            thread::sleep(TICK);
        }
        self.settle()
    }

    /// Hands this many frames to the device, or as many as the ring has room for.
    fn give(&mut self, wanted: u16) -> Result<u16> {
        let count = wanted.min(ENTRIES - self.under_way()?);
        if count > 0 {
            self.posted = self.posted.wrapping_add(count);
            self.words.set_available(TRANSMIT, self.posted)?;
            self.shared.given.fetch_add(u64::from(count), Relaxed);
            if self.words.wants_bell(TRANSMIT)? {
                ring(&self.doorbell);
            }
        }
        Ok(count)
    }

    fn under_way(&self) -> Result<u16> {
        Ok(self.posted.wrapping_sub(self.words.used(TRANSMIT)?).min(ENTRIES))
    }

    fn settle(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.under_way()? > 0 && Instant::now() < end && !self.peer.is_closed() {
            thread::sleep(TICK);
        }
        (self.under_way()? == 0).then_some(()).context("the device does not take what it was given")
    }
}
