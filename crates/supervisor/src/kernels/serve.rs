//! Client requests about kernel routers, and their replies.

use std::collections::BTreeMap;
use std::time::Instant;

use api::{Answer, Counters, NicDetails, Request, RouterDetails, RouterStatus, State, Ticket, Value};
use config::Router;

use super::backend::Counted;
use super::napi::Napi;
use super::work::Task;
use super::{drop_reasons, plan};
use crate::Supervisor;

impl Supervisor {
    /// Returns the kernel router that a request is about, if any.
    fn of_kernel(&self, request: &Request) -> Option<Router> {
        let (Request::Show { router: name }
        | Request::Start { router: name }
        | Request::Restart { router: name }
        | Request::Trace { router: name, .. }
        | Request::Capture { router: name, .. }) = request
        else {
            return None;
        };
        self.running.plan.in_kernel().find(|router| router.name == *name).cloned()
    }

    /// Returns true if a request is about a kernel router, which the data plane does not know.
    pub(crate) fn is_for_kernel(&self, request: &Request) -> bool {
        self.of_kernel(request).is_some()
    }

    pub(crate) fn request_kernel(&mut self, ticket: Ticket, request: Request, now: Instant) {
        let Some(router) = self.of_kernel(&request) else { return };
        let has_failed = self.kernels.forwarders.get(&router.name).is_some_and(|known| known.has_failed);
        let outcome = match request {
            Request::Show { .. } => Ok(Answer::Show(Box::new(self.kernel_shown(&router, now)))),
            Request::Start { .. } if !has_failed => {
                Ok(Answer::Done { message: format!("router {} runs", router.name) })
            }
            Request::Start { .. } | Request::Restart { .. } => match plan::one(&router) {
                Ok(spec) => return self.kernels.add(Task::Restart(ticket, Box::new(spec))),
                Err(error) => Err(api::Error::new(format!("{error:#}"))),
            },
            Request::Trace { nic, count, timeout_ms, filter, .. } => {
                match self.kernels.trace(ticket, &router, (nic.as_str(), count, timeout_ms), filter) {
                    Ok(()) => return,
                    Err(error) => Err(api::Error::new(format!("{error:#}"))),
                }
            }
            Request::Capture { nic, .. } => Err(capture_refused(&router, &nic)),
            _ => return,
        };
        self.reply(ticket, outcome, now);
    }

    fn kernel_shown(&self, router: &Router, now: Instant) -> RouterDetails {
        let shown = RouterDetails {
            run: self.running.run.clone(),
            status: self.kernel_status(router, now),
            settings: BTreeMap::new(),
            nics: router.nics.iter().map(|nic| self.kernel_nic(&router.name, &nic.name)).collect(),
            interfaces: Vec::new(),
            routes: Vec::new(),
            neighbours: Vec::new(),
        };
        self.shown(shown)
    }

    /// State of a NIC; its settings are filled in from the plan.
    fn kernel_nic(&self, router: &str, nic: &str) -> NicDetails {
        let known = self.kernels.forwarders.get(router);
        let carrier = known.and_then(|known| known.seen.nics.get(nic)).map(|seen| match seen {
            Some(true) => "up",
            Some(false) => "down",
            None => "gone",
        });
        let drops = known.and_then(|known| known.seen.drops.get(nic)).map(drop_reasons::words);
        let carrier = carrier.map(|word| ("carrier", Value::from(word)));
        let settings = carrier.into_iter().chain(drops.map(|words| ("drops", Value::from(words))));
        NicDetails {
            name: nic.to_owned(),
            attach: String::new(),
            mac: String::new(),
            addresses: Vec::new(),
            settings: settings.map(|(key, value)| (key.to_owned(), value)).collect(),
        }
    }

    /// Status of a kernel router.
    pub(crate) fn kernel_status(&self, router: &Router, now: Instant) -> RouterStatus {
        let known = self.kernels.forwarders.get(&router.name);
        let state = match known {
            None => State::Stopped,
            Some(known) if !known.has_failed => State::Running,
            Some(_) if router.restart == config::Restart::Never => State::Failed,
            Some(_) => State::Waiting,
        };
        let since = known.map_or(now, |known| known.since);
        let since_ms = u64::try_from(now.saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX);
        RouterStatus {
            name: router.name.clone(),
            engine: router.engine.map_or("", config::Engine::name).to_owned(),
            state,
            since_ms,
            restarts: known.map_or(0, |known| known.restarts),
            reason: known.and_then(|known| known.reason.clone()),
            pid: None,
            member: None,
            threads: known
                .map_or_else(Vec::new, |known| known.seen.threads.iter().map(Napi::shown).collect()),
        }
    }

    /// Adds the kernel routers to the status of the other routers, in the order of the file.
    pub(crate) fn with_kernels(&self, routers: Vec<RouterStatus>, now: Instant) -> Vec<RouterStatus> {
        if self.running.plan.in_kernel().next().is_none() {
            return routers;
        }
        let mut others: BTreeMap<String, RouterStatus> =
            routers.into_iter().map(|status| (status.name.clone(), status)).collect();
        let status = |router: &Router| {
            let other = others.remove(&router.name);
            if !router.is_in_kernel() {
                return other;
            }
            // How it is as a member of a group only the data plane knows.
            let member = other.and_then(|other| other.member);
            Some(RouterStatus { member, ..self.kernel_status(router, now) })
        };
        let mut all: Vec<RouterStatus> = self.running.plan.routers.iter().filter_map(status).collect();
        all.extend(others.into_values().filter(|other| self.running.plan.is_remote(&other.name)));
        all
    }

    /// Returns true if a router has been checked.
    #[cfg(test)]
    pub(crate) fn kernel_is_seen(&self, router: &str) -> bool {
        self.kernels.forwarders.get(router).is_some_and(|known| !known.seen.nics.is_empty())
    }

    /// Names of the kernel routers whose counters are read for a request about one router or about all.
    pub(crate) fn kernels_to_count(&self, router: Option<&str>) -> Vec<String> {
        let is_asked = |name: &&String| router.is_none_or(|only| only == *name);
        self.kernels.forwarders.keys().filter(is_asked).cloned().collect()
    }

    /// Queues a task that reads the counters of these routers for a reply.
    pub(crate) fn count_kernels(&mut self, routers: Vec<String>, answer: u64) {
        self.kernels.add(Task::Count(routers, vec![answer]));
        self.kernels.start_next();
    }

    /// Counters of kernel routers from the last reading.
    pub(crate) fn kernels_counted(&self, router: Option<&str>) -> BTreeMap<String, Counters> {
        let is_asked = |name: &String| router.is_none_or(|only| only == name);
        let known = self.kernels.forwarders.iter().filter(|(name, _)| is_asked(name));
        let counters = |counted: &Counted| {
            let Counted { at_ns, counters, cpu_ns } = counted.clone();
            Counters { at_ns, counters, cpu_ns, ..Counters::default() }
        };
        known.map(|(name, known)| (name.clone(), counters(&known.counted))).collect()
    }
}

/// Error for a capture, with the command to use instead.
fn capture_refused(router: &Router, nic: &str) -> api::Error {
    let name = &router.name;
    api::Error::new(format!(
        "packets of kernel router {name} cannot be captured in this version; use ip netns exec {name} tcpdump -i {nic}"
    ))
}
