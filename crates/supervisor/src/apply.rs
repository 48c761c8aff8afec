//! Another file takes the place of the one that runs.
//!
//! Everything that can be refused is refused before anything changes: the file is read, the host is asked, names are
//! locked, new links are opened. Then the data plane changes itself by the difference; if it refuses, what was opened is
//! closed again.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use api::{Answer, Change, Outcome, Ticket};
use config::Plan;
use link::ToPlane;
use telemetry::Kind;

use super::desk::Asker;
use super::following::Whose;
use super::lifecycle::with_locks;
use super::metrics::Metrics;
use super::opening::Ready;
use super::placing::Planned;
use super::resources::Resources;
use super::{Supervisor, schedule};

/// A file that a client wants to run.
pub(super) struct Wanted {
    /// Its name.
    pub(super) file: String,
    /// What it says.
    pub(super) text: String,
    /// Only say what would change.
    pub(super) dry_run: bool,
}

/// A file that the data plane is about to take over.
pub(super) struct Staged {
    pub(super) plan: Plan,
    wanted: Wanted,
    opened: Resources,
    /// The thread that answers questions for counters, if it is another one.
    metrics: Option<Metrics>,
    /// What is planned for its threads.
    threads: Planned,
}

impl Supervisor {
    /// A client wants another file to run.
    pub(super) fn apply(&mut self, ticket: Ticket, wanted: Wanted, now: Instant) {
        let file = wanted.file.clone();
        let outcome = self.may_apply().and_then(|()| self.read(ticket, wanted));
        if let Err(error) = outcome {
            self.refuse(ticket, &file, &error, now);
        }
    }

    fn may_apply(&self) -> Result<()> {
        if self.desk.is_applying() {
            bail!("another file is being applied: try again when that is done");
        }
        if self.placing.following.is_waiting() {
            bail!("{}", schedule::ANOTHER);
        }
        if !self.is_up() {
            bail!("{}: try again in a second", self.why_not_up());
        }
        Ok(())
    }

    /// Tells why a file is not applied.
    pub(super) fn refuse(&mut self, ticket: Ticket, file: &str, error: &anyhow::Error, now: Instant) {
        let message = match error.downcast_ref::<config::Errors>() {
            Some(errors) => errors.lines().collect::<Vec<_>>().join("; "),
            None => format!("{error:#}"),
        };
        if !self.desk.is_applying() {
            self.lock_only_what_runs();
        }
        self.events.tell(Kind::Refused, format!("{file} was not applied: {message}"));
        self.reply(ticket, Err(api::Error::new(message)), now);
    }

    /// Takes the names that the file needs beyond those that the run has.
    pub(super) fn prepare(&mut self, plan: &Plan) -> Result<()> {
        for router in &plan.routers {
            if !self.lock.has(&router.name) {
                self.lock.add(&router.name)?;
            }
        }
        Resources::undo(plan).for_each(|undo| self.lock.add_undo(&undo));
        Ok(())
    }

    /// Everything is open: the data plane is to change itself.
    pub(super) fn hand_on(
        &mut self,
        ticket: Ticket,
        wanted: Wanted,
        ready: Ready,
        now: Instant,
    ) -> Result<()> {
        ready.opened.notices().for_each(|line| self.events.tell(Kind::Notice, line));
        if !self.is_up() {
            bail!("{}: try again in a second", self.why_not_up());
        }
        let (Ready { plan, opened, threads, metrics }, dry_run) = (ready, wanted.dry_run);
        let (supplies, descriptors) = self.resources.supplies(&opened, &plan)?;
        let orders = self.orders_for(&wanted.file, &wanted.text, plan.routers.len(), supplies);
        let (orders, descriptors) = with_locks(orders, descriptors, self.lock.descriptors()?);
        let plane = self.life.plane.as_mut().context("the data plane is down: try again in a second")?;
        let id = self.desk.number(Asker::Apply(ticket));
        if !dry_run {
            self.ceilings.allow_both(&self.running.plan, &plan);
        }
        self.desk.stage(Staged { plan, wanted, opened, metrics, threads });
        plane.say(&ToPlane::Apply { id, orders, dry_run }, descriptors, now);
        Ok(())
    }

