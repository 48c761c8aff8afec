//! Requests to several processes: the answers of the data plane and of the isolated routers' processes become
//! one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{Answer, Counters, Outcome, Request, RouterStatus};
use link::ToPlane;

use super::Supervisor;
use super::reply_deadlines::{EXTENSION, LATE, PART};
use super::request_router::Requester;
use super::router_process::RouterProcess;

/// Answer that is not complete yet.
pub(super) struct MergedReply {
    pub(super) requester: Requester,
    /// Number of partial answers outstanding.
    left: usize,
    /// Answer of the data plane.
    outcome: Option<Outcome>,
    /// Answers of the routers' processes, by router.
    parts: BTreeMap<String, Answer>,
    /// Deadline for the routers' processes: the rest is useful without them.
    until: Instant,
    /// True after the deadline was extended once: as long as the supervisor did not run, they may not have
    /// run either.
    extended: bool,
}

impl Supervisor {
    /// Sends a request to all processes that are up; a router's process gets only requests about that router,
    /// since it must learn nothing of its neighbours.
    pub(super) fn ask_all(&mut self, request: Request, requester: Requester, now: Instant) {
        if !self.is_up() {
            return;
        }
        let only = only_of(&request);
        let kernels = match &request {
            // Rate guarantees read the counters ten times a second, and need only those of routers with a guarantee.
            Request::Counters { .. } if requester == Requester::Promises => self.kernels_promised(),
            // A group of kernel routers does not follow the load.
            Request::Counters { .. } if requester == Requester::Scaling => Vec::new(),
            Request::Counters { .. } => self.kernels_to_count(only),
            _ => Vec::new(),
        };
        if self.running.plan.isolated().next().is_none() && kernels.is_empty() {
            return self.ask_plane(request, requester, now);
        }
        // Routers behind a container that starts or stops are not waited for.
        let is_soon = kernels.is_empty() || self.kernels.is_idle();
        let most = if is_soon { self.part_limit(&request, &requester) } else { LATE };
        let listens = |(name, isolated): (&String, &RouterProcess)| {
            let is_meant = only.is_none_or(|only| config::is_meant(name, only));
            (is_meant && isolated.listens_to(&request, most, now)).then(|| name.clone())
        };
        let names: Vec<_> = self.isolated.iter().filter_map(listens).collect();
        let left = 1 + names.len() + usize::from(!kernels.is_empty());
        let merged = self.gather(requester, left, now + most);
        for whom in std::iter::once(None).chain(names.into_iter().map(Some)) {
            let id = self.request_router.number_of(whom.clone(), Requester::MergedReply(merged));
            self.say_to(whom.as_deref(), &ToPlane::Ask { id, request: request.clone() }, Vec::new(), now);
        }
        if !kernels.is_empty() {
            self.count_kernels(kernels, merged);
        }
    }

    /// Time that the routers' processes have for their parts of an answer. Whoever counts again and again must not wait for one that is
    /// silent.
    fn part_limit(&self, request: &Request, requester: &Requester) -> Duration {
        let is_last = *requester == Requester::Display && self.times.ending.is_some();
        let is_compared = is_last || matches!(requester, Requester::Client(..));
        if is_compared && matches!(request, Request::Counters { .. }) { PART } else { LATE }
    }

    /// The counters of kernel routers were read for this answer.
    pub(super) fn kernel_has_counted(&mut self, merged: u64, now: Instant) {
        if let Some(known) = self.request_router.merged_replies.get_mut(&merged) {
            known.left = known.left.saturating_sub(1);
            self.complete(merged, now);
        }
    }

    /// Registers an answer that `left` processes are to give together.
    fn gather(&mut self, requester: Requester, left: usize, until: Instant) -> u64 {
        self.request_router.gather(MergedReply {
            requester,
            left,
            outcome: None,
            parts: BTreeMap::new(),
            until,
            extended: false,
        })
    }

    /// When the next incomplete answer is given.
    pub(super) fn gathers_due(&self) -> Option<Instant> {
        let waiting = self.request_router.merged_replies.values().filter(|merged| merged.outcome.is_some());
        waiting.map(|merged| merged.until).min()
    }

    /// Gives answers without the routers' processes that did not reply in time, so that a stopped process
    /// makes no client wait.
    pub(super) fn attend_merged_replies(&mut self, now: Instant) {
        let is_over = |merged: &MergedReply| merged.outcome.is_some() && now >= merged.until;
        let mut over = Vec::new();
        for (id, merged) in
            self.request_router.merged_replies.iter_mut().filter(|(_, merged)| is_over(merged))
        {
            if std::mem::replace(&mut merged.extended, true) {
                merged.left = 0;
                over.push(*id);
            } else {
                merged.until = now + EXTENSION;
            }
        }
        over.into_iter().for_each(|id| self.complete(id, now));
    }

    /// Records the partial answer of one process; `None`: it died.
    pub(super) fn part(&mut self, merged: u64, whom: Option<&str>, outcome: Option<Outcome>, now: Instant) {
        let Some(known) = self.request_router.merged_replies.get_mut(&merged) else { return };
        known.left = known.left.saturating_sub(1);
        match (whom, outcome) {
            (None, outcome) => known.outcome = outcome,
            (Some(name), Some(Ok(answer))) => drop(known.parts.insert(name.to_owned(), answer)),
            (Some(_), Some(Err(_)) | None) => {}
        }
        self.complete(merged, now);
    }

