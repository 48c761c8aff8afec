//! Two routers that are processes: one runs undisturbed, the other is slow where the test demands it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::{Instance, Plugs, State};
use rustix::process::{Pid, Signal, kill_process};
use telemetry::Kind;

use crate::known::Known;
use crate::traffic::{PATIENCE, router, wait_for};

/// Two routers, and their clock.
pub(crate) struct Two {
    pub(crate) known: Arc<Known>,
    pub(crate) instance: Instance,
    now: Instant,
}

/// The file of both, with further keys of the slow one.
pub(crate) fn text(slow: &str) -> String {
    router("up", 1, "") + &router("slow", 2, slow)
}

impl Two {
    /// Returns `None` if this host cannot run such processes.
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

    /// Advances the clock and looks once; returns the events.
    pub(crate) fn look(&mut self, later: Duration) -> Vec<Kind> {
        self.now += later;
        self.instance.look_after(self.now).into_iter().map(|event| event.kind).collect()
    }

    /// Looks until this event; returns the other events.
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

    /// Like [`Two::others_live_while`], while the take-down of the slow router does not finish.
    pub(crate) fn others_live_while_it_ends(&mut self, order: impl FnOnce(&mut Instance)) -> bool {
        self.known.hold("slow");
        self.others_live_while(order)
    }

    /// Kills the router that is not held while the other one is, and releases that when the killed router has
    /// a new process. Returns true if that was before the order was carried out, which needs the held router
    /// to move.
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
