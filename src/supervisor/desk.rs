//! Where clients of the control socket are served: what is known here is answered here, the rest is asked of the data
//! plane.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::{Context, Result};
use api::{Answer, Limits, Outcome, Request, RouterStatus, RunStatus, Server, State, Ticket};
use telemetry::Kind;

use super::Supervisor;
use super::apply::{Staged, Wanted};
use crate::link::ToPlane;
use crate::run_lock::RunLock;

/// Settings and stops that are kept for the next data plane.
const MOST_KEPT: usize = 1000;

/// Who asked the data plane something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The table.
    Display,
    /// Somebody who wants a page of metrics.
    Metrics,
    /// A client.
    Client(Ticket, Request),
    /// A client that wants another file to run.
    Apply(Ticket),
    /// Nobody: a new data plane is told what its predecessor had been told.
    Replay(Request),
}

/// The control socket, and what is asked of the data plane at the moment.
pub(super) struct Desk {
    pub(super) server: Server,
    /// By the number of the question.
    asked: BTreeMap<u64, Asker>,
    next: u64,
    /// What clients have changed since the file was applied.
    kept: Vec<Request>,
    staged: Option<Staged>,
    /// Clients that were left so far.
    left: u64,
}

impl Desk {
    /// Opens the control socket in the folder of the run.
    ///
    /// # Errors
    /// One line: the folder cannot be used.
    pub(super) fn open(lock: &mut RunLock) -> Result<Self> {
        let folder = lock.run().context("a run has a folder")?.1;
        lock.add_rubbish(&folder.join(api::folder::SOCKET));
        lock.add_rubbish(&folder.join(format!(".{}.{}", api::folder::SOCKET, std::process::id())));
        let server = Server::listen(&folder, Limits::default()).context("no control socket")?;
        let (asked, kept) = (BTreeMap::new(), Vec::new());
        Ok(Self { server, asked, next: 0, kept, staged: None, left: 0 })
    }

    /// A number for a new question.
    pub(super) fn number(&mut self, asker: Asker) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, asker);
        self.next
    }

    /// Whether this one still waits for an answer.
    pub(super) fn is_asked_by(&self, asker: &Asker) -> bool {
        self.asked.values().any(|known| known == asker)
    }

    /// Whether somebody waits for another file to run.
    pub(super) fn is_applying(&self) -> bool {
        self.asked.values().any(|asker| matches!(asker, Asker::Apply(_)))
    }

    /// The file that is being applied.
    pub(super) fn staged(&self) -> Option<&Staged> {
        self.staged.as_ref()
    }

    /// Notes what is being applied.
    pub(super) fn stage(&mut self, staged: Staged) {
        self.staged = Some(staged);
    }

    /// What was being applied.
    pub(super) fn unstage(&mut self) -> Option<Staged> {
        self.staged.take()
    }

    /// Another file runs: settings are now what it says, and routers that were stopped by hand stay so.
    pub(super) fn follow(&mut self, plan: &config::Plan) {
        self.kept.retain(|kept| match kept {
            Request::Stop { name } => plan.routers.iter().any(|router| router.name == *name),
            _ => false,
        });
    }

    /// Notes a change that the next data plane has to be told of.
    fn keep(&mut self, request: Request) {
        let topic = topic(&request);
        if topic.is_some() {
            self.kept.retain(|kept| self::topic(kept) != topic);
            self.kept.push(request);
        }
        // The oldest go first; so many can only come from a program that plays with a run.
        let surplus = self.kept.len().saturating_sub(MOST_KEPT);
        self.kept.drain(..surplus);
    }
}

/// What a request changes for good, if it does: a later one about the same takes its place.
fn topic(request: &Request) -> Option<(String, String)> {
    match request {
        Request::Set { router, key, .. } => Some((router.clone(), format!("set {key}"))),
        Request::Stop { name: router } | Request::Start { router } => {
            Some((router.clone(), "running".to_owned()))
        }
        _ => None,
    }
}

