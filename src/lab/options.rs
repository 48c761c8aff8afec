//! The options of `ringroad lab run`.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;
use clap::{Args, Parser};
use config::Misdeed;
use engine::Confinement;
use lab::experiment::Options;

/// What can be varied between two variants.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Varied {
    /// How the router runs.
    #[arg(long, value_parser = ["kvm", "process"])]
    engine: Option<String>,
    /// NIC model.
    #[arg(long, value_parser = ["virtio-net"])]
    nic: Option<String>,
    /// What the router's NICs are attached to: ports of the measuring room, or TAPs.
    #[arg(long, value_parser = ["native", "tap"])]
    attach: Option<String>,
    /// Octets of each frame, without FCS.
    #[arg(long, value_parser = RangedU64ValueParser::<usize>::new().range(60..=1514))]
    frame: Option<usize>,
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
    /// Seconds of each repetition.
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
            ..self.varied.change(&Options::default())
        };
        set(&mut options.seconds, &self.seconds);
        set(&mut options.repeat, &self.repeat);
        options
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
        set(&mut options.attach, &self.attach);
        set(&mut options.frame, &self.frame);
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
            "--versus `{text}`: expected words such as frame=1514 with one of engine nic attach frame flows routes \
             rate queues misdeed vcpus sandbox"
        )),
        Err(error) => {
            let text_of = error.to_string();
            let line = text_of.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Err(anyhow!("--versus `{text}`: {line}"))
        }
    }
}

/// A misdeed by its name.
fn misdeed(text: &str) -> Result<Misdeed, String> {
    Misdeed::ALL.into_iter().find(|misdeed| misdeed.name() == text).ok_or_else(|| {
        let names: Vec<&str> = Misdeed::ALL.iter().map(|misdeed| misdeed.name()).collect();
        format!("expected one of {}", names.join(" "))
    })
}

/// A number with k or M behind it, if wanted.
fn rate(text: &str) -> Result<f64, String> {
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