    /// Delivers the answer, if all parts are there.
    pub(super) fn complete(&mut self, merged: u64, now: Instant) {
        if self.request_router.merged_replies.get(&merged).is_none_or(|known| known.left > 0) {
            return;
        }
        let Some(MergedReply { requester, outcome, parts, .. }) =
            self.request_router.merged_replies.remove(&merged)
        else {
            return;
        };
        let lost = || Err(api::Error::new(super::request_router::DIED));
        let outcome = match outcome.unwrap_or_else(lost) {
            Ok(Answer::Ps(status)) => {
                Ok(Answer::Ps(api::RunStatus { routers: self.all_routers(status.routers, parts), ..status }))
            }
            Ok(Answer::Counters(counters)) => {
                let only = asked_for(&requester);
                let mut parts = self.counted(parts, only);
                parts.extend(self.kernels_counted(only));
                Ok(Answer::Counters(all_counters(counters, parts)))
            }
            other => other,
        };
        self.deliver(requester, outcome, now);
    }

    /// Counters of the routers' processes. For a process that is alive but silent, its last report is used,
    /// since a counter must never decrease. The CPU time of its threads is unknown then.
    fn counted(
        &mut self,
        mut parts: BTreeMap<String, Answer>,
        router: Option<&str>,
    ) -> BTreeMap<String, Counters> {
        let mut all = BTreeMap::new();
        let is_asked = |name: &str| router.is_none_or(|only| config::is_meant(name, only));
        for (name, isolated) in self.isolated.iter_mut().filter(|(name, _)| is_asked(name)) {
            match parts.remove(name) {
                Some(Answer::Counters(part)) => {
                    isolated.counted.clone_from(&part.counters);
                    all.insert(name.clone(), part);
                }
                _ if isolated.is_up() => {
                    let counters = isolated.counted.clone();
                    all.insert(name.clone(), Counters { counters, ..Counters::default() });
                }
                _ => {}
            }
        }
        all
    }

    /// Status of all routers, in the order of the file.
    fn all_routers(&self, routers: Vec<RouterStatus>, parts: BTreeMap<String, Answer>) -> Vec<RouterStatus> {
        let plan = &self.running.plan;
        let mut all: BTreeMap<String, RouterStatus> =
            routers.into_iter().map(|status| (status.name.clone(), status)).collect();
        for router in plan.isolated() {
            let Some(isolated) = self.isolated.get(&router.name) else { continue };
            let own = match parts.get(&router.name) {
                Some(Answer::Ps(status)) => status.routers.iter().find(|status| status.name == router.name),
                _ => None,
            };
            let mut status =
                own.map_or_else(|| isolated.status(router), |own| isolated.completed(own.clone()));
            // The threads that serve its NICs belong to the data plane.
            if let Some(here) = all.remove(&router.name) {
                status.threads.extend(here.threads);
                status.member = here.member;
            }
            all.insert(router.name.clone(), status);
        }
        let mut shown: Vec<RouterStatus> =
            plan.routers.iter().filter_map(|router| all.remove(&router.name)).collect();
        // What a data plane tells of members of groups on other hosts.
        shown.extend(all.into_values().filter(|other| plan.is_remote(&other.name)));
        shown
    }
}

/// Router whose counters were requested; `None`: all.
fn asked_for(requester: &Requester) -> Option<&str> {
    match requester {
        Requester::Client(_, request) => only_of(request),
        _ => None,
    }
}

/// The only router, or group, that a request concerns; `None`: all.
fn only_of(request: &Request) -> Option<&str> {
    match request {
        Request::Counters { router } => router.as_deref(),
        _ => None,
    }
}

/// Merges the counters of all processes. A process counts only for its own router.
fn all_counters(mut counters: Counters, parts: BTreeMap<String, Counters>) -> Counters {
    for (name, part) in parts {
        if !part.cpu_ns.is_empty() {
            counters.also_read_within(part.read_within());
        }
        let own = |counter: &str| {
            counter.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(['.', '/']))
        };
        for (counter, value) in part.counters.into_iter().filter(|(counter, _)| own(counter)) {
            let sum = counters.counters.entry(counter).or_default();
            *sum = sum.saturating_add(value);
        }
        counters.cpu_ns.extend(part.cpu_ns.into_iter().filter(|(thread, _)| own(thread)));
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(values: &[(&str, u64)]) -> Counters {
        let counters = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Counters { counters, ..Counters::default() }
    }

    #[test]
    fn a_process_counts_for_its_own_router_alone() {
        let main = counted(&[("edge.wan.rx.frames", 7), ("core.wan.rx.frames", 1)]);
        let part = counted(&[
            ("edge.wan.rx.frames", 0),
            ("edge.vcpu0.forwarded", 7),
            ("edge2.vcpu0.forwarded", 9),
            ("core.wan.rx.frames", 9),
        ]);
        let all = all_counters(main, BTreeMap::from([("edge".to_owned(), part)]));
        let wanted = [("core.wan.rx.frames", 1), ("edge.vcpu0.forwarded", 7), ("edge.wan.rx.frames", 7)];
        assert_eq!(all.counters, counted(&wanted).counters);
    }
}
