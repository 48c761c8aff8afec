//! Supervision of kernel routers: handles the results of tasks, checks the routers regularly, and has them repaired.

use std::time::Instant;

use anyhow::Result;
use api::{Answer, Ticket};
use config::Router;
use kernel_router::Origin;
use telemetry::Kind;

use super::backend::Seen;
use super::tracing::RunningTrace;
use super::work::{Done, Task};
use super::{LOOK, plan};
use crate::Supervisor;

impl Supervisor {
    /// Handles the results of finished tasks, queues a check when it is due, and starts the next task.
    pub(crate) fn attend_kernels(&mut self, now: Instant) {
        while let Some(done) = self.kernels.finished() {
            self.handle_kernel_result(done, now);
            self.kernels.start_next();
        }
        self.look_at_kernels(now);
        self.kernels.start_next();
        self.tell_kernel_traces(now);
    }

    fn handle_kernel_result(&mut self, done: Done, now: Instant) {
        let gone = std::mem::take(&mut self.kernels.gone);
        match done {
            Done::Changed(outcome) => {
                // It may have new threads, which have not been placed yet.
                self.kernels.look = Some(now);
                self.kernel_has_followed(outcome, now);
            }
            Done::Restarted { ticket, router, outcome } => self.was_restarted(ticket, &router, outcome, now),
            Done::Repaired { router, outcome } => self.was_repaired(&router, outcome, now),
            Done::Follows(ticket, wish, outcome) => match outcome {
                Ok(_) if gone.contains(&ticket) => {}
                Ok(follower) => {
                    self.kernels.traces.push(RunningTrace::new(ticket, *wish, *follower, now));
                }
                Err(error) => self.reply(ticket, Err(api::Error::new(format!("{error:#}"))), now),
            },
            Done::Looked(seen) => seen.into_iter().for_each(|(router, seen)| self.saw(&router, seen, now)),
            Done::Counted(counted, answers) => {
                for (router, counted) in counted {
                    if let Some(forwarder) = self.kernels.forwarders.get_mut(&router) {
                        forwarder.counted = counted;
                    }
                }
                answers.into_iter().for_each(|answer| self.kernel_has_counted(answer, now));
            }
        }
    }

    fn look_at_kernels(&mut self, now: Instant) {
        let kernels = &mut self.kernels;
        if kernels.forwarders.is_empty() || kernels.look.is_some_and(|look| now < look) {
            return;
        }
        kernels.look = Some(now + LOOK);
        // A check that is queued already will see the state at the time when it runs.
        if !kernels.waiting.iter().any(|task| matches!(task, Task::Look(_))) {
            let names = kernels.forwarders.keys().cloned().collect();
            kernels.add(Task::Look(names));
        }
    }

    /// Returns the kernel router of this name in the current plan, if it should run.
    fn forwarding(&self, name: &str) -> Option<Router> {
        let mut known = self.running.plan.in_kernel();
        known.find(|router| router.name == name && !router.is_stopped()).cloned()
    }

    /// Handles the result of a check.
    fn saw(&mut self, name: &str, seen: Result<Seen>, now: Instant) {
        let Some(router) = self.forwarding(name) else { return };
        let Some(forwarder) = self.kernels.forwarders.get_mut(name) else { return };
        // A change that is under way may end it, or make it another one.
        let may_be_repaired = !self.changes.holds_processes();
        let mut has_other_threads = false;
        let (lines, is_ill) = match seen {
            Ok(seen) => {
                let lines = news(&router, &forwarder.seen, &seen);
                let is_ill = seen.lacks_any();
                // A change may have created it again.
                forwarder.has_failed = false;
                has_other_threads = forwarder.seen.threads != seen.threads;
                forwarder.seen = seen;
                (lines, is_ill)
            }
            Err(error) => {
                forwarder.seen.threads.clear();
                forwarder.seen.network = None;
                let is_new = may_be_repaired && !std::mem::replace(&mut forwarder.has_failed, true);
                let why = format!("{error:#}");
                let told = is_new.then(|| (Kind::Failed, why.clone()));
                forwarder.reason = Some(why);
                (Vec::from_iter(told), router.restart == config::Restart::Always)
            }
        };
        if !is_ill {
            forwarder.trouble = None;
        } else if may_be_repaired
            && forwarder.try_now(now)
            && let Ok(spec) = plan::one(&router)
        {
            self.kernels.add(Task::Repair(Box::new(spec)));
        }
        if has_other_threads {
            self.place(now);
        }
        self.follow_network(&router, now);
        lines.into_iter().for_each(|(kind, line)| self.tell_of(name, kind, line, now));
    }

