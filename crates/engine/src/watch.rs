//! Judges a router by what it shows: a pure function of samples, without thread, clock or descriptor.
//!
//! A router's owner takes a [`Sample`] about ten times a second and shows it to the router's [`Watch`], which says
//! whether the vCPUs are to be asked for a sign of life and whether there is a [`Charge`]. Every charge ends in the
//! same way: the router is fenced, that is stopped, and started again if its restart policy says so. What a router
//! does wrong without being charged is counted where it happens.
//!
//! | what it does | what the data path does at once | what the watch does |
//! |---|---|---|
//! | random register accesses | answers and counts them; costly ones are paced, on the guest's own vCPU thread | [`Kind::Registers`] after [`Rules::strikes`] seconds above [`Rules::registers`], beside what its frames may need |
//! | resets of its NICs, or commands to them, without end | paces resets; executes commands burst by burst; both on the guest's own vCPU thread | [`Kind::Registers`], as above |
//! | random descriptors, loops, addresses outside memory, indices that jump | stops the queue, counts `drop_bad_ring` | [`Kind::BrokenRing`] at once |
//! | chains as long as they may be, the same ones again and again | reads a bounded number of descriptors for a burst | nothing: its own frames wait |
//! | doorbells without end | counts `kicks` | [`Kind::Kicks`] after [`Rules::strikes`] seconds above [`Rules::kicks`] |
//! | sleeps or spins for ever | nothing: its NICs' queues fill up | [`Kind::Silent`] after [`Rules::grace`] |
//! | an exception, a triple fault, a panic | the vCPU has ended | [`Kind::Fault`] at once |
//! | keeps to an old epoch of the routes | updates go on; what is retired is not used again | [`Kind::OldEpoch`] after [`Rules::grace`] |
//!
//! # Time
//! A host that was suspended, or so busy that nobody looked, must not make an innocent router guilty. So time is what
//! the watch has *seen*: each look adds what has passed since the last one, at most [`Rules::longest_step`]. And a
//! vCPU whose thread got no CPU since it was asked is given [`Rules::starved_grace`].

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

/// What a router is charged with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It cannot go on: an exception, a triple fault, a panic, a dead process.
    Fault,
    /// It does not answer.
    Silent,
    /// It does not leave an old epoch of the routes.
    OldEpoch,
    /// It broke a ring; the host has stopped that queue.
    BrokenRing,
    /// It rings doorbells for nothing.
    Kicks,
    /// It reads and writes registers instead of forwarding.
    Registers,
}

impl Kind {
    /// Its name in events and counters.
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

/// Why a router is to be fenced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// With what it is charged.
    pub kind: Kind,
    /// One line that says what happened, without the router's name.
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

/// What is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Between two challenges.
    pub heartbeat: Duration,
    /// How long a vCPU may take to answer, or to adopt an epoch of the routes.
    pub grace: Duration,
    /// How long, if its thread got no CPU.
    pub starved_grace: Duration,
    /// How long a firmware may take until it serves. It takes milliseconds; but a host with more to do than CPUs makes a vCPU that
    /// sets up its devices wait in KVM for seconds, and spends the vCPU's own CPU time on emulating ring 0 meanwhile, so that
    /// CPU time does not tell one that waits from one that hangs.
    pub boot: Duration,
    /// Most time that one look adds.
    pub longest_step: Duration,
    /// Doorbells a second of one direction of a NIC, beyond one a frame. An honest driver rings at most once a buffer,
    /// so it has none; a firmware that does nothing else rings each of four directions several times as often as that
    /// under KVM, and many times as often as a process. Where I/O threads never sleep nobody counts doorbells, and they
    /// cost nobody but the guest anything.
    pub kicks: u64,
    /// Register and configuration accesses a second of one vCPU, beyond one a doorbell and
    /// [`NicSigns::accesses_a_frame`]. A firmware that serves makes next to none; one that is paced (`vmm`) still makes
    /// 100.
    pub registers: u64,
    /// Seconds in a row above a rate before it is charged.
    pub strikes: u32,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(1),
            grace: Duration::from_secs(2),
            starved_grace: Duration::from_secs(10),
            boot: Duration::from_secs(30),
            longest_step: Duration::from_millis(250),
            kicks: 1_000,
            registers: 50,
            strikes: 3,
        }
    }
}

/// What one vCPU shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct VcpuSigns {
    /// [`VcpuShared::state`].
    pub state: u32,
    /// [`VcpuShared::answer`].
    pub answer: u32,
    /// [`VcpuShared::fib_epoch`].
    pub epoch: u32,
    /// CPU time of its thread; a process that cannot be asked thread by thread: of the whole process.
    pub cpu: Duration,
    /// Register and configuration accesses so far.
    pub accesses: u64,
}