impl Supervisor {
    /// Serves clients of the control socket.
    pub(super) fn attend_clients(&mut self, now: Instant) {
        for (ticket, request) in self.desk.server.ready(now) {
            self.request(ticket, request, now);
        }
        for gone in self.desk.server.take_gone() {
            let is_theirs = |asker: &Asker| matches!(asker, Asker::Client(ticket, _) if *ticket == gone);
            let found = self.desk.asked.iter().find(|(_, asker)| is_theirs(asker)).map(|(id, _)| *id);
            // Only these go on by themselves; other answers come anyway.
            if let Some(id) = found
                && let Some(Asker::Client(_, Request::Trace { .. } | Request::Capture { .. })) =
                    self.desk.asked.get(&id)
            {
                self.desk.asked.remove(&id);
                self.tell_plane(&ToPlane::Forget { id }, Vec::new(), now);
            }
        }
        self.tell_of_clients();
    }

    /// Tells of clients that had to be left, some at a time.
    fn tell_of_clients(&mut self) {
        let counters = self.desk.server.counters();
        let left = [
            &counters.refused_user,
            &counters.refused_full,
            &counters.drop_garbage,
            &counters.drop_slow_reader,
            &counters.drop_half_line,
        ];
        let left: u64 = left.into_iter().map(ledger::Counter::get).sum();
        let more = left - self.desk.left;
        // A client that comes again and again is told of when it has doubled the number.
        if more > 0 && (self.desk.left < 10 || left >= 2 * self.desk.left) {
            self.desk.left = left;
            let message = format!("{left} clients of the control socket were refused or cut off so far");
            self.events.tell(Kind::ClientDropped, message);
        }
    }

    fn request(&mut self, ticket: Ticket, request: Request, now: Instant) {
        match request {
            Request::Ps {} if self.is_up() && !self.is_late(now) => {
                self.ask_plane(Request::Ps {}, client(ticket, Request::Ps {}), now)
            }
            Request::Ps {} => {
                let routers = self.routers_that_wait();
                self.reply(ticket, Ok(Answer::Ps(self.run_status(routers))), now);
            }
            Request::Events { since } => self.reply(ticket, Ok(self.events.answer(since)), now),
            Request::Apply { file, text, dry_run } => {
                self.apply(ticket, Wanted { file, text, dry_run }, now);
            }
            Request::Stop { ref name } if *name == self.running.run && !self.has_router(name) => {
                let message = format!("run {name} is stopping");
                self.reply(ticket, Ok(Answer::Done { message }), now);
                // The answer leaves before the socket goes.
                self.times.end = Some(now);
            }
            Request::Capture { .. } if self.is_up() => self.capture(ticket, request, now),
            request if self.is_up() => {
                self.ask_plane(request.clone(), client(ticket, request), now);
            }
            _ => {
                let why = "the data plane is down and will be started again soon: ask again in a second";
                self.reply(ticket, Err(api::Error::new(why)), now);
            }
        }
    }

    /// The file goes on to the data plane, which could not open it.
    fn capture(&mut self, ticket: Ticket, request: Request, now: Instant) {
        let Some(file) = self.desk.server.take_file(ticket) else {
            let why = "the descriptor of a file is to come with this request (SCM_RIGHTS)";
            return self.reply(ticket, Err(api::Error::new(why)), now);
        };
        let id = self.desk.number(client(ticket, request.clone()));
        self.tell_plane(&ToPlane::Ask { id, request }, vec![file], now);
    }

    fn is_late(&self, now: Instant) -> bool {
        self.life.plane.as_ref().is_some_and(|plane| plane.is_late(now))
    }

    pub(super) fn is_up(&self) -> bool {
        self.life.plane.as_ref().is_some_and(|plane| plane.is_up)
    }

    fn has_router(&self, name: &str) -> bool {
        self.running.plan.routers.iter().any(|router| router.name == name)
    }

    pub(super) fn reply(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) {
        self.desk.server.answer(ticket, &outcome, now);
    }

    /// Asks the data plane, if it is up.
    pub(super) fn ask_plane(&mut self, request: Request, asker: Asker, now: Instant) {
        if !self.is_up() {
            return;
        }
        let id = self.desk.number(asker);
        self.tell_plane(&ToPlane::Ask { id, request }, Vec::new(), now);
    }

    fn tell_plane(&mut self, message: &ToPlane, descriptors: Vec<OwnedFd>, now: Instant) {
        if let Some(plane) = &mut self.life.plane {
            plane.say(message, descriptors, now);
        }
    }

