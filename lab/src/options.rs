//! The options of `ringroad lab run`.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser};
use config::{Itr, Misdeed, NicModel, TransmitMode, VhostThreads};
use engine::Confinement;
use lab::experiment::{Attachment, Conversation, Direction, Options, SentInterrupts};
use lab::figures::{self, Figure};

/// What can be varied between two variants.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Varied {
    /// How the router runs.
    #[arg(long, value_parser = ["kvm", "process"])]
    engine: Option<String>,
    /// NIC model: virtio-net or e1000.
    #[arg(long, value_parser = config::nic_model)]
    nic: Option<NicModel>,
    /// How frames leave by an e1000: base, async, send-combining, csb or coalesced.
    #[arg(long, value_parser = config::transmit_mode)]
    mode: Option<TransmitMode>,
    /// Least time between two interrupts of a NIC, in units of 250 ns, or `adaptive`.
    #[arg(long)]
    itr: Option<Itr>,
    /// For send combining: frames that are sent although the interrupt that they wait for has not come; 0: as many as
    /// the ring holds.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1024))]
    combine: Option<u32>,
    /// For send combining: frames a second above which frames are combined; 0: always.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    combine_above: Option<u32>,
    /// Let the guest of `guest-tx` sleep as soon as its ring is full, and tell it of sent frames at-once or delayed.
    #[arg(long, value_parser = sent_interrupts)]
    sent_interrupts: Option<SentInterrupts>,
    /// What a guest's NICs are attached to: native (ports of the measuring room), tap, or switch.
    #[arg(long, value_parser = attachment)]
    attach: Option<Attachment>,
    /// What moves the frames in `attachments` and `queue-length`: shared (a thread of ours), vmm (the vCPU's thread and a
    /// main loop), or kernel (vhost-net).
    #[arg(long, value_parser = vhost)]
    vhost: Option<VhostThreads>,
    /// Octets of each frame, without FCS; up to 65549 with --segment.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(60..=65_549))]
    frame: Option<usize>,
    /// Octets of the frames that are made of each by who cuts it (segmentation offload), in `guest-tx` and `guest-rx`.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(60..=1514))]
    segment: Option<usize>,
    /// Octets that are handed to a TCP connection at once, in `tcp`.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(1..=65_536))]
    write: Option<usize>,
    /// What the stations of `tcp` do: stream or requests; both if not given.
    #[arg(long, value_parser = conversation)]
    conversation: Option<Conversation>,
    /// Which way the data of `tcp` go, seen from the guest: tx or rx; both if not given.
    #[arg(long, value_parser = direction)]
    direction: Option<Direction>,
    /// Nanoseconds that the application of `livelock` spends on each frame.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    work: Option<u32>,
    /// Frames that wait for that application at most.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=512))]
    queue: Option<u32>,
    /// Flows of the generator.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    flows: Option<u32>,
    /// Routes of the router; more than 2: so many synthetic ones, and 65,536 destinations.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=2_000_000))]
    routes: Option<u32>,
    /// Frames offered a second, such as 400k or 1.5M; flat out if not given.
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// Queue pairs of each NIC.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    queues: Option<u16>,
    /// What the router beside does in the experiment `hostile`.
    #[arg(long, value_parser = misdeed)]
    misdeed: Option<Misdeed>,
    /// vCPUs of the router.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16))]
    vcpus: Option<u16>,
    /// Whether threads are confined as those of a running file are; `forward` only.
    #[arg(long, value_parser = ["on", "off"])]
    sandbox: Option<String>,
}

/// All options.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    varied: Varied,
    /// Seconds of each repetition; of each judged step, where a repetition has steps of its own.
    #[arg(long)]
    seconds: Option<f64>,
    /// Repetitions.
    #[arg(long)]
    repeat: Option<u32>,
    /// Append one JSON object for each case to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// CPUs to use, such as 0,1: generator and switch on the first, the guest on the next.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Run the same with options changed, in turn, and tell the ratio: "frame=1514", "routes=1000000 flows=1000".
    #[arg(long, value_name = "OPTION=VALUE…")]
    versus: Option<String>,
}

impl RunOptions {
    /// Nothing but another variant.
    #[cfg(test)]
    pub(super) fn with_versus(text: &str) -> Self {
        Self { versus: Some(text.to_owned()), ..Self::default() }
    }

