//! `ringroad capture NAME.NIC FILE`: captures the frames that pass a NIC, in both directions, into a pcap
//! file.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use api::{Answer, CaptureEnd, Request};
use clap::Args;
use command_line::client::{self, Kind, unexpected};

/// Extra time for the run's answer: it checks its captures ten times a second, and the file may take some
/// seconds for the last frames.
const SLACK: Duration = Duration::from_secs(20);
/// Timeout of a capture without a time limit: practically infinite.
const WITHOUT_END: Duration = Duration::from_secs(1 << 31);

/// Options of `ringroad capture`.
#[derive(Args)]
pub(crate) struct Options {
    /// Router and NIC, as in `edge.wan`
    nic: String,
    /// Output file, which is overwritten once the capture begins; `-`: standard output
    file: PathBuf,
    /// End after so many frames
    #[arg(long)]
    count: Option<u64>,
    /// End after so many seconds
    #[arg(long, value_parser = command_line::seconds)]
    seconds: Option<Duration>,
    /// Octets kept of each frame
    #[arg(long, default_value_t = 65_535, value_name = "OCTETS")]
    snap: u32,
}

/// Lets the run write into the file until a limit is reached; it also ends with this process.
///
/// # Errors
/// There is no such router or NIC, the file cannot be written, or the run goes away.
pub(crate) fn capture(options: &Options) -> Result<()> {
    let Some((router, nic)) = options.nic.split_once('.') else {
        bail!("{:?} names no NIC; write e.g. edge.wan", options.nic);
    };
    let mut target = client::find(router, Kind::Router)?;
    let file = open(&options.file)?;
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let request = Request::Capture {
        router: router.to_owned(),
        nic: nic.to_owned(),
        count: options.count,
        timeout_ms: options.seconds.map(milliseconds),
        snap: options.snap,
    };
    target.client.set_timeout(options.seconds.map_or(WITHOUT_END, |time| time.saturating_add(SLACK)));
    target.client.send_with(&request, file.as_fd())?;
    drop(file);
    match target.client.next_answer()? {
        Answer::Captured(end) => tell(&end, &options.file),
        _ => Err(unexpected().into()),
    }
}

fn open(path: &Path) -> Result<OwnedFd> {
    if path == Path::new("-") {
        return std::io::stdout().as_fd().try_clone_to_owned().context("there is no standard output");
    }
    let file = engine::create_patiently(path);
    Ok(file.with_context(|| format!("cannot write {}", path.display()))?.into())
}

/// Reports on standard error, since the frames may go to standard output.
fn tell(end: &CaptureEnd, path: &Path) -> Result<()> {
    eprintln!("{}", summary(end));
    ensure!(end.complete, "{} could not be written to the end", path.display());
    Ok(())
}

fn summary(end: &CaptureEnd) -> String {
    format!("{} frames captured in {:.1} s, {} missed", end.captured, end.ran_ns as f64 * 1e-9, end.missed)
}

#[cfg(test)]
mod tests;
