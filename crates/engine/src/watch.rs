//! Judges a router by its observable behaviour: a pure function of samples, without thread, clock or
//! descriptor.
//!
//! A router's owner takes a [`Sample`] about ten times a second and passes it to the router's [`Watch`],
//! which returns whether the vCPUs are to be challenged for a sign of life and whether there is a [`Charge`].
//! Every charge has the same effect: the router is fenced, that is stopped, and restarted if its restart
//! policy says so. Misbehaviour that is not charged is counted where it happens.
//!
//! | behaviour | immediate reaction of the data path | reaction of the watch |
//! |---|---|---|
//! | random register accesses | answers and counts; paces costly ones on the vCPU thread | [`Kind::Registers`], see [`Rules::registers`] |
//! | endless resets of, or commands to, its NICs | paces resets, runs commands burst by burst, on the vCPU thread | [`Kind::Registers`], as above |
//! | random descriptors, loops, addresses outside memory, jumping indices | stops the queue, counts `drop_bad_ring` | [`Kind::BrokenRing`] at once |
//! | chains of maximum length, the same ones again and again | reads a bounded number of descriptors per burst | none: only its own frames wait |
//! | endless doorbells | counts `kicks` | [`Kind::Kicks`] after [`Rules::strikes`] seconds above [`Rules::kicks`] |
//! | sleeps or spins indefinitely | none: its NICs' queues fill up | [`Kind::Silent`] after [`Rules::grace`], or more (see below) |
//! | an exception, a triple fault, a panic | the vCPU has ended | [`Kind::Fault`] at once |
//! | stays at an old epoch of the routes | updates continue; retired entries are not reused | [`Kind::OldEpoch`] after [`Rules::grace`], or more |
//!
//! Register accesses are charged after [`Rules::strikes`] seconds above [`Rules::registers`], which does not
//! count what the router's frames may need.
//!
//! # Time
//! A host that was suspended, or so busy that no look took place, must not make an innocent router guilty. So
//! time is the time that the watch has *observed*: each look adds the time since the last one, at most
//! [`Rules::longest_step`]. A vCPU whose thread got no CPU since it was challenged, or neither next to nothing, as
//! one that sleeps, nor half of [`Rules::grace`], as one that spins, is given [`Rules::starved_grace`]; so is each of
//! several vCPUs of a process, as the time of the process does not tell which of its threads got it.

mod epochs;
mod heartbeat;
mod rates;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use bootinfo::{NicModel, VcpuShared};
use ledger::{NicDirection, VcpuExits};
use ring::split::Broken;

use epochs::Epochs;
use heartbeat::Heartbeat;
use rates::Rates;

/// Kind of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has failed: an exception, a triple fault, a panic, a dead process.
    Fault,
    /// It does not answer challenges.
    Silent,
    /// It stays at an old epoch of the routes.
    OldEpoch,
    /// It broke a ring; the host has stopped that queue.
    BrokenRing,
    /// It rings doorbells without new buffers.
    Kicks,
    /// It reads and writes registers instead of forwarding.
    Registers,
}

impl Kind {
    /// Returns its name in events and counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Silent => "silent",
            Self::OldEpoch => "old-epoch",
            Self::BrokenRing => "broken-ring",
            Self::Kicks => "kicks",
            Self::Registers => "registers",
        }
    }
}

/// Reason to fence a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Kind of the charge.
    pub kind: Kind,
    /// One-line description, without the router's name.
    pub line: String,
}

impl Charge {
    fn new(kind: Kind, line: impl Into<String>) -> Option<Self> {
        Some(Self { kind, line: line.into() })
    }
}

impl fmt::Display for Charge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.line)
    }
}

/// Default of [`Rules::boot`].
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(30);

/// Limits of acceptable behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Interval between two challenges.
    pub heartbeat: Duration,
    /// Time within which a vCPU must answer, or adopt an epoch of the routes.
    pub grace: Duration,
    /// Limit in place of `grace` for a vCPU whose thread got little CPU time, or may have got none: it may be busy.
    pub starved_grace: Duration,
    /// Time within which a firmware must serve. It takes milliseconds; but on an overloaded host a vCPU that
    /// sets up its devices waits in KVM for seconds, and its own CPU time is spent on emulating ring 0
    /// meanwhile, so that CPU time does not tell a waiting vCPU from a hanging one.
    pub boot: Duration,
    /// Maximum time that one look adds.
    pub longest_step: Duration,
    /// Doorbells per second of one direction of a NIC, beyond one per frame. An honest driver rings at most
    /// once per buffer, so its excess is zero; a firmware that does nothing else rings in each of four
    /// directions at several times this rate under KVM, and at many times this rate as a process. With I/O
    /// threads that never sleep doorbells are not counted, and they cost only the guest.
    pub kicks: u64,
    /// Register and configuration accesses per second of one vCPU, beyond one per doorbell and
    /// [`NicSample::accesses_a_frame`]. A firmware that forwards makes next to none; one that is being paced
    /// (`vmm`) still makes 100.
    pub registers: u64,
    /// Number of consecutive seconds above a rate before it is charged.
    pub strikes: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            grace: Duration::from_secs(2),
            starved_grace: Duration::from_secs(10),
            boot: BOOT_LIMIT,
            longest_step: Duration::from_millis(250),
            kicks: 1_000,
            registers: 50,
            strikes: 3,
        }
    }
}

