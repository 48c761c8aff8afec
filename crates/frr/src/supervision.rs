//! Supervision of the daemons of one control plane, as a state machine: news and time in, acts out.
//!
//! ```text
//! start zebra -> its socket answers -> start the others -> their sockets answer -> load the configuration -> Settling -> Well
//! one ends    -> pause (0.1 s, doubling to 10 s) -> start it -> its socket answers -> load its configuration
//! ```
//!
//! zebra may end while the others run: they connect to the next one by themselves, and the routes stay in the kernel and in the
//! data path. A daemon that stays silent is killed, and started again. There is no last attempt.

use std::collections::BTreeMap;

use crate::Daemon;

/// Pauses before a restart, in milliseconds: the first, and the longest.
const PAUSE: [u64; 2] = [100, 10_000];
/// Milliseconds of a life after which the next pause is the first one again.
const LONG_LIFE: u64 = 60_000;
/// Milliseconds within which a daemon has to answer after its start.
const PATIENCE: u64 = 30_000;
/// Milliseconds within which vtysh has to load a configuration.
const LOADING: u64 = 120_000;
/// Milliseconds that a daemon has to end after SIGTERM.
const GRACE: u64 = 5_000;
/// Milliseconds after the last load until stale routes and sessions are given up: adjacencies of OSPF (dead interval 40 s) and
/// BGP (restart time 120 s) have come back by then, or will not.
const SETTLING: u64 = 150_000;

/// Something that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The socket of a daemon answers.
    Answers(Daemon),
    /// A daemon has ended, or could not be started.
    Ended(Daemon),
    /// vtysh has ended: the configuration was loaded, or it was not.
    Loaded {
        /// True if all lines were accepted.
        well: bool,
    },
}

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start a daemon; remove its old socket before.
    Start(Daemon),
    /// Let vtysh load the configuration of all daemons, or of one.
    Load(Option<Daemon>),
    /// Kill vtysh: it takes too long.
    KillLoad,
    /// Send SIGTERM to a daemon.
    Terminate(Daemon),
    /// Send SIGKILL to a daemon.
    Kill(Daemon),
    /// The control plane has settled: give up what is still stale.
    Settled,
}

/// Condition of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Daemons are being started, or load their configuration.
    Starting,
    /// All daemons run; some routes may still be those of before.
    Settling,
    /// All daemons run.
    Well,
    /// A daemon does not run, and is started again later.
    Broken(Daemon),
    /// All are stopped, or about to be.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not to be started yet: zebra comes first.
    Waiting,
    /// Started at this time, and silent so far.
    Started(u64),
    /// Answers; started at this time.
    Answers(u64),
    /// Ended; to be started at this time.
    Pausing(u64),
    /// Asked to end, at this time.
    Ending(u64),
    Ended,
}

#[derive(Clone, Copy, Debug)]
struct Process {
    state: State,
    /// Pause before the next start.
    pause: u64,
    needs_load: bool,
    restarts: u64,
}

/// Supervision of the daemons.
#[derive(Clone, Debug)]
pub struct Supervision {
    processes: BTreeMap<Daemon, Process>,
    /// Load that is under way, since when.
    loading: Option<(Option<Daemon>, u64)>,
    /// True once the whole configuration was loaded.
    is_loaded: bool,
    /// When the control plane will have settled.
    settles: Option<u64>,
    is_stopping: bool,
}

impl Supervision {
    /// Supervision of these daemons; zebra has to be among them. Nothing runs yet.
    pub fn new(daemons: impl IntoIterator<Item = Daemon>) -> Self {
        let fresh = Process { state: State::Waiting, pause: PAUSE[0], needs_load: false, restarts: 0 };
        Self {
            processes: daemons.into_iter().map(|daemon| (daemon, fresh)).collect(),
            loading: None,
            is_loaded: false,
            settles: None,
            is_stopping: false,
        }
    }

    /// Takes news at time `now`, in milliseconds.
    pub fn take(&mut self, news: News, now: u64) {
        match news {
            News::Answers(daemon) => self.answers(daemon),
            News::Ended(daemon) => self.ended(daemon, now),
            News::Loaded { well } => self.loaded(well, now),
        }
    }

    /// Returns what is to be done at time `now`.
    pub fn turn(&mut self, now: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.is_stopping {
            self.end_all(now, &mut acts);
        } else {
            self.start_due(now, &mut acts);
            self.kill_silent(now, &mut acts);
            self.load_due(now, &mut acts);
            if self.settles.take_if(|at| *at <= now).is_some() {
                acts.push(Act::Settled);
            }
        }
        acts
    }

    /// Time of the next turn, unless news comes before.
    pub fn due(&self) -> Option<u64> {
        let times = self.processes.values().filter_map(|process| match process.state {
            State::Waiting => (!self.is_stopping && self.may_start_others()).then_some(0),
            State::Started(since) => Some(since + PATIENCE),
            State::Pausing(until) => Some(until),
            State::Ending(since) => Some(since + GRACE),
            State::Answers(_) | State::Ended => None,
        });
        times.chain(self.settles).chain(self.loading.map(|(_, since)| since + LOADING)).min()
    }

    /// Ends all daemons, zebra last.
    pub const fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Returns true if all daemons have ended after [`Supervision::stop`].
    pub fn is_stopped(&self) -> bool {
        self.is_stopping && self.processes.values().all(|process| !process.is_running())
    }

    /// Asks for a load of the whole configuration: it was changed.
    pub fn reload(&mut self) {
        self.is_loaded = false;
    }

