//! Burn in softirqs: frames that a bridge floods to its ports, all on one CPU.
//!
//! The time that the softirqs take is measured independently of the account under test. A thread on that CPU detects the time
//! taken from it ([`StolenTimeDetector`]), and frames are sent whenever that is less than the intended share. Entry to and return from
//! interrupts are in no softirq column, and may take tens of microseconds where the host is itself a virtual machine. Two costs
//! are therefore measured before and after, and subtracted: that of an interrupt that brings one unwanted frame, and the time lost
//! without any frames.

mod gaps;

use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sched::account::Thread;
use uplink::{Netns, PacketSender};

pub(in super::super) use self::gaps::StolenTime;
use self::gaps::StolenTimeDetector;
use super::Burn;
use crate::experiments::control::accounting::PART;
use crate::rig::router_run::{ip, steer};

/// Ports that each frame is flooded to: much work per interrupt.
const PORTS: usize = 64;
/// Frames sent at once. Together with their copies they stay within what the kernel processes in one NAPI cycle (`netdev_budget`,
/// 300).
const BURST: usize = 4;
/// Broadcast frame of an EtherType that no one handles.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    let head = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 8, 8, 0x88, 0xb5];
    frame.split_at_mut(head.len()).0.copy_from_slice(&head);
    frame
};

/// Largest deviation from [`PART`] of a valid burn.
const TOLERANCE: f64 = 0.03;
/// Duration of each measurement of the background costs (with interrupts and without), and the interval between those interrupts.
const PLAIN: Duration = Duration::from_millis(800);
const BARE: Duration = Duration::from_micros(400);
/// Largest share of the time in which other threads may run on the CPU: softirqs are not seen meanwhile.
const MOST_AWAY: f64 = 0.04;
/// Approximate processing time of a burst. The next burst waits until time was taken from the thread, or this long: the kernel's
/// backlog queue holds three bursts with their copies (`netdev_max_backlog`, 1000), and frames that it refuses cause no work.
const WORK: Duration = Duration::from_micros(400);
/// Timeout for the bridge to forward; normally it does long before.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// Burn in softirqs; see the module documentation.
pub(in super::super) struct Softirqs {
    cpu: usize,
    /// Sockets to the bridge, and to an interface where no one wants frames; the kernel receives both on the burning CPU.
    burning: PacketSender,
    bare: PacketSender,
    gaps: StolenTimeDetector,
    costs: Costs,
    /// Time that the last burn took from the thread.
    taken: StolenTime,
    netns: Netns,
}

/// Background costs: time taken from the thread other than by work on frames.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    /// Background over time: timer ticks and other events that occur by themselves.
    rest: StolenTime,
    /// Cost of an interrupt with one unwanted frame, in seconds.
    interrupt: f64,
}

impl Costs {
    /// Share of the CPU that work on frames took, out of all the time taken.
    fn burnt(&self, taken: &StolenTime) -> f64 {
        let interrupts = (taken.gaps - self.rest.gaps / self.rest.elapsed * taken.elapsed).max(0.0);
        taken.part() - self.rest.part() - self.interrupt * interrupts / taken.elapsed
    }
}

impl Softirqs {
    /// Starts the burn on this CPU; the calling thread, on another CPU, sends the frames.
    pub(in super::super) fn start(cpu: usize) -> Result<Self> {
        let netns = Netns::new()?;
        drop(netns.settle(false)?);
        furnish(&netns)?;
        steer(&netns, "in0", cpu)?;
        steer(&netns, "bare0", cpu)?;
        let (burning, bare) = (PacketSender::open(&netns, "in1")?, PacketSender::open(&netns, "bare1")?);
        let (costs, taken) = (Costs::default(), StolenTime::default());
        let mut softirqs =
            Self { cpu, burning, bare, gaps: StolenTimeDetector::start(cpu)?, costs, taken, netns };
        softirqs.wait_until_it_forwards()?;
        softirqs.costs = softirqs.costs()?;
        Ok(softirqs)
    }