    /// The data plane has answered.
    pub(super) fn answered(&mut self, id: u64, outcome: Outcome, now: Instant) {
        if let Some(plane) = &mut self.life.plane {
            plane.has_done(id);
        }
        // More answers follow only where there is a packet in this one.
        let more = matches!(outcome, Ok(Answer::Packet(_)));
        let asker = if more { self.desk.asked.get(&id).cloned() } else { self.desk.asked.remove(&id) };
        match (asker, outcome) {
            (Some(Asker::Display), Ok(Answer::Counters(counters))) => self.show(counters),
            (Some(Asker::Metrics), Ok(Answer::Ps(status))) => self.note_routers(status.routers, now),
            (Some(Asker::Metrics), Ok(Answer::Counters(counters))) => self.publish(&counters),
            (Some(Asker::Apply(ticket)), outcome) => self.applied(ticket, outcome, now),
            (Some(Asker::Client(ticket, _)), Ok(packet @ Answer::Packet(_))) => {
                self.desk.server.answer_part(ticket, packet, now);
            }
            (Some(Asker::Client(ticket, request)), Ok(answer)) => {
                let answer = self.completed(&request, answer);
                self.reply(ticket, Ok(answer), now);
            }
            (Some(Asker::Client(ticket, _)), Err(error)) => self.reply(ticket, Err(error), now),
            (Some(Asker::Replay(request)), Err(error)) => {
                let message = format!("what was changed by hand is lost ({request:?}): {error}");
                self.events.tell(Kind::Notice, message);
            }
            // Nobody waits for it, or it answers something else than was asked: a data plane that lies is not helped.
            _ => {}
        }
    }

    /// An answer of the data plane with what only the supervisor knows; and what it means for the next data plane.
    fn completed(&mut self, request: &Request, answer: Answer) -> Answer {
        match answer {
            Answer::Ps(status) => Answer::Ps(self.run_status(status.routers)),
            Answer::Done { message } => {
                self.desk.keep(request.clone());
                Answer::Done { message }
            }
            answer => answer,
        }
    }

    fn run_status(&self, routers: Vec<RouterStatus>) -> RunStatus {
        RunStatus {
            run: self.running.run.clone(),
            file: self.running.file.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            data_plane: self.life.plane.as_ref().map(super::Plane::pid),
            restarts: self.life.restarts,
            up_ms: u64::try_from(self.up_time().as_millis()).unwrap_or(u64::MAX),
            routers,
        }
    }

    /// The routers while the data plane cannot tell how they are.
    pub(super) fn routers_that_wait(&self) -> Vec<RouterStatus> {
        let engine = |engine: Option<config::Engine>| engine.map_or("", config::Engine::name).to_owned();
        let reason = if self.is_up() {
            "the data plane is busy or does not answer any more"
        } else {
            "there is no data plane at the moment; it comes by itself"
        };
        let routers = self.running.plan.routers.iter().map(|router| RouterStatus {
            name: router.name.clone(),
            engine: engine(router.engine),
            state: State::Waiting,
            since_ms: 0,
            restarts: 0,
            reason: Some(reason.to_owned()),
            pid: None,
            threads: Vec::new(),
        });
        routers.collect()
    }

    /// The data plane is dead: nobody will answer what was asked of it.
    pub(super) fn forget_questions(&mut self, now: Instant) {
        let why = "the data plane died before it answered; it is started again: ask again in a second";
        for asker in std::mem::take(&mut self.desk.asked).into_values() {
            match asker {
                Asker::Client(ticket, _) => self.reply(ticket, Err(api::Error::new(why)), now),
                Asker::Apply(ticket) => {
                    self.desk.unstage();
                    self.lock_only_what_runs();
                    let why = "the data plane died of it; it is started again with the file that ran before";
                    self.reply(ticket, Err(api::Error::new(why)), now);
                }
                Asker::Metrics => self.publish_nothing(),
                Asker::Display | Asker::Replay(_) => {}
            }
        }
    }

    /// Tells a new data plane what clients had changed by hand.
    pub(super) fn replay(&mut self, now: Instant) {
        for request in self.desk.kept.clone() {
            self.ask_plane(request.clone(), Asker::Replay(request), now);
        }
    }
}

fn client(ticket: Ticket, request: Request) -> Asker {
    Asker::Client(ticket, request)
}

#[cfg(test)]
mod tests;