/// Observed state of one vCPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct VcpuSample {
    /// [`VcpuShared::state`].
    pub state: u32,
    /// [`VcpuShared::answer`].
    pub answer: u32,
    /// [`VcpuShared::fib_epoch`].
    pub epoch: u32,
    /// CPU time of its thread; for a process, whose threads cannot be queried one by one, of the whole
    /// process.
    pub cpu: Duration,
    /// True if that is the CPU time of other vCPUs as well.
    pub is_shared: bool,
    /// Register and configuration accesses so far.
    pub accesses: u64,
}

impl VcpuSample {
    /// Reads the state of one vCPU.
    pub fn read(shared: &VcpuShared, exits: &VcpuExits, cpu: Duration) -> Self {
        let accesses = [
            &exits.pci_config_read,
            &exits.pci_config_write,
            &exits.register_read,
            &exits.register_write,
            &exits.port_io,
        ];
        Self {
            state: shared.state.0.load(Acquire),
            answer: shared.answer.0.load(Acquire),
            epoch: shared.fib_epoch.0.load(Acquire),
            cpu,
            is_shared: false,
            accesses: accesses.iter().map(|counter| counter.get()).fold(0, u64::wrapping_add),
        }
    }
}

/// Register accesses that an honest driver may need for each frame of either direction, besides its
/// doorbells. virtio-net needs none: its interrupts are messages (MSI-X). If each frame of an e1000 has an
/// interrupt of its own, these are ICR, IMC, STATUS, IMS, STATUS (seed paper 004); a pin that falls before
/// the interrupt is acknowledged is reported twice, which is one more ICR; and one tail. So a driver with
/// frames to move has some accesses to spare, while a driver that renders its device useless by accesses
/// moves no frames and so has none.
pub const fn accesses_a_frame(model: NicModel) -> u64 {
    match model {
        NicModel::VirtioNet => 0,
        NicModel::E1000 => 7,
    }
}

/// Observed state of one direction of one NIC.
#[derive(Clone, Debug, Default)]
pub struct NicSample {
    /// NIC and direction, such as `wan.rx`.
    pub name: String,
    /// Frames so far, for each of which the driver may have rung its doorbell.
    pub frames: u64,
    /// Doorbells so far.
    pub kicks: u64,
    /// Register accesses that an honest driver may need for each frame ([`accesses_a_frame`]).
    pub accesses_a_frame: u64,
    /// Reason why the host has stopped one of its queues, if it has.
    pub broken: Option<String>,
}

impl NicSample {
    /// Reads the counters of one direction.
    pub fn read(name: String, ledger: &NicDirection) -> Self {
        let (frames, kicks) = (ledger.frames.get(), ledger.kicks.get());
        Self { name, frames, kicks, ..Self::default() }
    }

    /// Reads the counters of a transmit direction. The host also takes frames from the ring that it then loses, for instance
    /// because the cable is unplugged: their doorbells were not for nothing.
    pub fn read_transmit(name: String, ledger: &NicDirection) -> Self {
        let lost = [
            &ledger.drop_too_long,
            &ledger.drop_too_short,
            &ledger.drop_not_running,
            &ledger.drop_bad_offload,
        ];
        let read = Self::read(name, ledger);
        Self { frames: lost.iter().map(|counter| counter.get()).fold(read.frames, u64::wrapping_add), ..read }
    }

    /// Sets the accesses that a NIC of this model may need.
    pub fn of(self, model: NicModel) -> Self {
        Self { accesses_a_frame: accesses_a_frame(model), ..self }
    }

    /// Adds the state of the queues themselves: a broken ring on which no frame was lost is in no counter.
    pub fn with_broken(self, broken: Option<Broken>) -> Self {
        Self { broken: broken.map(|broken| broken.to_string()), ..self }
    }
}

