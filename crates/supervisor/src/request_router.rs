//! Request router for clients of the control socket: the supervisor replies itself where it can, and forwards
//! the rest to the data plane.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::{Context, Result};
use api::{Answer, Limits, Outcome, Request, Server, Ticket};
use link::ToPlane;
use telemetry::Kind;

use super::Supervisor;
use super::change::QueuedRequest;
use super::lent_files::LentFiles;
use super::merged_reply::MergedReply;
use crate::run_lock::RunLock;
use crate::table::member_states;

/// Error for requests that a dead data plane leaves unanswered.
pub(super) const DIED: &str =
    "the data plane died before it answered; it is started again: ask again in a second";

/// Origin of a request to the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// The table of the run.
    Display,
    /// The lines about members in the table of the run.
    MembersShown,
    /// The controller that keeps promises.
    Promises,
    /// A scrape of the metrics.
    Metrics,
    /// A client of the control socket.
    Client(Ticket, Request),
    /// A change of the running plan.
    Change,
    /// The restart of a group, one member after the other.
    Rolling,
    /// What has the numbers of members follow the load.
    Scaling,
    /// A part of an answer that several processes give together.
    MergedReply(u64),
}

/// Control socket, and the outstanding requests to data planes.
pub(super) struct RequestRouter {
    pub(super) server: Server,
    /// By request number: the process asked (that of this router, or, for `None`, the data plane), and the
    /// asker.
    asked: BTreeMap<u64, (Option<String>, Requester)>,
    pub(super) merged_replies: BTreeMap<u64, MergedReply>,
    next: u64,
    /// Files of clients on their way to the data plane.
    lent: LentFiles,
    /// Number of clients disconnected or refused as last reported.
    left: u64,
}

impl RequestRouter {
    /// Opens the control socket in the folder of the run.
    ///
    /// # Errors
    /// In one line, why the folder cannot be used.
    pub(super) fn open(lock: &mut RunLock) -> Result<Self> {
        let folder = lock.run().context("a run has a folder")?.1;
        lock.add_rubbish(&folder.join(api::folder::SOCKET));
        lock.add_rubbish(&folder.join(format!(".{}.{}", api::folder::SOCKET, std::process::id())));
        let server = Server::listen(&folder, Limits::default()).context("no control socket")?;
        Ok(Self {
            server,
            asked: BTreeMap::new(),
            merged_replies: BTreeMap::new(),
            next: 0,
            lent: LentFiles::default(),
            left: 0,
        })
    }

    /// Allocates a number for a request to the data plane.
    pub(super) fn number(&mut self, requester: Requester) -> u64 {
        self.number_of(None, requester)
    }

    /// Allocates a number for a request to the process of a router, or, for `None`, to the data plane.
    pub(super) fn number_of(&mut self, whom: Option<String>, requester: Requester) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, (whom, requester));
        self.next
    }

    /// Allocates a number for an answer that several processes give together.
    pub(super) fn gather(&mut self, merged: MergedReply) -> u64 {
        self.next += 1;
        self.merged_replies.insert(self.next, merged);
        self.next
    }

    /// All askers that wait for an answer.
    fn askers(&self) -> impl Iterator<Item = &Requester> {
        let gathered = self.merged_replies.values().map(|merged| &merged.requester);
        self.asked.values().map(|(_, requester)| requester).chain(gathered)
    }

    /// Returns true if this asker still waits for an answer.
    pub(super) fn is_asked_by(&self, requester: &Requester) -> bool {
        self.askers().any(|known| known == requester)
    }
}

impl Supervisor {
    /// Serves clients of the control socket.
    pub(super) fn attend_clients(&mut self, now: Instant) {
        self.request_router.lent.attend();
        for (ticket, request) in self.request_router.server.ready(now) {
            self.request(ticket, request, now);
        }
        for file in self.request_router.server.take_unused_files() {
            self.request_router.lent.close(file);
        }
        for gone in self.request_router.server.take_gone() {
            self.kernels.forget(gone);
            let is_theirs =
                |requester: &Requester| matches!(requester, Requester::Client(ticket, _) if *ticket == gone);
            let found = self
                .request_router
                .asked
                .iter()
                .find(|(_, (_, requester))| is_theirs(requester))
                .map(|(id, _)| *id);
            // Only these produce answers until they are cancelled; other requests end with their answer.
            if let Some(id) = found
                && let Some((_, Requester::Client(_, Request::Trace { .. } | Request::Capture { .. }))) =
                    self.request_router.asked.get(&id)
            {
                self.request_router.asked.remove(&id);
                self.tell_plane(&ToPlane::Forget { id }, Vec::new(), now);
            }
        }
        self.tell_of_clients();
    }

