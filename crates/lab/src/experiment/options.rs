//! Options of an experiment.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use config::{Itr, Misdeed, NicModel, TransmitMode, VhostThreads};
use engine::Confinement;
use host::cores;

use crate::tag;

/// Octets of the longest frame on a link with an MTU of 1500, without FCS.
const LONGEST_FRAME: usize = 1514;

/// Defines an enum whose variants have names for the command line and for the names of cases.
macro_rules! named_kind {
    ($(#[$about:meta])* $visible:vis enum $kind:ident { $($(#[$of:meta])* $thing:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $kind {
            $($(#[$of])* $thing,)+
        }

        impl $kind {
            /// All variants.
            $visible const ALL: [Self; [$($name),+].len()] = [$(Self::$thing),+];

            /// Name in the names of cases, and on the command line where the option exists there.
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
    /// Backend that a guest's NICs are attached to.
    #[derive(Default)]
    pub enum Attachment {
        /// Ports of the measuring thread, without the kernel.
        #[default]
        Native = "native",
        /// TAP devices: the kernel is the peer.
        Tap = "tap",
        /// The learning switch.
        Switch = "switch",
    }
}

named_kind! {
    /// Direction of the data in `tcp`, seen from the guest.
    pub enum Direction {
        /// Out of the guest.
        Tx = "tx",
        /// Into the guest.
        Rx = "rx",
    }
}

named_kind! {
    /// Traffic pattern of the two stations in `tcp`.
    pub enum TrafficPattern {
        /// One station sends as much as it can.
        Stream = "stream",
        /// One station sends an octet, waits for the answer, and repeats.
        Requests = "requests",
    }
}

named_kind! {
    /// Time at which a guest is interrupted for frames that have been sent.
    pub enum TxInterruptPolicy {
        /// As soon as the device reports them.
        AtOnce = "at-once",
        /// Once many have been sent: with virtio-net after three quarters of the ring's frames, with an e1000 after a delay.
        Delayed = "delayed",
    }
}

/// Options of an experiment; each experiment uses those that apply to it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engine that runs the router: `kvm`, `process`, …
    pub engine: String,
    /// NIC model.
    pub nic: NicModel,
    /// Transmit mode of an e1000.
    pub mode: TransmitMode,
    /// Minimum interval between two interrupts of a NIC.
    pub itr: Itr,
    /// For send combining: number of pending frames at which they are sent although the awaited interrupt has not come; 0:
    /// only a full ring forces it.
    pub combine: u32,
    /// For send combining: rate (frames a second) above which frames are combined; 0: always.
    pub combine_above: u32,
    /// Interrupt policy for sent frames of a `guest-tx` source that sleeps as soon as its ring is full; none: the source
    /// polls for a while before it sleeps, and is interrupted at once.
    pub sent_interrupts: Option<TxInterruptPolicy>,
    /// Backend that the guest's NICs are attached to.
    pub attach: Attachment,
    /// Threads that move the frames of a router run by the command (`attachments`, `queue-length`).
    pub vhost: VhostThreads,
    /// Octets of each frame, without FCS; with `segment`, octets of the packet that the driver hands to its NIC.
    pub frame: usize,
    /// Octets of the frames into which each packet is segmented (segmentation offload), on its way into the guest or out of
    /// it; none: packets are not segmented.
    pub segment: Option<usize>,
    /// Octets of each write to a TCP connection.
    pub write: usize,
    /// Traffic pattern of the stations in `tcp`; none: all patterns, one after the other.
    pub conversation: Option<TrafficPattern>,
    /// Direction of their data; none: both, one after the other.
    pub direction: Option<Direction>,
    /// Nanoseconds that the application of `livelock` spends on each frame.
    pub work: u32,
    /// Capacity of that application's queue, in frames.
    pub queue: u32,
    /// Flows of the generator.
    pub flows: u32,
    /// Routes of the router.
    pub routes: u32,
    /// True if the generator's frames are IPv6, and the routes those of IPv6 (`forward`).
    pub six: bool,
    /// Frames offered a second; none: flat out.
    pub rate: Option<f64>,
    /// Queue pairs of each NIC.
    pub queues: u16,
    /// vCPUs of the router.
    pub vcpus: u16,
    /// NICs of the router in `forward`, in pairs: frames enter by the first of each and leave by the second.
    pub nics: u16,
    /// Confinement (sandbox) of the router's threads and of the thread that plays its I/O thread (`forward`).
    pub sandbox: Confinement,
    /// Misdeed of the hostile neighbour in `hostile`; none: all misdeeds, one after the other.
    pub misdeed: Option<Misdeed>,
    /// Seconds measured in each repetition, cut into slices; each slice is a sample.
    pub seconds: f64,
    /// Seconds of each judged step, for experiments whose repetitions consist of steps; none, or less than the experiment's
    /// own step: the experiment's.
    pub step: Option<f64>,
    /// Repetitions, with a pause between them.
    pub repeat: u32,
    /// Rounds of a figure whose cases are whole repetitions; none: the number in the figure's file.
    pub rounds: Option<u32>,
    /// Kernel of the Linux guest in `compare`; `None`: there is none, so its case is not run.
    pub kernel: Option<PathBuf>,
    /// Initramfs of that guest.
    pub initrd: Option<PathBuf>,
    /// File to which the JSON records are appended.
    pub json: Option<PathBuf>,
    /// Directory for drawings; `None`: diagrams are printed as text only.
    pub svg: Option<PathBuf>,
    /// CPUs to use; empty: those in this process's affinity mask, in order.
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
            six: false,
            rate: None,
            queues: 1,
            vcpus: 1,
            nics: 2,
            sandbox: Confinement::Off,
            misdeed: None,
            seconds: 1.0,
            step: None,
            repeat: 5,
            rounds: None,
            kernel: None,
            initrd: None,
            json: None,
            svg: None,
            cpus: Vec::new(),
        }
    }
}

impl Options {
    /// Returns the CPUs to use.
    ///
    /// # Errors
    /// The allowed CPUs cannot be read.
    pub fn all_cpus(&self) -> Result<Vec<usize>> {
        if self.cpus.is_empty() { cores::allowed() } else { Ok(self.cpus.clone()) }
    }

    /// Returns the n-th CPU to use. Fails if there are fewer.
    pub fn cpu(&self, n: usize) -> Result<usize> {
        let list = self.all_cpus()?;
        list.get(n).copied().with_context(|| format!("needs {} CPUs, there are {}", n + 1, list.len()))
    }

    /// Returns the length of a judged step: as requested, but at least `least`, which the experiment needs.
    pub fn step(&self, least: Duration) -> Duration {
        let asked = self.step.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        asked.map_or(least, |asked| asked.max(least))
    }

    /// Checks that the options fit together.
    ///
    /// # Errors
    /// One line that says which do not, and what would.
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
        ensure!(
            !self.six || self.frame >= tag::SHORTEST_SIX,
            "an IPv6 frame has at least {} octets, not {}; write --frame 80",
            tag::SHORTEST_SIX,
            self.frame
        );
        ensure!(
            !self.six || self.attach == Attachment::Native,
            "--family ipv6 is for frames that the kernel does not see; write --attach native"
        );
        let e1000 = self.nic == NicModel::E1000;
        let pairs = self.queues == 1 && self.vcpus <= 2;
        ensure!(
            pairs || !e1000,
            "an e1000 has one queue pair, and two vCPUs at most: one for frames, one for interrupts"
        );
        ensure!(
            self.nics.is_multiple_of(2) && self.nics >= 2,
            "--nics {}: frames pass from one NIC of a pair to the other; write 2, 4, 6 or 8",
            self.nics
        );
        ensure!(
            self.nics == 2 || self.vcpus == 1 && self.queues == 1,
            "--nics {} needs one vCPU and one pair of queues",
            self.nics
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

    /// Suffix of a case's name with several vCPUs: `/vcpus=2`.
    pub(crate) fn several_vcpus(&self) -> String {
        if self.vcpus > 1 { format!("/vcpus={}", self.vcpus) } else { String::new() }
    }

    /// Number of frames that result from each packet when it is segmented; `headers`: octets that each frame has before its
    /// payload.
    pub(crate) fn frames_a_packet(&self, headers: usize) -> u64 {
        let payload = |len: usize| len.saturating_sub(headers).max(1) as u64;
        self.segment.map_or(1, |segment| payload(self.frame).div_ceil(payload(segment)))
    }

    /// Returns true if frames leave within the vCPU's register access: then no I/O thread takes them out of the ring.
    pub fn sends_in_access(&self) -> bool {
        self.nic == NicModel::E1000 && matches!(self.mode, TransmitMode::Base | TransmitMode::SendCombining)
    }
}

#[cfg(test)]
mod tests;