    /// Waits until the bridge forwards: its ports come up a while after they were set up.
    fn wait_until_it_forwards(&self) -> Result<()> {
        let (last, end) = (format!("out{PORTS}-1"), Instant::now() + PATIENCE);
        while self.netns.counters(&last)?.rx_frames == 0 {
            ensure!(Instant::now() < end, "the bridge forwards nothing");
            self.burning.repeat(&FRAME, 1);
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn costs(&self) -> Result<Costs> {
        let rest = self.taken_while(PLAIN, |_| {});
        let (with, sent) = self.interrupted(PLAIN);
        let interrupts = with.gaps / with.elapsed - rest.gaps / rest.elapsed;
        ensure!(
            interrupts * with.elapsed >= f64::from(sent) / 2.0,
            "{sent} frames were sent to CPU {}, and it was interrupted {:.0} times",
            self.cpu,
            interrupts * with.elapsed
        );
        Ok(Costs { rest, interrupt: (with.part() - rest.part()).max(0.0) / interrupts })
    }

    /// Measures the time that interrupts with one unwanted frame each take during `length`; returns it and the number of frames
    /// sent.
    pub(in super::super) fn interrupted(&self, length: Duration) -> (StolenTime, u32) {
        let mut sent = 0;
        let step = |taken: &StolenTime| {
            if taken.elapsed >= (BARE * sent).as_secs_f64() {
                self.bare.repeat(&FRAME, 1);
                sent += 1;
            }
        };
        let taken = self.taken_while(length, step);
        (taken, sent)
    }

    /// Measures the time taken from the thread during `length`, while calling `step` repeatedly.
    fn taken_while(&self, length: Duration, mut step: impl FnMut(&StolenTime)) -> StolenTime {
        let (start, before) = (Instant::now(), self.gaps.look());
        loop {
            let mut taken = self.gaps.look().since(&before);
            taken.elapsed = start.elapsed().as_secs_f64();
            if taken.elapsed >= length.as_secs_f64() {
                return taken;
            }
            step(&taken);
        }
    }

    /// Sends a burst if less than [`PART`] was burnt so far, and waits until time was taken from the thread.
    fn feed(&self, taken: &StolenTime) {
        if taken.elapsed == 0.0 || self.costs.burnt(taken) >= PART {
            return;
        }
        let (seen, sent) = (self.gaps.seen(), Instant::now());
        self.burning.repeat(&FRAME, BURST);
        while self.gaps.seen() == seen && sent.elapsed() < WORK {}
    }
}

/// Creates a bridge with one ingress port and [`PORTS`] egress ports, and a separate veth pair beside it.
fn furnish(netns: &Netns) -> Result<()> {
    ip(netns, "link add burn up type bridge")?;
    let outs = (1..=PORTS).map(|port| format!("out{port}-"));
    let pairs = ["in".to_owned(), "bare".to_owned()].into_iter().chain(outs);
    let lines = pairs.map(|pair| {
        let master = if pair == "bare" { "" } else { "master burn " };
        format!("link add {pair}0 up {master}type veth peer name {pair}1\nlink set {pair}1 up\n")
    });
    let mut command = netns.command("ip");
    let mut child = command.args(["-batch", "-"]).stdin(Stdio::piped()).spawn().context("cannot run ip")?;
    let written = child.stdin.take().context("a pipe to ip")?.write_all(lines.collect::<String>().as_bytes());
    let ended = child.wait().context("ip is lost")?;
    ensure!(written.is_ok() && ended.success(), "ip cannot make the ports of a bridge");
    Ok(())
}

impl Burn for Softirqs {
    fn threads(&self) -> Vec<Thread> {
        Vec::new()
    }

    fn go(&mut self, length: Duration) -> Result<f64> {
        self.taken = self.taken_while(length, |taken| self.feed(taken));
        let (burnt, away) = (self.costs.burnt(&self.taken), self.taken.away / self.taken.elapsed);
        ensure!(
            away <= MOST_AWAY,
            "other programs had CPU {} for {:.0} % of the time: it has to be free",
            self.cpu,
            away * 100.0
        );
        ensure!(
            (burnt - PART).abs() <= TOLERANCE,
            "frames took {:.1} % of CPU {} and not {:.0} ({:?}, {:?})",
            burnt * 100.0,
            self.cpu,
            PART * 100.0,
            self.taken,
            self.costs
        );
        Ok(burnt)
    }

    fn judged(&mut self, _: f64) -> Result<(f64, f64)> {
        let after = self.costs()?;
        let [before, after] = [self.costs, after].map(|costs| costs.burnt(&self.taken));
        Ok((f64::midpoint(before, after), (before - after).abs() / 2.0))
    }
}

#[cfg(test)]
mod tests;
