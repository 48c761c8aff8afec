//! `ringroad top`: shows the activity of every NIC, router and thread of running instances, second by second.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use api::Counters;
use clap::Args;
use command_line::client::{self, Kind, Target};
use command_line::group;
use serde_json::Value;
use supervisor::table::{Interval, Layout, MemberStates, Screen, member_states};

/// Time between two readings.
const SECOND: Duration = Duration::from_secs(1);

/// Options of `ringroad top`.
#[derive(Args)]
pub(crate) struct Options {
    /// Show only this router or run
    name: Option<String>,
    /// Print one JSON object per second and run instead of the table
    #[arg(long)]
    json: bool,
    /// Show only one second
    #[arg(long)]
    once: bool,
    /// Show the members of groups instead of the groups
    #[arg(long)]
    members: bool,
}

/// A watched run.
struct Watched {
    target: Target,
    /// Only this router of it, or this group.
    router: Option<String>,
    /// Whether the members of groups are shown.
    members: bool,
    /// As the run reported them: those of each member of a group.
    last: Counters,
}

/// Shows the activity in each second of a router, a run, or all runs, until it is interrupted or nobody reads
/// what it prints any more.
///
/// # Errors
/// There is no such router or run, or it goes away.
pub(crate) fn top(options: &Options) -> Result<()> {
    let name = options.name.as_deref();
    let targets = match name {
        Some(name) => vec![client::find(name, Kind::Either)?],
        None => client::all()?,
    };
    let watched = targets.into_iter().map(|target| Watched::begin(target, name, options.members));
    let mut watched = watched.collect::<Result<Vec<_>>>()?;
    let mut screen = Screen::of_stdout();
    let mut next = Instant::now();
    loop {
        next = following(next, Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let texts = watched.iter_mut().map(|run| run.go_on(options.json));
        let text = client::plain(&texts.collect::<Result<String>>()?);
        let text = if options.json { text } else { screen.draw(&text) };
        if !command_line::print_while_read(&text)? || options.once {
            return Ok(());
        }
    }
}

/// When to read the counters after the reading that was due at `last`. After a pause (Ctrl-Z, a host that slept)
/// the seconds missed are not made up for.
fn following(last: Instant, now: Instant) -> Instant {
    let next = last + SECOND;
    if next > now { next } else { now + SECOND }
}

impl Watched {
    fn begin(target: Target, name: Option<&str>, members: bool) -> Result<Self> {
        let routers = &target.status.routers;
        let router = name.filter(|name| routers.iter().any(|router| group::is_meant(&router.name, name)));
        let router = router.map(str::to_owned);
        let mut watched = Self { router, members, target, last: Counters::default() };
        watched.last = watched.read()?;
        Ok(watched)
    }

    fn read(&mut self) -> Result<Counters> {
        Ok(self.target.client.counters(self.router.as_deref())?)
    }

    /// Whether members of groups are shown: all of them, or the one that it is about.
    fn shows_members(&self) -> bool {
        self.members || self.router.as_deref().and_then(group::around).is_some()
    }

    /// Output for the time since the last call.
    fn go_on(&mut self, json: bool) -> Result<String> {
        let now = self.read()?;
        let last = std::mem::replace(&mut self.last, now.clone());
        let (last, now) = if self.shows_members() { (last, now) } else { group::both_added_up(last, now) };
        let interval = Interval::between(&last, &now);
        if json {
            return line(&self.target.status.run, &interval);
        }
        let states = self.states()?;
        let layout = self.layout(&now);
        Ok(format!("run {}\n{}", self.target.status.run, interval.table_of(&layout, &states)))
    }

    /// States of the members that are shown; also takes note of members that are new or gone.
    fn states(&mut self) -> Result<MemberStates> {
        if !self.shows_members() {
            return Ok(MemberStates::new());
        }
        self.target.status = self.target.client.status()?;
        Ok(member_states(&self.target.status.routers))
    }

    /// Routers in the order of their file, each with its NICs that have counters.
    fn layout(&self, counters: &Counters) -> Layout {
        let routers = &self.target.status.routers;
        let routers = if self.shows_members() { routers.clone() } else { group::folded(routers) };
        let is_shown = |name: &str| self.router.as_deref().is_none_or(|only| group::is_meant(name, only));
        let shown = routers.into_iter().map(|router| router.name).filter(|name| is_shown(name));
        shown.map(|router| (router.clone(), nics(counters, &router))).collect()
    }
}

/// An interval of a run, as one JSON object.
fn line(run: &str, interval: &Interval) -> Result<String> {
    let mut value: Value = serde_json::from_str(&interval.json())?;
    if let Some(object) = value.as_object_mut() {
        object.insert("run".to_owned(), Value::from(run));
    }
    Ok(format!("{value}\n"))
}

/// NICs of a router that have counters.
fn nics(counters: &Counters, router: &str) -> Vec<String> {
    let own = counters.counters.keys().filter_map(|name| name.strip_prefix(router)?.strip_prefix('.'));
    let nics = own.filter_map(|name| name.strip_suffix(".rx.frames"));
    nics.filter(|nic| !nic.contains('.')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