    fn was_repaired(&mut self, name: &str, outcome: Result<bool>, now: Instant) {
        let Some(forwarder) = self.kernels.forwarders.get_mut(name) else { return };
        match outcome {
            Ok(was_made) => {
                let was_away = std::mem::take(&mut forwarder.has_failed);
                forwarder.trouble = None;
                if was_away {
                    forwarder.since = now;
                    forwarder.restarts = forwarder.restarts.saturating_add(1);
                    self.tell_of(name, Kind::Restarted, "its namespace was created again".to_owned(), now);
                } else if was_made {
                    self.tell_of(
                        name,
                        Kind::Notice,
                        "its deleted interfaces were created again".to_owned(),
                        now,
                    );
                }
                // Check the state at once, without waiting for the next second.
                self.kernels.look = Some(now);
            }
            Err(error) => {
                let why = format!("{error:#}");
                forwarder.reason = Some(why.clone());
                if forwarder.take_unreported() {
                    let what = format!("{why}; it will be tried again");
                    self.tell_of(name, Kind::Notice, what, now);
                }
            }
        }
    }

    fn was_restarted(&mut self, ticket: Ticket, name: &str, outcome: Result<()>, now: Instant) {
        self.kernel_was_restarted(name, now);
        let Some(forwarder) = self.kernels.forwarders.get_mut(name) else {
            let gone = api::Error::new(format!("router {name} was stopped meanwhile"));
            return self.reply(ticket, Err(gone), now);
        };
        forwarder.has_failed = outcome.is_err();
        forwarder.seen = Seen::default();
        let answer = match outcome {
            Ok(()) => {
                (forwarder.since, forwarder.trouble) = (now, None);
                self.kernels.look = Some(now);
                self.tell_of(name, Kind::Restarted, "it was restarted".to_owned(), now);
                Ok(Answer::Done { message: format!("router {name} was started anew") })
            }
            Err(error) => {
                let why = format!("{error:#}");
                forwarder.reason = Some(why.clone());
                self.tell_of(name, Kind::Failed, why.clone(), now);
                Err(api::Error::new(why))
            }
        };
        self.reply(ticket, answer, now);
    }
}

/// Events from the difference between two checks of a router.
fn news(router: &Router, before: &Seen, now: &Seen) -> Vec<(Kind, String)> {
    let told = |(nic, is_in): (&String, &Option<bool>)| {
        let known = before.nics.get(nic)?;
        let is_pulled = router.nics.iter().any(|of| of.name == *nic && of.is_pulled());
        let (kind, what) = match (known, is_in) {
            (Some(_), None) if is_of_lxc(router, nic) => (
                Kind::Notice,
                "its interface is no longer in the container; give it its own name on the host, and restart the router",
            ),
            (Some(_), None) => {
                (Kind::Notice, "its interface was deleted; it is created again as soon as possible")
            }
            (Some(true), Some(false)) if !is_pulled => (Kind::Cable, "link down"),
            (Some(false), Some(true)) => (Kind::Cable, "link up"),
            _ => return None,
        };
        let noun = if router.vrfs().contains(&nic.as_str()) { "VRF" } else { "NIC" };
        Some((kind, format!("{noun} {nic}: {what}")))
    };
    let duplicates = now.duplicates.iter().filter(|found| !before.duplicates.contains(found));
    let duplicates = duplicates.map(|(nic, ip)| {
        (Kind::Notice, format!("NIC {nic}: another station has the address {ip}, which is not used here"))
    });
    let name = match (before.is_nameless, now.is_nameless) {
        (false, true) => Some("its name in /run/netns was removed; it is given again as soon as possible"),
        (true, false) => Some("it has its name in /run/netns again"),
        _ => None,
    };
    let name = name.map(|what| (Kind::Notice, what.to_owned()));
    now.nics.iter().filter_map(told).chain(duplicates).chain(name).collect()
}

/// Returns true if LXC has moved the interface of a NIC from the host into a container, which it does only at the container's start.
fn is_of_lxc(router: &Router, nic: &str) -> bool {
    let nic = router.nics.iter().find(|of| of.name == nic && router.container.is_some());
    nic.is_some_and(|nic| matches!(router.wanted(nic).origin(), Ok(Origin::Moved { .. })))
}

#[cfg(test)]
mod tests;
