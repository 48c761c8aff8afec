//! Client side of the commands: discovers runs, and finds the one with a given router.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
pub use api::client::unexpected;
use api::{Answer, Client, Error, Request, RunStatus};

use crate::group;

/// Timeout for a run's status: on a busy host neither side may run for a second or more, and the run's loop may be in a write to a control
/// group, which waits for a grace period of the kernel. Not longer, since a run that is stopped delays commands about all others by it.
const HELLO: Duration = Duration::from_secs(10);
/// Timeout for an answer to a question, and for sending any request.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for a change: practically infinite. The run has a time limit for each step of it, which depends on the number of routers and
/// on what else is in progress, and the connection ends with the run.
const UNTIL_DONE: Duration = Duration::from_secs(1 << 31);
/// Most names listed in an error; further ones are only counted.
const LISTED: usize = 12;

/// A discovered run.
pub struct Found {
    /// Name of its folder, which is the name of the run.
    pub name: String,
    /// Path of its control socket.
    pub socket: PathBuf,
    /// Status, or the reason why there is none.
    pub status: Result<RunStatus, Error>,
}

/// Discovers all runs of this user.
///
/// # Errors
/// The folder of runs cannot be read.
pub fn runs() -> Result<Vec<Found>> {
    runs_in(&api::folder::base()?.join("runs"), HELLO)
}

/// Discovers the runs in a folder, each of which has this long to answer.
fn runs_in(folder: &Path, patience: Duration) -> Result<Vec<Found>> {
    let sockets =
        api::folder::sockets(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    // In parallel, so that several silent runs cost only one timeout.
    let asked: Vec<_> = sockets
        .into_iter()
        .map(|(name, socket)| {
            let place = socket.clone();
            (name, socket, thread::spawn(move || Client::connect(&place, patience)?.status()))
        })
        .collect();
    let found = asked.into_iter().map(|(name, socket, status)| {
        let status = status.join().unwrap_or_else(|_| Err(Error::new("it could not be asked")));
        Found { name, socket, status }
    });
    Ok(found.collect())
}

/// Run that a name refers to.
pub struct Target {
    /// A connection to the run.
    pub client: Client,
    /// Status that the run reported.
    pub status: RunStatus,
    /// Path of its socket, which exists as long as it runs.
    pub socket: PathBuf,
}

/// Kinds of objects that a name may refer to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A router.
    Router,
    /// A run.
    Run,
    /// A router, or else a run.
    Either,
}

impl Kind {
    const fn noun(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Run => "run",
            Self::Either => "router or run",
        }
    }
}

/// Finds the run of this name, or the one that has the router of this name.
///
/// # Errors
/// There is none: the message lists the existing ones, and a similar name.
pub fn find(name: &str, kind: Kind) -> Result<Target> {
    choose(runs()?, name, kind)
}

fn choose(found: Vec<Found>, name: &str, kind: Kind) -> Result<Target> {
    let has_router =
        |status: &RunStatus| status.routers.iter().any(|router| group::is_meant(&router.name, name));
    let by_router = |run: &Found| kind != Kind::Run && run.status.as_ref().is_ok_and(has_router);
    let by_name = |run: &Found| kind != Kind::Router && run.name == name;
    let at = found.iter().position(by_router).or_else(|| found.iter().position(by_name));
    match at {
        Some(at) => open(found.into_iter().nth(at)),
        None => Err(not_found(&found, name, kind)),
    }
}

/// Connects to every run that answers.
///
/// # Errors
/// There is none.
pub fn all() -> Result<Vec<Target>> {
    let answering: Vec<_> = runs()?.into_iter().filter_map(|run| open(Some(run)).ok()).collect();
    if answering.is_empty() { Err(nothing_runs()) } else { Ok(answering) }
}

/// Finds the run of this name, or else the only run.
///
/// # Errors
/// There is none, or there are several, which are listed.
pub fn named_or_only(name: &str) -> Result<Target> {
    let mut found = runs()?;
    if let Some(at) = found.iter().position(|run| run.name == name) {
        return open(Some(found.swap_remove(at)));
    }
    match found.len() {
        0 => Err(nothing_runs()),
        1 => open(found.into_iter().next()),
        _ => {
            let names = list(found.iter().map(|run| run.name.as_str()));
            Err(anyhow!("several runs are up: say which by --run NAME; runs: {names}"))
        }
    }
}

fn open(found: Option<Found>) -> Result<Target> {
    let found = found.context("the run has gone")?;
    let status = found.status.with_context(|| format!("run {} does not answer", found.name))?;
    Ok(Target { client: Client::connect(&found.socket, PATIENCE)?, status, socket: found.socket })
}

fn nothing_runs() -> anyhow::Error {
    anyhow!("nothing runs: start a file with `ringroad run FILE`")
}

fn not_found(found: &[Found], name: &str, kind: Kind) -> anyhow::Error {
    if found.is_empty() {
        return nothing_runs();
    }
    let mut known: Vec<&str> = Vec::new();
    if kind != Kind::Run {
        let routers = found.iter().filter_map(|run| run.status.as_ref().ok()).flat_map(|run| &run.routers);
        known.extend(routers.map(|router| router.name.as_str()));
    }
    if kind != Kind::Router {
        known.extend(found.iter().map(|run| run.name.as_str()));
    }
    let mut text = format!("there is no {} {name:?}", kind.noun());
    if let Some(near) = nearest(name, &known) {
        let _ = write!(text, "; did you mean {near:?}?");
    }
    let _ = write!(text, "; there are: {}", list(known.iter().copied()));
    let silent: Vec<&str> =
        found.iter().filter(|run| run.status.is_err()).map(|run| run.name.as_str()).collect();
    if !silent.is_empty() {
        let _ = write!(text, "; no answer from: {}", list(silent.iter().copied()));
    }
    anyhow!(text)
}

/// Most similar known name, if it is similar enough.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    const ALIKE: f64 = 0.75;
    let scored = known.iter().map(|known| (strsim::jaro_winkler(name, known), *known));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(score, _)| *score >= ALIKE).map(|(_, name)| name)
}

fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    match (names.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}

/// Sends a request for a change, and waits until the run has made or refused it.
///
/// # Errors
/// The run's error; or it does not read the request in time, or ends.
pub fn request_change(client: &mut Client, request: &Request) -> Result<Answer, Error> {
    client.send(request)?;
    client.set_timeout(UNTIL_DONE);
    client.next_answer()
}

/// Sends a request for a change that is answered by [`Answer::Done`], and prints its message.
///
/// # Errors
/// The run's error.
pub fn request_and_print(target: &mut Target, request: &Request) -> Result<()> {
    match request_change(&mut target.client, request)? {
        Answer::Done { message } => print_from_run(&format!("{message}\n")),
        _ => Err(unexpected().into()),
    }
}

/// Prints a text that came from a run.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_from_run(text: &str) -> Result<()> {
    crate::print(&plain(text))
}

/// Replaces control characters: a text from a run must not control the terminal.
pub fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

#[cfg(test)]
mod tests;