    /// The options of the experiment.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options {
            json: self.json.clone(),
            cpus: self.cpus.clone(),
            step: self.seconds,
            ..self.varied.change(&Options::default())
        };
        set(&mut options.seconds, &self.seconds);
        set(&mut options.repeat, &self.repeat);
        options
    }

    /// The options of a figure, which has many cells: each is measured for a shorter time, if nobody says how long, neither
    /// here nor in its file.
    pub(crate) fn for_a_figure(&self, figure: &Figure, options: &Options) -> Options {
        Options {
            seconds: self.seconds.unwrap_or(figures::SECONDS),
            step: self.seconds.or(figure.seconds),
            repeat: self.repeat.unwrap_or(figures::REPEAT),
            rounds: self.repeat,
            ..options.clone()
        }
    }

    /// The options of the other variant, if there is one.
    pub(crate) fn other(&self, options: &Options) -> Result<Option<Options>> {
        let Some(text) = &self.versus else { return Ok(None) };
        Ok(Some(parse(text)?.change(options)))
    }
}

impl Varied {
    fn change(&self, options: &Options) -> Options {
        let mut options = options.clone();
        set(&mut options.engine, &self.engine);
        set(&mut options.nic, &self.nic);
        set(&mut options.mode, &self.mode);
        set(&mut options.itr, &self.itr);
        set(&mut options.combine, &self.combine);
        set(&mut options.combine_above, &self.combine_above);
        options.sent_interrupts = self.sent_interrupts.or(options.sent_interrupts);
        set(&mut options.attach, &self.attach);
        set(&mut options.vhost, &self.vhost);
        set(&mut options.frame, &self.frame);
        options.segment = self.segment.or(options.segment);
        set(&mut options.write, &self.write);
        options.conversation = self.conversation.or(options.conversation);
        options.direction = self.direction.or(options.direction);
        set(&mut options.work, &self.work);
        set(&mut options.queue, &self.queue);
        set(&mut options.flows, &self.flows);
        set(&mut options.routes, &self.routes);
        set(&mut options.queues, &self.queues);
        set(&mut options.vcpus, &self.vcpus);
        let sandbox = |word: &String| if word == "on" { Confinement::On } else { Confinement::Off };
        set(&mut options.sandbox, &self.sandbox.as_ref().map(sandbox));
        options.misdeed = self.misdeed.or(options.misdeed);
        options.rate = self.rate.or(options.rate);
        options
    }
}

fn set<T: Clone>(place: &mut T, value: &Option<T>) {
    if let Some(value) = value {
        place.clone_from(value);
    }
}

/// Options as words `name=value`.
fn parse(text: &str) -> Result<Varied> {
    #[derive(Parser)]
    #[command(name = "--versus", no_binary_name = true, disable_help_flag = true)]
    struct Words {
        #[command(flatten)]
        varied: Varied,
    }
    let words = text.split_whitespace().map(|word| format!("--{word}"));
    match Words::try_parse_from(words) {
        Ok(words) => Ok(words.varied),
        Err(error) if error.kind() == ErrorKind::UnknownArgument => Err(anyhow!(
            "--versus `{text}`: expected words such as frame=1514 with one of {}",
            names(&Words::command())
        )),
        Err(error) => {
            let text_of = error.to_string();
            let line = text_of.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Err(anyhow!("--versus `{text}`: {line}"))
        }
    }
}

/// The names of the options of a command.
fn names(command: &clap::Command) -> String {
    let names: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    names.join(" ")
}

/// What has this name.
fn named<T: Copy>(text: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|item| name(*item) == text).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|item| name(*item)).collect();
        format!("expected one of {}", names.join(" "))
    })
}

/// A misdeed by its name.
fn misdeed(text: &str) -> Result<Misdeed, String> {
    named(text, &Misdeed::ALL, Misdeed::name)
}

/// When a guest is told of sent frames, by its name.
fn sent_interrupts(text: &str) -> Result<SentInterrupts, String> {
    named(text, &SentInterrupts::ALL, SentInterrupts::name)
}

/// What a guest is attached to, by its name.
fn attachment(text: &str) -> Result<Attachment, String> {
    named(text, &Attachment::ALL, Attachment::name)
}

/// Reads what moves frames, by its name.
fn vhost(text: &str) -> Result<VhostThreads, String> {
    named(text, &[VhostThreads::Shared, VhostThreads::Vmm, VhostThreads::Kernel], VhostThreads::name)
}

/// What stations do, by its name.
fn conversation(text: &str) -> Result<Conversation, String> {
    named(text, &Conversation::ALL, Conversation::name)
}

/// Which way data go, by its name.
fn direction(text: &str) -> Result<Direction, String> {
    named(text, &Direction::ALL, Direction::name)
}

/// A number with k or M behind it, if wanted.
pub(super) fn rate(text: &str) -> Result<f64, String> {
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
