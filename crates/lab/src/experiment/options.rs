//! What can be asked of an experiment.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use config::{Itr, Misdeed, NicModel, TransmitMode, VhostThreads};
use engine::Confinement;
use host::cores;

/// Octets of the longest frame on a link with an MTU of 1500, without FCS.
const LONGEST_FRAME: usize = 1514;

/// A kind of things by their names.
macro_rules! named_kind {
    ($(#[$about:meta])* $visible:vis enum $kind:ident { $($(#[$of:meta])* $thing:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $kind {
            $($(#[$of])* $thing,)+
        }

        impl $kind {
            /// All of them.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$thing),+];

            /// Its name in cases, and on the command line where it is asked for there.
            $visible const fn name(self) -> &'static str {
                match self {
                    $(Self::$thing => $name,)+
                }
            }
        }
    };
}
pub(crate) use named_kind;

named_kind! {
    /// What a guest's NICs are attached to.
    #[derive(Default)]
    pub enum Attachment {
        /// Ports of the measuring room.
        #[default]
        Native = "native",
        /// TAPs: the kernel is the other side.
        Tap = "tap",
        /// The learning switch.
        Switch = "switch",
    }
}

named_kind! {
    /// Which way the data go in `tcp`.
    pub enum Direction {
        /// Out of the guest.
        Tx = "tx",
        /// Into the guest.
        Rx = "rx",
    }
}

named_kind! {
    /// What two stations do in `tcp`.
    pub enum Conversation {
        /// One sends as much as it can.
        Stream = "stream",
        /// One sends an octet, waits for the answer, and again.
        Requests = "requests",
    }
}

named_kind! {
    /// When an interrupt tells a guest of frames that it has sent.
    pub enum SentInterrupts {
        /// As soon as the device says so.
        AtOnce = "at-once",
        /// When they are many: by virtio-net after three quarters of what is in the ring, by an e1000 after a time.
        Delayed = "delayed",
    }
}

/// What can be asked of an experiment. Each takes what applies to it.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the router runs: `kvm`, `process`, …
    pub engine: String,
    /// NIC model.
    pub nic: NicModel,
    /// How frames leave by an e1000.
    pub mode: TransmitMode,
    /// Least time between two interrupts of a NIC.
    pub itr: Itr,
    /// For send combining: frames that are sent although the interrupt that they wait for has not come; 0: the ring is
    /// the limit.
    pub combine: u32,
    /// For the same: frames a second above which frames are combined; 0: always.
    pub combine_above: u32,
    /// When a source that sleeps as soon as its ring is full is told of sent frames (`guest-tx`); none: it polls for a while
    /// first, and is told at once.
    pub sent_interrupts: Option<SentInterrupts>,
    /// What the guest's NICs are attached to.
    pub attach: Attachment,
    /// Threads that move the frames of a router that the command runs (`attachments`, `queue-length`).
    pub vhost: VhostThreads,
    /// Octets of each frame, without FCS; with `segment`, of what the driver hands to its NIC.
    pub frame: usize,
    /// Octets of the frames that are made of each by who cuts it, be it on its way to the guest or out of it (segmentation
    /// offload); none: it is a frame.
    pub segment: Option<usize>,
    /// Octets that are handed to a TCP connection at once.
    pub write: usize,
    /// What the stations of `tcp` do; none: one thing after the other.
    pub conversation: Option<Conversation>,
    /// Which way their data go; none: one after the other.
    pub direction: Option<Direction>,
    /// Nanoseconds that the application of `livelock` spends on each frame.
    pub work: u32,
    /// Frames that wait for it at most.
    pub queue: u32,
    /// Flows of the generator.
    pub flows: u32,
    /// Routes of the router.
    pub routes: u32,
    /// Frames offered a second; none: flat out.
    pub rate: Option<f64>,
    /// Queue pairs of each NIC.
    pub queues: u16,
    /// vCPUs of the router.
    pub vcpus: u16,
    /// Whether the threads of the router, and the one that plays its I/O thread, are confined (`forward`).
    pub sandbox: Confinement,
    /// What the router beside does in `hostile`; none: one thing after the other.
    pub misdeed: Option<Misdeed>,
    /// Seconds measured in each repetition, cut into slices; each slice is a sample.
    pub seconds: f64,
    /// Seconds of each judged step where a repetition is whole and has steps of its own; none, or less: as long as the
    /// experiment says.
    pub step: Option<f64>,
    /// Repetitions, with a pause between them.
    pub repeat: u32,
    /// Rounds of a figure whose cases are whole repetitions; none: as many as its file says.
    pub rounds: Option<u32>,
    /// Where the JSON goes.
    pub json: Option<PathBuf>,
    /// CPUs to use; empty: those that this process may use, in order.
    pub cpus: Vec<usize>,
}