impl VcpuSigns {
    /// Reads the words of one vCPU.
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
            accesses: accesses.iter().map(|counter| counter.get()).fold(0, u64::wrapping_add),
        }
    }
}

/// Register accesses that an honest driver may need for each frame of either direction, beside its doorbells. A
/// virtio-net needs none: its interrupts are messages. Where each frame of an e1000 has an interrupt of its own, that is
/// ICR, IMC, STATUS, IMS, STATUS (seed paper 004); a pin that falls before the interrupt is acknowledged is reported
/// twice, which is one more ICR; and one tail. So who has frames to move may access what it likes now and then, and who
/// makes its device useless by that moves no more.
pub const fn accesses_a_frame(model: NicModel) -> u64 {
    match model {
        NicModel::VirtioNet => 0,
        NicModel::E1000 => 7,
    }
}

/// What one direction of one NIC shows.
#[derive(Clone, Debug, Default)]
pub struct NicSigns {
    /// NIC and direction, such as `wan.rx`.
    pub name: String,
    /// Frames so far.
    pub frames: u64,
    /// Doorbells so far.
    pub kicks: u64,
    /// Register accesses that an honest driver may need for each frame ([`accesses_a_frame`]).
    pub accesses_a_frame: u64,
    /// Why the host stopped one of its queues, if it did.
    pub broken: Option<String>,
}

impl NicSigns {
    /// Reads the counters of one direction.
    pub fn read(name: String, ledger: &NicDirection) -> Self {
        let (frames, kicks) = (ledger.frames.get(), ledger.kicks.get());
        Self { name, frames, kicks, ..Self::default() }
    }

    /// With what a NIC of this model may need.
    pub fn of(self, model: NicModel) -> Self {
        Self { accesses_a_frame: accesses_a_frame(model), ..self }
    }

    /// With what the queues themselves say: a broken ring on which no frame was lost is in no counter.
    pub fn with_broken(self, broken: Option<Broken>) -> Self {
        Self { broken: broken.map(|broken| broken.to_string()), ..self }
    }
}

/// What a router shows at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Why it cannot go on, if its vCPUs have ended or given up (`Guest::fault`).
    pub fault: Option<String>,
    /// Its vCPUs.
    pub vcpus: Vec<VcpuSigns>,
    /// Both directions of its NICs.
    pub nics: Vec<NicSigns>,
    /// Epoch of its route table; to be read after the vCPUs' words.
    pub epoch: u32,
}

/// What is to be done after a look.
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
    /// When it looked last.
    last: Option<Duration>,
    /// Time seen.
    seen: Duration,
    /// Whether every vCPU has served: only then there is anything to judge.
    served: bool,
    heartbeat: Heartbeat,
    epochs: Epochs,
    rates: Rates,
}

impl Watch {
    /// A watch over a router that starts now, whose counters stand at zero.
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

    /// Looks at a sample taken at `now`, a time on any clock that only goes forward. After a charge there is nothing
    /// more to look at: the router is to be fenced.
    pub fn look(&mut self, now: Duration, sample: &Sample) -> Look {
        let step = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.last = Some(now);
        self.seen += step.min(self.rules.longest_step);
        if let Some(line) = &sample.fault {
            return Look { challenge: None, charge: Charge::new(Kind::Fault, line) };
        }
        if !self.is_up(sample) {
            let late = self.rules.late_boot(self.seen);
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

    /// Whether the router has come up. Once it has, it cannot take that back: `state` is the guest's word.
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
    /// What is said of a firmware that does not serve after this time; none: it has time left.
    pub(crate) fn late_boot(&self, waited: Duration) -> Option<String> {
        (waited >= self.boot).then(|| format!("the firmware does not come up within {:?}", self.boot))
    }
}

fn broken_ring(sample: &Sample) -> Option<Charge> {
    let (nic, why) = sample.nics.iter().find_map(|nic| Some((&nic.name, nic.broken.as_ref()?)))?;
    Charge::new(Kind::BrokenRing, format!("it broke the ring of {nic}, which the host has stopped: {why}"))
}

/// The time that a vCPU may take: one whose thread got no CPU since `then` has more.
fn patience(rules: &Rules, vcpu: &VcpuSigns, then: Duration) -> Duration {
    if vcpu.cpu > then { rules.grace } else { rules.starved_grace }
}
