//! The side of a command: which runs there are, and the one that has a router.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use api::{Answer, Client, Error, Request, RunStatus};

/// How long a run may take to say what it is: a busy host keeps both from running for a second or more.
const HELLO: Duration = Duration::from_secs(5);
/// How long a run may take for what it is asked to do: a router that starts may need half a minute.
const PATIENCE: Duration = Duration::from_secs(60);
/// Names that are listed in an error; more are counted.
const LISTED: usize = 12;

/// A run that was found.
pub struct Found {
    /// Name of its folder, which is its name.
    pub name: String,
    /// Where it answers.
    pub socket: PathBuf,
    /// What it says, or why it says nothing.
    pub status: Result<RunStatus, Error>,
}

/// All runs of this user.
///
/// # Errors
/// The folder of runs cannot be read.
pub fn runs() -> Result<Vec<Found>> {
    let folder = api::folder::base()?.join("runs");
    let sockets =
        api::folder::sockets(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    // All at once, so that those that say nothing cost a second together.
    let asked: Vec<_> = sockets
        .into_iter()
        .map(|(name, socket)| {
            let place = socket.clone();
            (name, socket, thread::spawn(move || ask_status(&place)))
        })
        .collect();
    let found = asked.into_iter().map(|(name, socket, status)| {
        let status = status.join().unwrap_or_else(|_| Err(Error::new("it could not be asked")));
        Found { name, socket, status }
    });
    Ok(found.collect())
}

fn ask_status(socket: &std::path::Path) -> Result<RunStatus, Error> {
    match Client::connect(socket, HELLO)?.ask(&Request::Ps {})? {
        Answer::Ps(status) => Ok(status),
        _ => Err(unexpected()),
    }
}

/// What a name stands for.
pub struct Target {
    /// A connection to its run.
    pub client: Client,
    /// What the run said of itself.
    pub status: RunStatus,
    /// Where it answers, as long as it runs.
    pub socket: PathBuf,
}

/// What may be meant by a name.
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

/// The run that is meant by `name`, or that has the router of this name.
///
/// # Errors
/// There is none: which there are, and which may have been meant.
pub fn find(name: &str, kind: Kind) -> Result<Target> {
    choose(runs()?, name, kind)
}

fn choose(found: Vec<Found>, name: &str, kind: Kind) -> Result<Target> {
    let has_router = |status: &RunStatus| status.routers.iter().any(|router| router.name == name);
    let by_router = |run: &Found| kind != Kind::Run && run.status.as_ref().is_ok_and(has_router);
    let by_name = |run: &Found| kind != Kind::Router && run.name == name;
    let at = found.iter().position(by_router).or_else(|| found.iter().position(by_name));
    match at {
        Some(at) => open(found.into_iter().nth(at)),
        None => Err(not_found(&found, name, kind)),
    }
}

/// Every run that answers.
///
/// # Errors
/// There is none.
pub fn all() -> Result<Vec<Target>> {
    let answering: Vec<_> = runs()?.into_iter().filter_map(|run| open(Some(run)).ok()).collect();
    if answering.is_empty() { Err(nothing_runs()) } else { Ok(answering) }
}

/// The run of this name, or else the only one there is.
///
/// # Errors
/// There is none, or which there are.
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

/// A name that looks as if it had been meant.
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

/// An answer to something else than was asked.
pub fn unexpected() -> Error {
    Error::new("the run answers something else than was asked: is it of another version?")
}

/// Asks for what is answered by [`Answer::Done`], and prints what has been done.
///
/// # Errors
/// What the run says is wrong.
pub fn order(target: &mut Target, request: &Request) -> Result<()> {
    match target.client.ask(request)? {
        Answer::Done { message } => say(&format!("{message}\n")),
        _ => Err(unexpected().into()),
    }
}

/// Prints what a run has said.
///
/// # Errors
/// Stdout does not take it.
pub fn say(text: &str) -> Result<()> {
    crate::print(&plain(text))
}

/// What a run has said may be anything: a terminal is not to be steered by it.
pub fn plain(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "?")
}

#[cfg(test)]
mod tests;
