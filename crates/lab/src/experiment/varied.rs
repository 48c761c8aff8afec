//! Parameters that can be varied, by name: options of the command line, and keys in figure files.

use std::fmt;

use anyhow::{Result, bail};
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser};
use config::{Itr, Misdeed, NicModel, TransmitMode, VhostThreads};
use engine::Confinement;

use super::{Attachment, Direction, Options, TrafficPattern, TxInterruptPolicy};

/// Values of `--vhost` for the experiments that use it.
const VHOSTS: [VhostThreads; 3] = [VhostThreads::Shared, VhostThreads::Vmm, VhostThreads::Kernel];

/// Parameters that two variants of an experiment, or the cells of a figure, may differ in: options of `ringroad lab run`.
#[derive(Args, Clone, Debug, Default)]
pub struct OptionOverrides {
    /// Engine that runs the router.
    #[arg(long, value_parser = ["kvm", "process"])]
    engine: Option<String>,
    /// NIC model: virtio-net or e1000.
    #[arg(long, value_parser = config::nic_model)]
    nic: Option<NicModel>,
    /// Transmit mode of an e1000: base, async, send-combining, csb or coalesced.
    #[arg(long, value_parser = config::transmit_mode)]
    mode: Option<TransmitMode>,
    /// Minimum interval between two interrupts of a NIC, in units of 250 ns, or `adaptive`.
    #[arg(long)]
    itr: Option<Itr>,
    /// For send combining: number of pending frames at which they are sent although the awaited interrupt has not come;
    /// 0: as many as the ring holds.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1024))]
    combine: Option<u32>,
    /// For send combining: rate (frames a second) above which frames are combined; 0: always.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    combine_above: Option<u32>,
    /// Let the guest of `guest-tx` sleep as soon as its ring is full, and interrupt it for sent frames at-once or
    /// delayed.
    #[arg(long, value_parser = |text: &str| named(text, &TxInterruptPolicy::ALL, TxInterruptPolicy::name))]
    sent_interrupts: Option<TxInterruptPolicy>,
    /// Backend of a guest's NICs: native (ports of the measuring thread), tap, or switch.
    #[arg(long, value_parser = |text: &str| named(text, &Attachment::ALL, Attachment::name))]
    attach: Option<Attachment>,
    /// Threads that move the frames in `attachments` and `queue-length`: shared (one of ringroad's I/O threads), vmm (the
    /// vCPU's thread and a main loop), or kernel (vhost-net).
    #[arg(long, value_parser = |text: &str| named(text, &VHOSTS, VhostThreads::name))]
    vhost: Option<VhostThreads>,
    /// Octets of each frame, without FCS; up to 65549 with --segment.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(60..=65_549))]
    frame: Option<usize>,
    /// Octets of the frames into which each packet is segmented (segmentation offload), in `guest-tx` and `guest-rx`.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(60..=1514))]
    segment: Option<usize>,
    /// Octets of each write to a TCP connection, in `tcp`.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    write: Option<usize>,
    /// Traffic pattern of `tcp`: stream or requests; both if not given.
    #[arg(long, value_parser = |text: &str| named(text, &TrafficPattern::ALL, TrafficPattern::name))]
    conversation: Option<TrafficPattern>,
    /// Direction of the data of `tcp`, seen from the guest: tx or rx; both if not given.
    #[arg(long, value_parser = |text: &str| named(text, &Direction::ALL, Direction::name))]
    direction: Option<Direction>,
    /// Nanoseconds that the application of `livelock` spends on each frame.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    work: Option<u32>,
    /// Capacity of that application's queue, in frames.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=512))]
    queue: Option<u32>,
    /// Flows of the generator.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    flows: Option<u32>,
    /// Routes of the router; above 2: that many synthetic ones, and a destination, which is a flow, in each.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    routes: Option<u32>,
    /// Family of the generator's packets and of the routes; `forward` and `lookup` only.
    #[arg(long, value_parser = ["ipv4", "ipv6"])]
    family: Option<String>,
    /// Offered rate in frames a second, such as 400k or 1.5M; flat out if not given.
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// Queue pairs of each NIC.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    queues: Option<u16>,
    /// Misdeed of the hostile neighbour in the experiment `hostile`.
    #[arg(long, value_parser = |text: &str| named(text, &Misdeed::ALL, Misdeed::name))]
    misdeed: Option<Misdeed>,
    /// vCPUs of the router.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    vcpus: Option<u16>,
    /// NICs of the router in `forward`, in pairs: 2, 4, 6 or 8.
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=8))]
    nics: Option<u16>,
    /// Confine threads as in a running file; `forward` only.
    #[arg(long, value_parser = ["on", "off"])]
    sandbox: Option<String>,
}

/// Copies each option that is set.
macro_rules! take {
    ($from:ident, $to:ident: $($name:ident),+) => {
        $(if let Some(value) = &$from.$name {
            $to.$name.clone_from(value);
        })+
    };
}

impl OptionOverrides {
    /// Parses words of the form `name=value`.
    ///
    /// # Errors
    /// One line: the word that is not understood, or the valid ones.
    pub fn parse(words: impl IntoIterator<Item = impl fmt::Display>) -> Result<Self> {
        #[derive(Parser)]
        #[command(name = "words", no_binary_name = true, disable_help_flag = true)]
        struct Words {
            #[command(flatten)]
            varied: OptionOverrides,
        }
        match Words::try_parse_from(words.into_iter().map(|word| format!("--{word}"))) {
            Ok(words) => Ok(words.varied),
            Err(error) if error.kind() == ErrorKind::UnknownArgument => {
                bail!("expected words such as frame=1514 with one of {}", names(&Words::command()))
            }
            Err(error) => {
                let text = error.to_string();
                bail!("{}", text.lines().next().unwrap_or_default().trim_start_matches("error: "))
            }
        }
    }

    /// Returns the options with the parameters that are set here; all others keep their values.
    pub fn change(&self, options: &Options) -> Options {
        let mut options = options.clone();
        take!(self, options: engine, nic, mode, itr, combine, combine_above, attach, vhost, frame, write);
        take!(self, options: work, queue, flows, routes, queues, vcpus, nics);
        if let Some(word) = &self.sandbox {
            options.sandbox = if word == "on" { Confinement::On } else { Confinement::Off };
        }
        if let Some(word) = &self.family {
            options.six = word == "ipv6";
        }
        options.sent_interrupts = self.sent_interrupts.or(options.sent_interrupts);
        options.segment = self.segment.or(options.segment);
        options.conversation = self.conversation.or(options.conversation);
        options.direction = self.direction.or(options.direction);
        options.misdeed = self.misdeed.or(options.misdeed);
        options.rate = self.rate.or(options.rate);
        options
    }
}

/// Returns the names of a command's options.
fn names(command: &clap::Command) -> String {
    let names: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    names.join(" ")
}

/// Finds the value with this name.
fn named<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|item| name(*item) == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|item| name(*item)).collect();
        format!("expected one of {}", names.join(" "))
    })
}

/// Parses a rate in frames a second: a number, optionally with the suffix k, M or G.
///
/// # Errors
/// The text is not such a number.
pub fn rate(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(digits) if text.ends_with('k') => (digits, 1e3),
        Some(digits) if text.ends_with('M') => (digits, 1e6),
        Some(digits) => (digits, 1e9),
        None => (text, 1.0),
    };
    let rate = digits.parse::<f64>().map(|number| number * unit);
    rate.ok()
        .filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| "expected frames a second, such as 400k or 1.5M".to_owned())
}