    /// Reports clients that were refused or disconnected, several in one event.
    fn tell_of_clients(&mut self) {
        let counters = self.request_router.server.counters();
        let left = [
            &counters.refused_user,
            &counters.refused_full,
            &counters.drop_garbage,
            &counters.drop_slow_reader,
            &counters.drop_half_line,
        ];
        let left: u64 = left.into_iter().map(ledger::Counter::get).sum();
        let more = left - self.request_router.left;
        // If a client connects again and again, the next report comes when the number has doubled.
        if more > 0 && (self.request_router.left < 10 || left >= 2 * self.request_router.left) {
            self.request_router.left = left;
            let message = format!("{left} clients of the control socket were refused or cut off so far");
            self.events.record(Kind::ClientDropped, message);
        }
    }

    fn request(&mut self, ticket: Ticket, request: Request, now: Instant) {
        match request {
            Request::Ps {} if self.is_up() && !self.is_late(now) => {
                self.ask_all(Request::Ps {}, client(ticket, Request::Ps {}), now)
            }
            Request::Ps {} => {
                let routers = self.routers_that_wait();
                self.reply(ticket, Ok(Answer::Ps(self.run_status(routers, now))), now);
            }
            Request::Control { router, question } => self.ask_control(ticket, &router, question, now),
            Request::Events { since } => self.reply(ticket, Ok(self.events.answer(since)), now),
            Request::Remote { member, known } => {
                self.reply(ticket, self.remote_file(&member, known), now);
            }
            Request::Stop { ref name } if *name == self.running.run && !self.has_name(name) => {
                let message = format!("run {name} is stopping");
                self.reply(ticket, Ok(Answer::Done { message }), now);
                // The reply is sent before the socket is closed.
                self.times.end = Some(now);
            }
            Request::Show { ref router } if self.running.plan.group(router).is_some() => {
                let shown = self.shown_group(router).context("the group is gone");
                let outcome = shown.map(|shown| Answer::Show(Box::new(shown)));
                self.reply(ticket, outcome.map_err(|error| api::Error::new(format!("{error:#}"))), now);
            }
            Request::Restart { ref router } if self.running.plan.group(router).is_some() => {
                self.restart_group(ticket, router, now);
            }
            request => match QueuedRequest::of(request) {
                Ok(asked) => self.want(ticket, asked, now),
                Err(request) => self.request_running(ticket, request, now),
            },
        }
    }

    /// File of a back end on another host, which a client that follows it asks for again and again: it is made only if the plan is
    /// another one by now.
    fn remote_file(&self, member: &str, known: Option<u64>) -> Outcome {
        let plan = self.changes.number;
        if known == Some(plan) {
            return Ok(Answer::Remote { plan, file: None });
        }
        let file = self.running.plan.remote_file(member);
        let file = file.map_err(|error| api::Error::new(error.to_string()))?;
        Ok(Answer::Remote { plan, file: Some(file) })
    }

    /// Forwards a request to the data plane, or to the process of a router.
    pub(super) fn request_running(&mut self, ticket: Ticket, request: Request, now: Instant) {
        match request {
            request if self.is_for_kernel(&request) => self.request_kernel(ticket, request, now),
            request if self.is_for(&request).is_some() => self.request_isolated(ticket, request, now),
            Request::Counters { router: Some(ref name) } if !self.has_name(name) => {
                let routers = self.running.plan.routers.iter().map(|router| router.name.as_str());
                let routers = routers.collect::<Vec<_>>().join(", ");
                let why = format!("there is no router {name:?}; routers: {routers}");
                self.reply(ticket, Err(api::Error::new(why)), now);
            }
            Request::Counters { .. } if self.is_up() => {
                self.ask_all(request.clone(), client(ticket, request), now);
            }
            Request::Capture { .. } if self.is_up() => self.capture(ticket, request, now),
            request if self.is_up() => {
                self.ask_plane(request.clone(), client(ticket, request), now);
            }
            _ => {
                let why = format!("{}: ask again in a second", self.why_not_up());
                self.reply(ticket, Err(api::Error::new(why)), now);
            }
        }
    }

