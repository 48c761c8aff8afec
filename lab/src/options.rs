//! The options of `ringroad lab run`.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use lab::experiment::{OptionOverrides, Options};
use lab::figures::{self, Figure};

/// All options of the verb.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    varied: OptionOverrides,
    /// Seconds of each repetition; or of each judged step, where a repetition consists of steps.
    #[arg(long)]
    seconds: Option<f64>,
    /// Repetitions.
    #[arg(long)]
    repeat: Option<u32>,
    /// Kernel of the Linux guest in `compare`: a bzImage, or an ELF file.
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// Its initramfs, whose init runs the words of run= on the kernel's command line as a script, with + in the place of blanks.
    #[arg(long, value_name = "PATH", requires = "kernel")]
    initrd: Option<PathBuf>,
    /// Append one JSON object for each case to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write figures that are diagrams as drawings to this folder.
    #[arg(long, value_name = "FOLDER")]
    svg: Option<PathBuf>,
    /// CPUs to use, such as 0,1: generator and switch on the first, the guest on the next.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Alternate with a variant of the options, and print the ratio: "frame=1514", "routes=1000000 flows=1000".
    #[arg(long, value_name = "OPTION=VALUE…")]
    versus: Option<String>,
}

impl RunOptions {
    /// Options with nothing set but the other variant.
    #[cfg(test)]
    pub(super) fn with_versus(text: &str) -> Self {
        Self { versus: Some(text.to_owned()), ..Self::default() }
    }

    /// Returns the options of the experiment.
    pub(crate) fn options(&self) -> Options {
        let varied = self.varied.change(&Options::default());
        Options {
            kernel: self.kernel.clone(),
            initrd: self.initrd.clone(),
            json: self.json.clone(),
            svg: self.svg.clone(),
            cpus: self.cpus.clone(),
            seconds: self.seconds.unwrap_or(varied.seconds),
            step: self.seconds,
            repeat: self.repeat.unwrap_or(varied.repeat),
            ..varied
        }
    }

    /// Returns the options of a figure. A figure has many cells: each is measured for a shorter time, unless the time is
    /// given here or in the figure's file.
    pub(crate) fn for_a_figure(&self, figure: &Figure, options: &Options) -> Options {
        Options {
            seconds: self.seconds.unwrap_or(figures::SECONDS),
            step: self.seconds.or(figure.seconds),
            repeat: self.repeat.unwrap_or(figures::REPEAT),
            rounds: self.repeat,
            ..options.clone()
        }
    }

    /// Returns the options of the other variant, if there is one.
    pub(crate) fn other(&self, options: &Options) -> Result<Option<Options>> {
        let Some(text) = &self.versus else { return Ok(None) };
        let varied = OptionOverrides::parse(text.split_whitespace());
        Ok(Some(varied.map_err(|why| anyhow!("--versus `{text}`: {why}"))?.change(options)))
    }
}
