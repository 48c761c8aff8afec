//! Frames that a bridge floods to its ports, all of it in softirqs of one CPU.
//!
//! How much those took is not asked of who is to be judged. A thread on that CPU sees what is taken from it ([`Gaps`]), and frames
//! are sent whenever that is less than it should be. Entry to and return from interrupts are in no column of softirqs, and
//! may take tens of microseconds where the host is a virtual machine: what an interrupt takes that brings one frame which nobody
//! wants, and what is taken where none comes, is measured before and after.

mod gaps;

use std::io::Write;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sched::account::Thread;
use uplink::{Netns, Wire};

use self::gaps::Gaps;
pub(in super::super) use self::gaps::Taken;
use super::Burn;
use crate::experiments::control::accounting::PART;
use crate::rig::room::{ip, steer};

/// Ports to which each frame goes: much work for one interrupt.
const PORTS: usize = 64;
/// Frames sent at once. With their copies they are no more than the kernel takes in one go (`netdev_budget`, 300).
const BURST: usize = 4;
/// To everybody, of a type that nobody knows.
const FRAME: [u8; 60] = {
    let mut frame = [0; 60];
    let head = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 8, 8, 0x88, 0xb5];
    frame.split_at_mut(head.len()).0.copy_from_slice(&head);
    frame
};

/// How far a burn may be from [`PART`] to be one of it.
const TOLERANCE: f64 = 0.03;
/// Time in which what is not of the frames is measured, with interrupts and without, and between two of those interrupts.
const PLAIN: Duration = Duration::from_millis(800);
const BARE: Duration = Duration::from_micros(400);
/// Part of the time in which others may have the CPU: what comes then is not seen.
const MOST_AWAY: f64 = 0.04;
/// About as long as a burst is worked on. The next one waits for that, or so long: the kernel's queue holds three of them
/// (`netdev_max_backlog`, 1000), and what it refuses is no work.
const WORK: Duration = Duration::from_micros(400);
/// The bridge forwards long before this.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// See the head of this file.
pub(in super::super) struct Softirqs {
    cpu: usize,
    /// To the bridge, and to an interface where nobody wants anything; the kernel takes both in on the CPU.
    burning: Wire,
    bare: Wire,
    gaps: Gaps,
    costs: Costs,
    /// What the last burn took from the thread.
    taken: Taken,
    netns: Netns,
}

/// What is taken from the thread without a frame that is worked on.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    /// In a second: ticks and whatever else comes by itself.
    rest: Taken,
    /// By an interrupt with one frame that nobody wants, in seconds.
    interrupt: f64,
}

impl Costs {
    /// Part of the CPU that work on frames took, of all that was taken.
    fn burnt(&self, taken: &Taken) -> f64 {
        let interrupts = (taken.gaps - self.rest.gaps / self.rest.elapsed * taken.elapsed).max(0.0);
        taken.part() - self.rest.part() - self.interrupt * interrupts / taken.elapsed
    }
}

impl Softirqs {
    /// On this CPU; the calling thread, on another one, sends.
    pub(in super::super) fn start(cpu: usize) -> Result<Self> {
        let netns = Netns::new()?;
        drop(netns.settle(false)?);
        furnish(&netns)?;
        steer(&netns, "in0", cpu)?;
        steer(&netns, "bare0", cpu)?;
        let (burning, bare) = (Wire::open(&netns, "in1")?, Wire::open(&netns, "bare1")?);
        let (costs, taken) = (Costs::default(), Taken::default());
        let mut softirqs = Self { cpu, burning, bare, gaps: Gaps::start(cpu)?, costs, taken, netns };
        softirqs.wait_until_it_forwards()?;
        softirqs.costs = softirqs.costs()?;
        Ok(softirqs)
    }

    /// Ports of a bridge come up a while after they were told to.
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

    /// What interrupts with a frame that nobody wants take in this time, and how many frames were sent.
    pub(in super::super) fn interrupted(&self, length: Duration) -> (Taken, u32) {
        let mut sent = 0;
        let step = |taken: &Taken| {
            if taken.elapsed >= (BARE * sent).as_secs_f64() {
                self.bare.repeat(&FRAME, 1);
                sent += 1;
            }
        };
        let taken = self.taken_while(length, step);
        (taken, sent)
    }

    /// What is taken from the thread in this time; the step is taken again and again.
    fn taken_while(&self, length: Duration, mut step: impl FnMut(&Taken)) -> Taken {
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

    /// Sends a burst if less was burnt than should be, and waits until something was taken from the thread.
    fn feed(&self, taken: &Taken) {
        if taken.elapsed == 0.0 || self.costs.burnt(taken) >= PART {
            return;
        }
        let (seen, sent) = (self.gaps.seen(), Instant::now());
        self.burning.repeat(&FRAME, BURST);
        while self.gaps.seen() == seen && sent.elapsed() < WORK {}
    }
}

/// A bridge with a way in and [`PORTS`] ways out, and a pair of interfaces beside it.
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