    /// Condition of the control plane.
    pub fn health(&self) -> Health {
        if self.is_stopping {
            return Health::Stopped;
        }
        let broken = self.processes.iter().find(|(_, process)| matches!(process.state, State::Pausing(_)));
        let all_answer = self.processes.values().all(|process| matches!(process.state, State::Answers(_)));
        match broken {
            Some((daemon, _)) => Health::Broken(*daemon),
            None if !all_answer || !self.is_loaded || self.loading.is_some() => Health::Starting,
            None if self.settles.is_some() => Health::Settling,
            None => Health::Well,
        }
    }

    /// Daemons that were started and do not answer yet.
    pub fn silent(&self) -> impl Iterator<Item = Daemon> {
        let silent = self.processes.iter().filter(|(_, process)| matches!(process.state, State::Started(_)));
        silent.map(|(daemon, _)| *daemon)
    }

    /// Number of times that a daemon was started again.
    pub fn restarts(&self, daemon: Daemon) -> u64 {
        self.processes.get(&daemon).map_or(0, |process| process.restarts)
    }

    fn answers(&mut self, daemon: Daemon) {
        // A load that is under way has passed it by, or met the one before it.
        let needs_load = self.is_loaded || self.loading.is_some();
        if let Some(process) = self.processes.get_mut(&daemon)
            && let State::Started(since) = process.state
        {
            process.state = State::Answers(since);
            process.needs_load = needs_load;
        }
    }

    fn ended(&mut self, daemon: Daemon, now: u64) {
        let is_stopping = self.is_stopping;
        let Some(process) = self.processes.get_mut(&daemon) else { return };
        let since = match process.state {
            State::Started(since) | State::Answers(since) | State::Ending(since) => since,
            State::Waiting | State::Pausing(_) | State::Ended => return,
        };
        if is_stopping {
            process.state = State::Ended;
            return;
        }
        if now.saturating_sub(since) >= LONG_LIFE {
            process.pause = PAUSE[0];
        }
        if matches!(process.state, State::Answers(_)) {
            // It has yet to ask again for what is its own. If it cannot be started any more, nobody waits for ever.
            self.settles = self.settles.map(|at| at.max(now + SETTLING));
        }
        process.state = State::Pausing(now + process.pause);
        process.pause = (process.pause * 2).min(PAUSE[1]);
        process.restarts += 1;
        process.needs_load = false;
    }

    fn loaded(&mut self, well: bool, now: u64) {
        let Some((only, _)) = self.loading.take() else { return };
        if only.is_none() {
            // A configuration that is refused in part is in force in part: loading it again would change nothing.
            self.is_loaded = true;
        }
        if let Some(process) = only.filter(|_| !well).and_then(|daemon| self.processes.get_mut(&daemon)) {
            // It may have ended meanwhile; if not, the next load is for all.
            process.needs_load = false;
            self.is_loaded = false;
        }
        self.settles = Some(now + SETTLING);
    }

    /// Others are started when zebra answers, once; afterwards they do without it for a while.
    fn may_start_others(&self) -> bool {
        let zebra = self.processes.get(&Daemon::Zebra);
        zebra.is_none_or(|zebra| matches!(zebra.state, State::Answers(_)))
    }

    fn start_due(&mut self, now: u64, acts: &mut Vec<Act>) {
        let others = self.may_start_others();
        for (daemon, process) in &mut self.processes {
            let is_due = match process.state {
                State::Waiting => *daemon == Daemon::Zebra || others,
                State::Pausing(until) => until <= now,
                _ => false,
            };
            if is_due {
                process.state = State::Started(now);
                acts.push(Act::Start(*daemon));
            }
        }
    }

    fn kill_silent(&mut self, now: u64, acts: &mut Vec<Act>) {
        for (daemon, process) in &mut self.processes {
            let is_silent = match process.state {
                State::Started(since) => since + PATIENCE <= now,
                State::Ending(since) => since + GRACE <= now,
                _ => false,
            };
            if is_silent {
                // Its end comes as news.
                process.state = State::Ending(now);
                acts.push(Act::Kill(*daemon));
            }
        }
    }

    fn load_due(&mut self, now: u64, acts: &mut Vec<Act>) {
        if let Some((_, since)) = &mut self.loading {
            if *since + LOADING <= now {
                *since = now;
                acts.push(Act::KillLoad);
            }
            return;
        }
        let all_answer = self.processes.values().all(|process| matches!(process.state, State::Answers(_)));
        let one = self.processes.iter().find(|(_, process)| process.needs_load).map(|(daemon, _)| *daemon);
        let only = match (self.is_loaded, one) {
            (false, _) if all_answer => None,
            (true, Some(daemon)) => Some(daemon),
            _ => return,
        };
        for (daemon, process) in &mut self.processes {
            process.needs_load &= only.is_some_and(|only| only != *daemon);
        }
        self.loading = Some((only, now));
        acts.push(Act::Load(only));
    }

    /// zebra ends last, so that it takes no route away while others still run.
    fn end_all(&mut self, now: u64, acts: &mut Vec<Act>) {
        let others =
            self.processes.iter().any(|(daemon, process)| *daemon != Daemon::Zebra && process.is_running());
        for (daemon, process) in &mut self.processes {
            match process.state {
                State::Waiting | State::Pausing(_) => process.state = State::Ended,
                State::Started(_) | State::Answers(_) if *daemon != Daemon::Zebra || !others => {
                    process.state = State::Ending(now);
                    acts.push(Act::Terminate(*daemon));
                }
                State::Ending(since) if since + GRACE <= now => {
                    process.state = State::Ending(now);
                    acts.push(Act::Kill(*daemon));
                }
                _ => {}
            }
        }
    }
}

impl Process {
    const fn is_running(&self) -> bool {
        matches!(self.state, State::Started(_) | State::Answers(_) | State::Ending(_))
    }
}

#[cfg(test)]
mod tests;
