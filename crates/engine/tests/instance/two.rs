//! Two routers that are processes: one that goes on, and one that is slow where a test wants it to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::{Instance, Plugs, State};
use rustix::process::{Pid, Signal, kill_process};
use telemetry::Kind;

use crate::known::Known;
use crate::traffic::{PATIENCE, router, wait_for};

/// Two routers, and their time.
pub(crate) struct Two {
    pub(crate) known: Arc<Known>,
    pub(crate) instance: Instance,
    now: Instant,
}

/// The file of both, and what else there is of the slow one.
pub(crate) fn text(slow: &str) -> String {
    router("up", 1, "") + &router("slow", 2, slow)
}

impl Two {
    /// None where this host has no such processes.
    pub(crate) fn start() -> Option<Self> {
        Self::of(&text(""))
    }

    pub(crate) fn of(text: &str) -> Option<Self> {
        let known = Known::new()?;
        let instance = known.start(text, Plugs::new());
        Some(Self { known, instance, now: Instant::now() })
    }

    pub(crate) fn last(&self, router: &str) -> Pid {
        *self.known.of(router).last().expect("it was started")
    }

    pub(crate) fn kill(&self, router: &str) {
        kill_process(self.last(router), Signal::KILL).expect("it is there");
    }

    /// Looks once, so much later; what has happened.
    pub(crate) fn look(&mut self, later: Duration) -> Vec<Kind> {
        self.now += later;
        self.instance.look_after(self.now).into_iter().map(|event| event.kind).collect()
    }

    /// Looks until this has happened; what else has.
    #[track_caller]
    pub(crate) fn until(&mut self, what: Kind) -> Vec<Kind> {
        let mut told = Vec::new();
        wait_for(what.name(), || {
            told.extend(self.look(Duration::ZERO));
            told.contains(&what)
        });
        told
    }

    pub(crate) fn is_running(&self, name: &str) -> bool {
        self.instance.status().iter().any(|router| router.name == name && router.state == State::Running)
    }

    /// As [`Two::others_live_while`], while the slow one does not go down.
    pub(crate) fn others_live_while_it_ends(&mut self, order: impl FnOnce(&mut Instance)) -> bool {
        self.known.hold("slow");
        self.others_live_while(order)
    }

    /// Kills the one that is not held while the other one is, and lets go when it has another process. Whether it had one before the
    /// order was carried out, for which the held one has to move.
    pub(crate) fn others_live_while(&mut self, order: impl FnOnce(&mut Instance)) -> bool {
        let (known, up, is_over) = (self.known.clone(), self.last("up"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let player = scope.spawn(|| {
                kill_process(up, Signal::KILL).expect("it is there");
                let (start, over) = (Instant::now(), || is_over.load(Ordering::Acquire));
                while known.of("up").last() == Some(&up) && !over() && start.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let others_lived = known.of("up").last() != Some(&up) && !over();
                known.let_go();
                others_lived
            });
            order(&mut self.instance);
            is_over.store(true, Ordering::Release);
            player.join().expect("no panic")
        })
    }
}