    /// The data plane has changed itself, or has not.
    pub(super) fn applied(&mut self, ticket: Ticket, outcome: Outcome, now: Instant) {
        let Some(staged) = self.desk.unstage() else { return };
        let outcome = match outcome {
            Ok(Answer::Applied { changes, .. }) => return self.go_on(ticket, staged, changes, now),
            Ok(_) => Err(api::Error::new("the data plane did not say what it changed")),
            Err(error) => {
                self.events.tell(Kind::Refused, format!("{} was not applied: {error}", staged.wanted.file));
                Err(error)
            }
        };
        self.lock_only_what_runs();
        self.reply(ticket, outcome, now);
    }

    /// The data plane has changed itself, or would have; now the processes of routers that are apart. What they refuse is
    /// told with what was changed.
    fn go_on(&mut self, ticket: Ticket, staged: Staged, mut changes: Vec<Change>, now: Instant) {
        let Wanted { file, text, dry_run } =
            Wanted { file: staged.wanted.file.clone(), text: staged.wanted.text.clone(), ..staged.wanted };
        let (from, to) = (self.running.plan.clone(), staged.plan.clone());
        changes.extend(schedule::changes(&from, &to));
        let threads = (!dry_run).then(|| self.adopt(staged));
        let followed = self.follow_apart((&from, &to), (&file, &text), dry_run, now);
        let (more, told) = followed.unwrap_or_else(|error| {
            self.events.tell(Kind::Notice, format!("{file}: {error:#}"));
            Default::default()
        });
        changes.extend(more);
        let known = Some(Ok(Answer::Applied { changes, dry_run }));
        // Where threads are is one more part of the answer.
        let parts = told.len() + usize::from(threads.is_some());
        let gather = self.gather(Asker::Applied(ticket, file), known, parts, None);
        for (name, orders, descriptors) in told {
            let id = self.desk.number_of(Some(name.clone()), Asker::Part(gather));
            self.say_to(Some(&name), &ToPlane::Apply { id, orders, dry_run }, descriptors, now);
        }
        match threads {
            Some(threads) => self.follow(Whose::File(gather), threads, now),
            None => self.complete(gather, now),
        }
    }

    /// Everybody has followed the file.
    pub(super) fn all_applied(&mut self, ticket: Ticket, file: &str, outcome: Outcome, now: Instant) {
        if let Ok(Answer::Applied { changes, dry_run: false }) = &outcome {
            let disturbing = changes.iter().filter(|change| !change.hitless).count();
            let message = format!("{file}: {} changes, {disturbing} of them not hitless", changes.len());
            self.events.tell(Kind::Applied, message);
        }
        self.lock_only_what_runs();
        self.reply(ticket, outcome, now);
    }

    /// The file runs; what is planned for its threads.
    fn adopt(&mut self, staged: Staged) -> Planned {
        let Staged { plan, wanted: Wanted { file, text, .. }, opened, metrics, threads } = staged;
        let resized = self.resources.adopt(opened, &plan);
        if let Some(metrics) = metrics {
            self.metrics = metrics;
        }
        if let Err(error) = resized {
            self.events.tell(Kind::Notice, format!("{file}: {error:#}"));
        }
        self.desk.follow(&plan);
        (self.running.plan, self.running.file, self.running.text) = (plan, file, text);
        threads
    }

    /// Lets go of names that nothing of the run has any more, and of room below its ceilings.
    pub(super) fn lock_only_what_runs(&mut self) {
        let plan = &self.running.plan;
        self.lock.keep(|name| plan.routers.iter().any(|router| router.name == name));
        self.ceilings.follow(plan);
    }
}