/// Observed state of a router at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Reason of failure, if its vCPUs have ended or given up (`Guest::fault`).
    pub fault: Option<String>,
    /// Its vCPUs.
    pub vcpus: Vec<VcpuSample>,
    /// Both directions of its NICs.
    pub nics: Vec<NicSample>,
    /// Epoch of its route table; to be read after the vCPUs' words.
    pub epoch: u32,
}

/// Actions to take after a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Store this in `bootinfo::Shared::challenge` and interrupt every vCPU.
    pub challenge: Option<u32>,
    /// Fence the router.
    pub charge: Option<Charge>,
}

/// Watches one router from its start to its end.
#[derive(Debug)]
pub struct Watch {
    rules: Rules,
    /// The time of the last look.
    last: Option<Duration>,
    /// Observed time.
    seen: Duration,
    /// True once every vCPU has served: before that there is nothing to judge.
    served: bool,
    heartbeat: Heartbeat,
    epochs: Epochs,
    rates: Rates,
}

impl Watch {
    /// Creates a watch over a router that starts now, whose counters are zero.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            last: None,
            seen: Duration::ZERO,
            served: false,
            heartbeat: Heartbeat::default(),
            epochs: Epochs::default(),
            rates: Rates::default(),
        }
    }

    /// Evaluates a sample taken at `now`, a time on any monotonic clock. After a charge no further looks are
    /// needed: the router is to be fenced.
    pub fn look(&mut self, now: Duration, sample: &Sample) -> Look {
        let step = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last = Some(now);
        self.seen += step.min(self.rules.longest_step);
        if let Some(line) = &sample.fault {
            return Look { challenge: None, charge: Charge::new(Kind::Fault, line) };
        }
        if !self.is_up(sample) {
            let late = self.rules.late_boot(self.seen, &sample.vcpus);
            return Look { challenge: None, charge: late.and_then(|line| Charge::new(Kind::Silent, line)) };
        }
        let charge = broken_ring(sample)
            .or_else(|| self.rates.judge(&self.rules, self.seen, sample))
            .or_else(|| self.epochs.judge(&self.rules, self.seen, sample))
            .or_else(|| self.heartbeat.judge(&self.rules, self.seen, sample));
        let challenge =
            if charge.is_none() { self.heartbeat.ask(&self.rules, self.seen, sample) } else { None };
        Look { challenge, charge }
    }

    /// Returns true once the router has come up. This is sticky, because `state` is written by the guest.
    fn is_up(&mut self, sample: &Sample) -> bool {
        if !self.served && sample.vcpus.iter().all(|vcpu| vcpu.state != 0) {
            self.served = true;
            self.heartbeat.begin(self.seen);
            self.rates.begin(self.seen, sample);
        }
        self.served
    }
}

impl Rules {
    /// Returns the charge's line if a firmware does not serve after this time; `None` if it has time left. The line tells
    /// what each vCPU that does not serve has done: one without CPU time waits in the kernel or for a CPU, one without
    /// register accesses waits for vCPU 0, which sets up the devices.
    pub(crate) fn late_boot(&self, waited: Duration, vcpus: &[VcpuSample]) -> Option<String> {
        let unready = || vcpus.iter().enumerate().filter(|(_, vcpu)| vcpu.state == 0);
        let told = |(n, vcpu): (usize, &VcpuSample)| {
            let (cpu, accesses) = (vcpu.cpu.as_secs_f64(), vcpu.accesses);
            format!("vCPU {n}: {cpu:.1} s of CPU, {accesses} register accesses")
        };
        (waited >= self.boot).then(|| {
            let unready: Vec<_> = unready().map(told).collect();
            format!("the firmware does not come up within {:?} ({})", self.boot, unready.join("; "))
        })
    }
}

fn broken_ring(sample: &Sample) -> Option<Charge> {
    let (nic, why) = sample.nics.iter().find_map(|nic| Some((&nic.name, nic.broken.as_ref()?)))?;
    Charge::new(Kind::BrokenRing, format!("it broke the ring of {nic}, which the host has stopped: {why}"))
}

/// A vCPU that is woken and sleeps again uses at most one part in so many of the time.
const ASLEEP: u32 = 50;

/// Returns the time limit of a vCPU. One whose thread has got no CPU time since it had `then`, or may have got none, or more than one that
/// sleeps and less than half of `grace`, has more: it may be busy on a busy host.
fn answer_limit(rules: &Rules, vcpu: &VcpuSample, then: Duration) -> Duration {
    let used = vcpu.cpu.saturating_sub(then);
    let is_asleep = !used.is_zero() && used <= rules.grace / ASLEEP;
    let spins = used >= rules.grace / 2;
    if (is_asleep || spins) && !vcpu.is_shared { rules.grace } else { rules.starved_grace }
}
