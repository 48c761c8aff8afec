//! `ringroad exec ROUTER -- COMMAND` and `ringroad cli ROUTER`: run a command, or FRR's shell, in the control plane of a router.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use api::{Answer, ControlAnswer, ControlPlace, ControlQuestion, Request};
use command_line::client::{self, Kind, unexpected};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Longest wait for threads that have done their work to be gone: a process with several cannot change its mounts.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(1);

/// Arguments of `ringroad exec`.
#[derive(clap::Args)]
pub(crate) struct ExecOptions {
    /// Name of the router
    router: String,
    /// Command with its words, as in `ip route` or `tcpdump -i wan`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Arguments of `ringroad cli`.
#[derive(clap::Args)]
pub(crate) struct CliOptions {
    /// Name of the router
    router: String,
    /// Words for vtysh, as in `-c "show ip route"`; without any it asks what to do
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Becomes a command in the network namespace of a router's control plane.
///
/// # Errors
/// There is no such router, it has no control plane, or the command cannot be started.
pub(crate) fn exec(options: &ExecOptions) -> Result<()> {
    let place = place(&options.router)?;
    enter(&place.network, LinkNameSpaceType::Network)?;
    become_command(&options.command)
}

/// Becomes FRR's shell for a router.
///
/// # Errors
/// There is no such router, FRR does not run for it, or the shell cannot be started.
pub(crate) fn cli(options: &CliOptions) -> Result<()> {
    let place = place(&options.router)?;
    let Some(mounts) = &place.mounts else {
        bail!("FRR does not run for router {}; write frr = in its [router.control]", options.router);
    };
    let network = open(&place.network)?;
    // The paths are those of the host: both are opened before one is entered.
    enter(mounts, LinkNameSpaceType::Mount)?;
    enter_file(&network, LinkNameSpaceType::Network).with_context(|| refused(&place.network))?;
    let words: Vec<String> = place.shell.iter().chain(&options.words).cloned().collect();
    become_command(&words)
}

fn place(router: &str) -> Result<ControlPlace> {
    let mut target = client::find(router, Kind::Router)?;
    let request = Request::Control { router: router.to_owned(), question: ControlQuestion::Place {} };
    match target.client.ask(&request)? {
        Answer::Control(ControlAnswer::Place(place)) => Ok(place),
        _ => Err(unexpected().into()),
    }
}

fn enter(path: &str, kind: LinkNameSpaceType) -> Result<()> {
    enter_file(&open(path)?, kind).with_context(|| refused(path))
}

fn open(path: &str) -> Result<File> {
    File::open(path).with_context(|| refused(path))
}

fn refused(path: &str) -> String {
    format!("cannot enter {path}: it takes root's rights")
}

fn enter_file(namespace: &File, kind: LinkNameSpaceType) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match move_into_link_name_space(namespace.as_fd(), Some(kind)) {
            Err(Errno::INVAL) if Instant::now() < end => sleep(LOOK),
            outcome => return Ok(outcome?),
        }
    }
}

fn become_command(words: &[String]) -> Result<()> {
    let [program, words @ ..] = words else { bail!("no command is given") };
    let error = Command::new(program).args(words).exec();
    Err(anyhow!(error).context(format!("cannot run {program}")))
}