    /// Passes the client's file on to the data plane, which cannot open one.
    fn capture(&mut self, ticket: Ticket, request: Request, now: Instant) {
        let Some(file) = self.request_router.server.take_file(ticket) else {
            let why = "the descriptor of a file is to come with this request (SCM_RIGHTS)";
            return self.reply(ticket, Err(api::Error::new(why)), now);
        };
        let id = self.request_router.number(client(ticket, request.clone()));
        let file = self.request_router.lent.lend(file);
        if let Some(plane) = self.lifecycle.plane.as_mut() {
            plane.lend(&ToPlane::Ask { id, request }, file, now);
        }
        self.request_router.lent.attend();
    }

    fn is_late(&self, now: Instant) -> bool {
        self.lifecycle.plane.as_ref().is_some_and(|plane| plane.is_late(now))
    }

    /// Returns the isolated router that must handle a request in its own process. Its NICs' attachments
    /// belong to the data plane.
    fn is_for(&self, request: &Request) -> Option<String> {
        let (Request::Show { router: name }
        | Request::Start { router: name }
        | Request::Restart { router: name }) = request
        else {
            return None;
        };
        self.running.plan.isolated().any(|router| router.name == *name).then(|| name.clone())
    }

    fn request_isolated(&mut self, ticket: Ticket, request: Request, now: Instant) {
        let Some(name) = self.is_for(&request) else { return };
        // A change may have given the router its process within this iteration of the loop.
        let isolated = self.isolated.entry(name.clone()).or_default();
        if isolated.is_up() {
            let id = self.request_router.number_of(Some(name.clone()), client(ticket, request.clone()));
            return self.say_to(Some(&name), &ToPlane::Ask { id, request }, Vec::new(), now);
        }
        let wanted = matches!(request, Request::Start { .. } | Request::Restart { .. });
        let outcome = if wanted && isolated.lifecycle.plane.is_none() {
            isolated.make_due();
            Ok(Answer::Done { message: format!("the process of router {name} is started") })
        } else {
            let why = "has no process at the moment: ask again in a second, or start it";
            Err(api::Error::new(format!("router {name} {why}")))
        };
        self.reply(ticket, outcome, now);
    }

    pub(super) fn is_up(&self) -> bool {
        self.lifecycle.plane.as_ref().is_some_and(|plane| plane.is_up)
    }

    /// Returns true if a router or a group has this name.
    fn has_name(&self, name: &str) -> bool {
        self.running.plan.names().any(|known| known == name)
    }

    pub(super) fn reply(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) {
        self.request_router.server.answer(ticket, &outcome, now);
    }

    /// Sends a request to the data plane, if that is up.
    pub(super) fn ask_plane(&mut self, request: Request, requester: Requester, now: Instant) {
        if !self.is_up() {
            return;
        }
        let id = self.request_router.number(requester);
        self.tell_plane(&ToPlane::Ask { id, request }, Vec::new(), now);
    }

    fn tell_plane(&mut self, message: &ToPlane, descriptors: Vec<OwnedFd>, now: Instant) {
        self.say_to(None, message, descriptors, now);
    }

    /// Sends a message to the process of a router, or, for `None`, to the data plane.
    pub(super) fn say_to(
        &mut self,
        whom: Option<&str>,
        message: &ToPlane,
        descriptors: Vec<OwnedFd>,
        now: Instant,
    ) {
        if let Some(plane) = self.plane_of(whom) {
            plane.say(message, descriptors, now);
        }
    }

