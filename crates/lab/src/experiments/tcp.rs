//! `tcp` and `tcp-guests`: a TCP/IP stack in the firmware against Linux's (`tcp`, through a TAP), or against that of another
//! firmware (`tcp-guests`, through the learning switch, or with `--attach tap` through two TAPs between which the kernel
//! forwards).
//!
//! Streams measure the payload that arrived, in Mbit/s, written `--write` octets at a time. Requests measure transactions: one
//! octet there and one back, repeatedly. No setting is tuned, except that Linux's side does not delay its acknowledgements.

mod bench;
mod peer;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bootinfo::Station;
use host::cores;

use super::Case;
use crate::device::CpuAssignment;
use crate::experiment::{
    Attachment, Direction, Experiment, ExtraFigures, Options, Rig, Sample, TrafficPattern,
};
use crate::metric::{HasCounters, Reading, accesses, check};
use bench::Bench;

/// Timeout for a connection that moves no octet.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time after the first octet in which the windows open.
const WARM_UP: Duration = Duration::from_millis(100);

/// The two endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// A guest and the host's kernel.
    GuestAndHost,
    /// Two guests.
    Guests,
}

/// Supported traffic patterns: only a guest starts requests, and of two guests the first one sends. The last item is the role of
/// the measured guest's station.
const TALKS: [(TrafficPattern, Direction, Station); 3] = [
    (TrafficPattern::Stream, Direction::Tx, Station::TcpStream),
    (TrafficPattern::Stream, Direction::Rx, Station::Server),
    (TrafficPattern::Requests, Direction::Tx, Station::TcpRequests),
];

/// Creates a case for each combination that the options leave open.
pub(super) fn cases(between: Between, options: &Options) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (conversation, direction, station) in TALKS {
        let chosen = options.conversation.is_none_or(|only| only == conversation)
            && options.direction.is_none_or(|only| only == direction);
        if chosen && (direction == Direction::Tx || between == Between::GuestAndHost) {
            cases.push(case(Tcp { between, conversation, direction, station }, options)?);
        }
    }
    ensure!(!cases.is_empty(), "requests, and what two guests say, go out of a guest: --direction tx");
    Ok(cases)
}

/// Traffic pattern and endpoints of a case.
#[derive(Clone, Copy)]
struct Tcp {
    between: Between,
    conversation: TrafficPattern,
    direction: Direction,
    station: Station,
}

fn case(tcp: Tcp, options: &Options) -> Result<Case> {
    let Options { attach, write, .. } = options;
    let (id, by_tap) = match tcp.between {
        Between::GuestAndHost => ("tcp", true),
        Between::Guests => ("tcp-guests", *attach == Attachment::Tap),
    };
    let by = if by_tap { "tap" } else { "switch" };
    let (unit, what) = match tcp.conversation {
        TrafficPattern::Stream => ("mbps", format!("stream-{}/{write}", tcp.direction.name())),
        TrafficPattern::Requests => ("ktps", "requests".to_owned()),
    };
    let name = format!("{}/{by}{}/{what}", options.device(), options.several_vcpus());
    let (options, seats) = (options.clone(), CpuAssignment::of(options)?);
    let build = move || TcpRig::start(tcp, &options, &seats);
    Ok(Experiment::new((id, unit), name, build).built_each_turn().into())
}

struct TcpRig {
    bench: Bench,
    tcp: Tcp,
}

impl TcpRig {
    fn start(tcp: Tcp, options: &Options, seats: &CpuAssignment) -> Result<Self> {
        cores::pin(seats.host)?;
        let by_tap = options.attach == Attachment::Tap;
        let bench = match tcp.between {
            Between::GuestAndHost => Bench::with_host(options, seats, tcp.station)?,
            Between::Guests => Bench::of_guests(options, seats, tcp.station, by_tap)?,
        };
        let (talk, start) = (Self { bench, tcp }, Instant::now());
        while talk.progress() == 0 {
            talk.check()?;
            ensure!(start.elapsed() <= PATIENCE, "no octet arrived within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(WARM_UP);
        Ok(talk)
    }

    fn progress(&self) -> u64 {
        self.bench.progress(self.tcp.conversation, self.tcp.direction)
    }

    /// Checks that all endpoints still work.
    fn check(&self) -> Result<()> {
        check(self.bench.guests())?;
        self.bench.check()
    }
}

impl Rig for TcpRig {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let before = Reading::of(&self.bench);
        let (moved, start) = (self.progress(), Instant::now());
        std::thread::sleep(length);
        let moved = self.progress() - moved;
        let seconds = start.elapsed().as_secs_f64();
        let (ledger, exits) = before.since(&self.bench)?;
        self.bench.check()?;
        let frames = ledger.count("guest0.nic0.tx_frames") + ledger.count("guest0.nic0.rx_frames");
        let mut more = ExtraFigures::default();
        let value = match self.tcp.conversation {
            TrafficPattern::Stream => moved as f64 * 8e-6 / seconds,
            TrafficPattern::Requests => {
                more.push("round_trip_us", 1e6 * seconds / moved.max(1) as f64);
                moved as f64 * 1e-3 / seconds
            }
        };
        more.extend(accesses::per_frame(&ledger, frames));
        let resets: u64 =
            ledger.iter().filter(|(name, _)| name.ends_with("station.resets")).map(|(_, n)| n).sum();
        more.push("resets", resets as f64);
        Ok(Sample { value, packets: frames, lost: ledger.total("drop_"), exits: Some(exits), more, ledger })
    }
}
