//! `tcp` and `tcp-guests`: a TCP/IP stack in the firmware against Linux's (`tcp`, by a TAP), or against another firmware
//! (`tcp-guests`, by the learning switch, or with `--attach tap` by two TAPs between which the kernel forwards).
//!
//! Streams count the payload that arrived, in Mbit/s, written `--write` octets at a time. Requests count transactions: one
//! octet there, one back, and again. Nothing is tuned but the acknowledgements of Linux's side, which do not wait.

mod bench;
mod peer;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bootinfo::Station;
use host::cores;

use super::accesses;
use super::exits::exits;
use crate::device::Seats;
use crate::experiment::{Attachment, Conversation, Direction, Experiment, Options, Sample};
use crate::ledger_snapshot::Snapshot;
use bench::Bench;

/// A connection that has not moved an octet by then never will.
const PATIENCE: Duration = Duration::from_secs(10);
/// After the first octet: until windows are open.
const WARM_UP: Duration = Duration::from_millis(100);

/// The two ends that talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// A guest and the host's kernel.
    GuestAndHost,
    /// Two guests.
    Guests,
}

/// See the head of this file.
pub struct Tcp {
    options: Options,
    between: Between,
    conversation: Conversation,
    direction: Direction,
    seats: Seats,
    bench: Option<Bench>,
}

impl Tcp {
    /// All that the options leave open, one after the other.
    pub fn cases(between: Between, options: &Options) -> Result<Vec<Self>> {
        let conversations = [Conversation::Stream, Conversation::Requests];
        let directions = [Direction::Tx, Direction::Rx];
        let mut cases = Vec::new();
        for conversation in conversations {
            for direction in directions {
                let chosen = options.conversation.is_none_or(|only| only == conversation)
                    && options.direction.is_none_or(|only| only == direction);
                // Only a guest begins with requests, and of two guests the first sends.
                let known = direction == Direction::Tx
                    || conversation == Conversation::Stream && between == Between::GuestAndHost;
                if chosen && known {
                    let (options, seats) = (options.clone(), Seats::of(options)?);
                    cases.push(Self { options, between, conversation, direction, seats, bench: None });
                }
            }
        }
        ensure!(!cases.is_empty(), "requests, and what two guests say, go out of a guest: --direction tx");
        Ok(cases)
    }

    /// What the guest does that is measured.
    fn station(&self) -> Station {
        match (self.conversation, self.direction) {
            (Conversation::Stream, Direction::Tx) => Station::TcpStream,
            (Conversation::Stream, Direction::Rx) => Station::Server,
            (Conversation::Requests, _) => Station::TcpRequests,
        }
    }
}

impl Experiment for Tcp {
    fn id(&self) -> &'static str {
        match self.between {
            Between::GuestAndHost => "tcp",
            Between::Guests => "tcp-guests",
        }
    }

    fn case(&self) -> String {
        let Options { attach, write, .. } = &self.options;
        let by_tap = self.between == Between::GuestAndHost || *attach == Attachment::Tap;
        let by = if by_tap { "tap" } else { "switch" };
        let what = match self.conversation {
            Conversation::Stream => format!("stream-{}/{write}", self.direction.name()),
            Conversation::Requests => "requests".to_owned(),
        };
        format!("{}/{by}{}/{what}", self.options.device(), self.options.several_vcpus())
    }

    fn unit(&self) -> &'static str {
        match self.conversation {
            Conversation::Stream => "mbps",
            Conversation::Requests => "ktps",
        }
    }

    fn is_built_each_turn(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        cores::pin(self.seats.host)?;
        let by_tap = self.options.attach == Attachment::Tap;
        let bench = match self.between {
            Between::GuestAndHost => Bench::with_host(&self.options, &self.seats, self.station())?,
            Between::Guests => Bench::of_guests(&self.options, &self.seats, self.station(), by_tap)?,
        };
        let bench = self.bench.insert(bench);
        let start = Instant::now();
        while bench.progress(self.conversation, self.direction) == 0 {
            bench.check()?;
            if start.elapsed() > PATIENCE {
                bail!("no octet arrived within {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(WARM_UP);
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let bench = self.bench.as_ref().context("tcp was not prepared")?;
        let (before, left) = (ledger(bench), bench.guests().map(exits).sum::<u64>());
        let (moved, start) = (bench.progress(self.conversation, self.direction), Instant::now());
        std::thread::sleep(length);
        let moved = bench.progress(self.conversation, self.direction) - moved;
        let seconds = start.elapsed().as_secs_f64();
        bench.check()?;
        let (ledger, left) = (ledger(bench).since(&before), bench.guests().map(exits).sum::<u64>() - left);
        let value = match self.conversation {
            Conversation::Stream => moved as f64 * 8e-6 / seconds,
            Conversation::Requests => moved as f64 * 1e-3 / seconds,
        };
        let frames = ledger.get("guest0.nic0.tx_frames").unwrap_or(0)
            + ledger.get("guest0.nic0.rx_frames").unwrap_or(0);
        let mut more = accesses::per_frame(&ledger, frames);
        if self.conversation == Conversation::Requests {
            more.insert(0, ("round_trip_us", 1e6 * seconds / moved.max(1) as f64));
        }
        let resets: u64 =
            ledger.iter().filter(|(name, _)| name.ends_with("station.resets")).map(|(_, n)| n).sum();
        more.push(("resets", resets as f64));
        Ok(Sample { value, packets: frames, lost: ledger.total("drop_"), exits: Some(left), more, ledger })
    }

    fn finish(&mut self) -> Result<()> {
        self.bench = None;
        Ok(())
    }
}

fn ledger(bench: &Bench) -> Snapshot {
    let mut ledger = Snapshot::new();
    for (n, guest) in bench.guests().enumerate() {
        let vcpu = &guest.machine().shared().vcpus[0];
        ledger.take(&format!("guest{n}.station"), &vcpu.station);
        ledger.take(&format!("guest{n}.nic0"), &vcpu.nics[0]);
        ledger.take(&format!("guest{n}.rx"), &guest.nics()[0].rx_ledger());
        ledger.take(&format!("guest{n}.tx"), &guest.nics()[0].tx_ledger());
        accesses::take(guest, &mut ledger);
    }
    ledger
}