    /// Handles an answer from a process. It is accepted only from the process that was asked.
    pub(super) fn answered(&mut self, whom: Option<&str>, id: u64, outcome: Outcome, now: Instant) {
        if let Some(plane) = self.plane_of(whom) {
            plane.has_done(id, now);
        }
        let known = self.request_router.asked.get(&id).filter(|(asked, _)| asked.as_deref() == whom);
        let Some((_, requester)) = known.cloned() else { return };
        // Further answers follow only a packet of a trace.
        let is_trace = matches!(requester, Requester::Client(_, Request::Trace { .. }));
        if !(is_trace && matches!(outcome, Ok(Answer::Packet(_)))) {
            self.request_router.asked.remove(&id);
        }
        match requester {
            Requester::MergedReply(merged) => self.part(merged, whom, Some(outcome), now),
            Requester::Change => self.has_followed(whom, Some(outcome), now),
            requester => self.deliver(requester, outcome, now),
        }
    }

    /// Hands an answer to its asker.
    pub(super) fn hand_over(&mut self, requester: Requester, outcome: Outcome, now: Instant) {
        match (requester, outcome) {
            (Requester::Display, Ok(Answer::Counters(counters))) => self.show(counters),
            (Requester::MembersShown, Ok(Answer::Ps(status))) => {
                self.display.note_members(member_states(&status.routers));
            }
            (Requester::Promises, Ok(Answer::Counters(counters))) => self.keep_promises(&counters, now),
            (Requester::Rolling, Ok(Answer::Ps(status))) => self.roll(&status.routers, now),
            (Requester::Rolling, _) => self.rolling_is_not_told(),
            (Requester::Scaling, Ok(Answer::Counters(counters))) => self.scale(&counters, now),
            (Requester::Scaling, _) => self.scaling_is_not_told(),
            (Requester::Metrics, Ok(Answer::Ps(status))) => {
                let routers = self.with_kernels(status.routers, now);
                self.note_routers(routers, now);
            }
            (Requester::Metrics, Ok(Answer::Counters(counters))) => self.publish(&counters),
            (Requester::Metrics, _) => self.publish_nothing(now),
            (Requester::Client(ticket, Request::Trace { .. }), Ok(packet @ Answer::Packet(_))) => {
                self.request_router.server.answer_part(ticket, packet, now);
            }
            (Requester::Client(ticket, _), Ok(answer)) => {
                let answer = self.completed(answer, now);
                self.reply(ticket, Ok(answer), now);
            }
            (Requester::Client(ticket, Request::Ps {}), Err(_)) => {
                let routers = self.routers_that_wait();
                self.reply(ticket, Ok(Answer::Ps(self.run_status(routers, now))), now);
            }
            (Requester::Client(ticket, _), Err(error)) => self.reply(ticket, Err(error), now),
            // No asker waits for an answer of another type: answers from a data plane that lies are dropped.
            _ => {}
        }
    }

    /// Completes an answer of the data plane with what only the supervisor knows.
    fn completed(&self, answer: Answer, now: Instant) -> Answer {
        match answer {
            Answer::Ps(status) => Answer::Ps(self.run_status(status.routers, now)),
            Answer::Show(shown) => Answer::Show(Box::new(self.shown(*shown))),
            answer => answer,
        }
    }

    /// Fails all requests that a dead process (a router's, or the data plane) leaves unanswered.
    pub(super) fn forget_questions_of(&mut self, whom: Option<&str>, now: Instant) {
        let of = |(asked, _): &(Option<String>, Requester)| asked.as_deref() == whom;
        let ids: Vec<u64> =
            self.request_router.asked.iter().filter(|(_, known)| of(known)).map(|(id, _)| *id).collect();
        for id in ids {
            let Some((_, requester)) = self.request_router.asked.remove(&id) else { continue };
            match requester {
                Requester::MergedReply(merged) => self.part(merged, whom, None, now),
                requester @ Requester::Client(..) => {
                    let of_router = "the router's process died before it answered: ask again in a second";
                    let why = if whom.is_some() { of_router } else { DIED };
                    self.deliver(requester, Err(api::Error::new(why)), now);
                }
                Requester::Change => self.has_followed(whom, None, now),
                Requester::Metrics => self.publish_nothing(now),
                Requester::Rolling => self.rolling_is_not_told(),
                Requester::Scaling => self.scaling_is_not_told(),
                Requester::Display | Requester::MembersShown | Requester::Promises => {}
            }
        }
    }
}

fn client(ticket: Ticket, request: Request) -> Requester {
    Requester::Client(ticket, request)
}
