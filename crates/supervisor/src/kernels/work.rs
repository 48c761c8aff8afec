//! Tasks on kernel routers, carried out by a worker thread one after the other.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Result, anyhow};
use api::Ticket;
use hooks::PacketTracer;

use super::backend::{Counted, KernelBackend, Seen};
use super::plan::Spec;
use super::tracing::TraceRequest;

/// A task for the worker thread.
pub(super) enum Task {
    /// Change the routers from one set of specifications to another, completely or not at all.
    Change { from: Vec<Spec>, to: Vec<Spec> },
    /// Restart a router for a client.
    Restart(Ticket, Box<Spec>),
    /// Repair a router, or create it if it does not exist.
    Repair(Box<Spec>),
    /// Check the state of these routers.
    Look(Vec<String>),
    /// Read the counters of these routers, for the replies with these numbers.
    Count(Vec<String>, Vec<u64>),
    /// Trace packets for a client.
    Follow(Ticket, Box<TraceRequest>),
}

/// Result of a task.
pub(super) enum Done {
    Changed(Result<()>),
    Restarted { ticket: Ticket, router: String, outcome: Result<()> },
    Repaired { router: String, outcome: Result<bool> },
    Looked(Vec<(String, Result<Seen>)>),
    Counted(BTreeMap<String, Counted>, Vec<u64>),
    Follows(Ticket, Box<TraceRequest>, Result<Box<PacketTracer>>),
}

impl Task {
    /// Carries the task out. If it panics, returns a failure as its result.
    pub(super) fn carry_out(self, backend: &mut dyn KernelBackend) -> Done {
        let instead = self.undone();
        catch_unwind(AssertUnwindSafe(|| self.done(backend))).unwrap_or(instead)
    }

    /// The result of a task that has panicked.
    fn undone(&self) -> Done {
        let why = || anyhow!("the worker thread has panicked: this is a bug of ringroad");
        match self {
            Self::Change { .. } => Done::Changed(Err(why())),
            Self::Restart(ticket, spec) => {
                Done::Restarted { ticket: *ticket, router: spec.name().to_owned(), outcome: Err(why()) }
            }
            Self::Repair(spec) => Done::Repaired { router: spec.name().to_owned(), outcome: Err(why()) },
            Self::Look(_) => Done::Looked(Vec::new()),
            Self::Count(_, answers) => Done::Counted(BTreeMap::new(), answers.clone()),
            Self::Follow(ticket, wish) => Done::Follows(*ticket, wish.clone(), Err(why())),
        }
    }

    fn done(self, backend: &mut dyn KernelBackend) -> Done {
        match self {
            Self::Change { from, to } => Done::Changed(change(backend, &from, &to)),
            Self::Restart(ticket, spec) => {
                let outcome = backend.restart(&spec);
                Done::Restarted { ticket, router: spec.wanted.name, outcome }
            }
            Self::Repair(spec) => {
                let outcome = match backend.look(spec.name()) {
                    Ok(_) => backend.repair(spec.name()),
                    Err(_) => backend.make(&spec).map(|()| true),
                };
                Done::Repaired { router: spec.wanted.name, outcome }
            }
            Self::Look(routers) => {
                let look = |router: String| {
                    let seen = backend.look(&router);
                    (router, seen)
                };
                Done::Looked(routers.into_iter().map(look).collect())
            }
            Self::Count(routers, answers) => {
                // A router that cannot be read keeps its last counters.
                let count = |router: String| Some((router.clone(), backend.count(&router).ok()?));
                Done::Counted(routers.into_iter().filter_map(count).collect(), answers)
            }
            Self::Follow(ticket, wish) => {
                let follower = backend.follow(&wish.router, &wish.order).map(Box::new);
                Done::Follows(ticket, wish, follower)
            }
        }
    }
}

/// A step of a change.
enum Step<'w> {
    End(&'w Spec),
    Make { before: Option<&'w Spec>, now: &'w Spec },
}

impl Step<'_> {
    fn carry_out(&self, backend: &mut dyn KernelBackend) -> Result<()> {
        match self {
            Self::End(spec) => backend.end(spec.name()),
            Self::Make { now, .. } => backend.make(now),
        }
    }

    fn roll_back(&self, backend: &mut dyn KernelBackend) -> Result<()> {
        match self {
            Self::End(spec) | Self::Make { before: Some(spec), .. } => backend.make(spec),
            Self::Make { before: None, now } => backend.end(now.name()),
        }
    }
}

/// Changes routers from one set of specifications to another. Routers are removed first, so that others can use the names and
/// interfaces that become free. If a step is refused, all earlier steps are undone.
///
/// # Errors
/// One line: the refused operation, and what could not be undone.
pub(super) fn change(backend: &mut dyn KernelBackend, from: &[Spec], to: &[Spec]) -> Result<()> {
    let mut done: Vec<Step<'_>> = Vec::new();
    for step in steps(from, to) {
        let Err(refusal) = step.carry_out(backend) else {
            done.push(step);
            continue;
        };
        // A router whose removal failed half-way is created again.
        done.extend(matches!(step, Step::End(_)).then_some(step));
        let stays = done.iter().rev().filter_map(|step| step.roll_back(backend).err());
        let stays: String = stays.map(|error| format!("; and it could not be undone: {error:#}")).collect();
        return Err(if stays.is_empty() { refusal } else { anyhow!("{refusal:#}{stays}") });
    }
    Ok(())
}

fn steps<'w>(from: &'w [Spec], to: &'w [Spec]) -> Vec<Step<'w>> {
    let find = |list: &'w [Spec], name: &str| list.iter().find(|spec| spec.name() == name);
    let gone = from.iter().filter(|old| find(to, old.name()).is_none()).map(Step::End);
    let made = to.iter().filter_map(|now| {
        let before = find(from, now.name());
        (before != Some(now)).then_some(Step::Make { before, now })
    });
    gone.chain(made).collect()
}

#[cfg(test)]
mod tests;