impl Default for Options {
    /// KVM, virtio-net (an e1000 in mode `csb`), no moderation, 64 octets, 100 flows, 2 routes, flat out, one queue pair
    /// and vCPU, writes of 1460 octets, 5 repetitions of 1 s.
    fn default() -> Self {
        Self {
            engine: "kvm".to_owned(),
            nic: NicModel::VirtioNet,
            mode: TransmitMode::Csb,
            itr: Itr::Every(0),
            combine: 0,
            combine_above: 0,
            sent_interrupts: None,
            attach: Attachment::Native,
            vhost: VhostThreads::Shared,
            frame: 64,
            segment: None,
            write: 1460,
            conversation: None,
            direction: None,
            work: 2_000,
            queue: 256,
            flows: 100,
            routes: 2,
            rate: None,
            queues: 1,
            vcpus: 1,
            sandbox: Confinement::Off,
            misdeed: None,
            seconds: 1.0,
            step: None,
            repeat: 5,
            rounds: None,
            json: None,
            cpus: Vec::new(),
        }
    }
}

impl Options {
    /// The n-th CPU to use. Fails if there are not so many.
    pub fn cpu(&self, n: usize) -> Result<usize> {
        let list = if self.cpus.is_empty() { cores::allowed()? } else { self.cpus.clone() };
        list.get(n).copied().with_context(|| format!("needs {} CPUs, there are {}", n + 1, list.len()))
    }

    /// Time of a judged step, of which the experiment wants at least this.
    pub fn step(&self, least: Duration) -> Duration {
        let asked = self.step.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        asked.map_or(least, |asked| asked.max(least))
    }

    /// Whether the options fit together.
    ///
    /// # Errors
    /// One line: what does not, and what would.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.frame <= LONGEST_FRAME || self.segment.is_some(),
            "a frame has at most {LONGEST_FRAME} octets, not {}; --segment lets a NIC make frames of it",
            self.frame
        );
        ensure!(
            self.segment.is_none_or(|segment| segment < self.frame),
            "a packet of {} octets is not cut into frames of --segment {}; --frame makes it longer",
            self.frame,
            self.segment.unwrap_or(0)
        );
        let e1000 = self.nic == NicModel::E1000;
        let pairs = self.queues == 1 && self.vcpus <= 2;
        ensure!(
            pairs || !e1000,
            "an e1000 has one queue pair, and two vCPUs at most: one for frames, one for interrupts"
        );
        let combines = e1000 && self.mode == TransmitMode::SendCombining;
        ensure!(
            combines || self.combine == 0 && self.combine_above == 0,
            "--combine and --combine-above need --nic e1000 --mode send-combining"
        );
        let block = e1000 && self.mode == TransmitMode::Csb;
        ensure!(
            !block || self.sent_interrupts.is_none(),
            "--sent-interrupts needs --nic virtio-net or a --mode without status block: with one no frame asks for an interrupt"
        );
        let coalesced = e1000 && self.mode == TransmitMode::Coalesced;
        ensure!(
            !coalesced || self.engine == "kvm",
            "--mode coalesced needs --engine kvm: KVM collects the writes"
        );
        ensure!(
            self.vhost == VhostThreads::Shared || self.engine == "kvm",
            "--vhost {} needs --engine kvm: a process has no virtual machine",
            self.vhost.name()
        );
        ensure!(
            self.vhost != VhostThreads::Kernel || !e1000,
            "--vhost kernel needs --nic virtio-net: the kernel serves no e1000"
        );
        Ok(())
    }

    /// Engine and NIC as a case shows them: `kvm/e1000-csb`, `kvm/e1000-base+itr100`.
    pub fn device(&self) -> String {
        let model = match self.nic {
            NicModel::VirtioNet => "virtio-net".to_owned(),
            NicModel::E1000 => format!("e1000-{}", self.mode.name()),
        };
        let itr = match self.itr {
            Itr::Every(0) => String::new(),
            itr => format!("+itr{itr}"),
        };
        let combine = if self.combine > 0 { format!("+combine{}", self.combine) } else { String::new() };
        let above = self.combine_above;
        let above = if above > 0 { format!("+above{above}") } else { String::new() };
        let sent = self.sent_interrupts.map_or_else(String::new, |when| format!("+sent-{}", when.name()));
        format!("{}/{model}{itr}{combine}{above}{sent}", self.engine)
    }

    /// `/vcpus=2` where there are several.
    pub(crate) fn several_vcpus(&self) -> String {
        if self.vcpus > 1 { format!("/vcpus={}", self.vcpus) } else { String::new() }
    }

    /// Frames that become of each packet where it is cut; `headers`: octets that each of them has before its payload.
    pub(crate) fn frames_a_packet(&self, headers: usize) -> u64 {
        let payload = |len: usize| len.saturating_sub(headers).max(1) as u64;
        self.segment.map_or(1, |segment| payload(self.frame).div_ceil(payload(segment)))
    }

    /// Whether frames leave inside of the vCPU's register access: no I/O thread takes them out of the ring.
    pub fn sends_in_access(&self) -> bool {
        self.nic == NicModel::E1000 && matches!(self.mode, TransmitMode::Base | TransmitMode::SendCombining)
    }
}

#[cfg(test)]
mod tests;
