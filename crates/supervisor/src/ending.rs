//! The orderly end of a run. Each step of it has a time limit; together they are less than the time that the unit of systemd gives
//! (`TimeoutStopSec=`): the last table 10 s, daemons of FRR 25 s, isolated routers 50 s, the data plane 50 s, killed processes 15 s, threads
//! 25 s, the task of kernel routers 100 s, and what may come after 130 s.

use std::time::{Duration, Instant};

use link::{ToPlane, ToSupervisor};
use telemetry::Kind;

use super::lifecycle::described;
use super::notify::notify;
use super::{LAST_WORDS, Supervisor, killed_processes};

/// Time that a data plane gets for an orderly shutdown, more than it gives its own take-downs (`engine::take_down`).
const GRACE: Duration = Duration::from_secs(50);
/// Time that threads of this process get to end with the run. They may wait for grace periods of the kernel, or for daemons of FRR.
pub(super) const THREADS_GRACE: Duration = Duration::from_secs(25);
/// Time that the present task of the kernel routers' thread gets. The longest is the start of a container: 5 s for virtual functions,
/// 60 s, and then what `lxc-info` takes.
const KERNELS_GRACE: Duration = Duration::from_secs(100);
/// `TimeoutStopSec=` of the unit.
const UNIT: u64 = 420;
/// What may come after these limits, in seconds: the last container, whose end begins in time (70 s); one that is only killed, or a port of
/// Open vSwitch (30 s); what was made for threads, and its lock twice (30 s).
const AFTER: u64 = 70 + 30 + 30;

const _: () = assert!(GRACE.as_secs() > engine::LONGEST_STOP.as_secs());
const _: () = {
    let processes = 2 * GRACE.as_secs() + killed_processes::LONG.as_secs();
    let threads = 2 * THREADS_GRACE.as_secs() + KERNELS_GRACE.as_secs();
    assert!(LAST_WORDS.as_secs() + processes + threads + AFTER < UNIT);
};

impl Supervisor {
    /// Ends what still runs and removes what was made; `clock` tells how long that takes.
    pub(super) fn finish(mut self, clock: impl Fn() -> Instant) {
        let now = clock();
        notify("STOPPING=1");
        let had_ended = self.lifecycle.plane.is_none();
        self.let_go_of_threads();
        self.remember_costs();
        // Daemons tell their neighbours that they end, while there is a way to them.
        self.controls.end(THREADS_GRACE);
        // That may have taken a while, of which the processes' time is no part.
        self.finish_isolated(clock(), GRACE, &clock);
        if let Some(mut plane) = self.lifecycle.plane.take() {
            plane.say(&ToPlane::Stop, Vec::new(), now);
            // A data plane that is still starting does not listen, and needs no orderly end.
            let grace = if plane.is_up { GRACE } else { Duration::ZERO };
            let (said, process) = plane.wait(grace, &clock, |message| {
                // It asks to kill the process of a router that does not stop.
                if let ToSupervisor::Kill { router, pid } = message {
                    self.children.kill(&router, pid, now);
                }
            });
            self.killed.kill(&described(None), process, now);
            self.repeat(None, said, now);
        }
        self.children.end_all(now);
        let mut is_clean = self.bury_all(&clock);
        // All of these have had their tasks for a while: the time is for them together.
        let end = clock() + THREADS_GRACE;
        let left = || end.saturating_duration_since(clock());
        is_clean &= self.changes.give_up(left());
        is_clean &= self.link_jobs.give_up(left());
        is_clean &= self.resources.give_up(left());
        let kept = self.kernels.end(KERNELS_GRACE);
        is_clean &= kept.is_empty();
        kept.into_iter().for_each(|line| self.events.record(Kind::Notice, line));
        self.tell_of_ceilings(now);
        self.give_back();
        if self.lifecycle.was_up && !had_ended {
            self.events.record(Kind::Stopped, "the run has ended");
        }
        self.events.flush();
        let _ = self.display.flush();
        let Self { request_router, metrics, resources, placement, lock, .. } = self;
        drop((request_router, metrics, resources, placement));
        if is_clean {
            drop(lock);
        } else {
            // As after SIGKILL: the exit of this process tells the cleaner to remove what is left, and the names last.
            std::mem::forget(lock);
        }
    }
}
