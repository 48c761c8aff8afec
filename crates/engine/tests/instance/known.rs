//! Routers that are processes, which a test can stop and kill, and whose start and end it can delay.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use config::Engine;
use engine::{HostServices, Instance, Plugs};
use rustix::process::Pid;
use vmm::{Child, Firmware, Forker, Spawn, Spawned};

use crate::opened::opened;
use crate::traffic::{PATIENCE, plan};

/// Spawner that remembers the processes that it has started.
pub(crate) struct Known {
    forker: Forker,
    started: Mutex<Vec<(String, i32)>>,
    held: Mutex<Held>,
    let_go: Condvar,
}

/// Starts and ends that are held back.
#[derive(Default)]
struct Held {
    /// Routers whose processes are not started.
    starts: Vec<String>,
    /// Routers whose processes do not end.
    ends: Vec<String>,
    /// Number of operations held back so far.
    waiting: usize,
}

impl Known {
    /// Returns `None` if this host cannot run such processes.
    pub(crate) fn new() -> Option<Arc<Self>> {
        let tried = Forker::new()
            .and_then(|forker| forker.spawn("trial", Firmware::Plain).map(|spawned| (forker, spawned)));
        match tried {
            Ok((forker, trial)) => {
                vmm::process::end(&trial.pidfd);
                let (started, held, let_go) = Default::default();
                Some(Arc::new(Self { forker, started, held, let_go }))
            }
            Err(error) => {
                println!("SKIPPED: {error:#}");
                None
            }
        }
    }

    /// Starts a file whose routers are processes of this spawner, and whose NICs are plugged into these.
    pub(crate) fn start(self: &Arc<Self>, text: &str, plugs: Plugs) -> Instance {
        let mut plan = plan(text);
        plan.routers.iter_mut().for_each(|router| router.engine = Some(Engine::Process));
        let opened = opened(&plan);
        let supplies = HostServices { plugs, opened, spawner: Some(self.clone()), ..HostServices::default() };
        Instance::start(&plan, supplies).expect("it starts")
    }

    /// Returns the routers whose processes were started so far, in order.
    pub(crate) fn order(&self) -> Vec<String> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the processes of a router so far.
    pub(crate) fn of(&self, router: &str) -> Vec<Pid> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let own = started.iter().filter(|(name, _)| name == router);
        own.filter_map(|(_, pid)| Pid::from_raw(*pid)).collect()
    }
}

impl Known {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the take-down of this router does not finish.
    pub(crate) fn hold(&self, router: &str) {
        self.held().ends.push(router.to_owned());
    }

    /// From now on no process is started for this router.
    pub(crate) fn hold_start(&self, router: &str) {
        self.held().starts.push(router.to_owned());
    }

    /// Returns how many starts and ends were held back so far.
    pub(crate) fn waiting(&self) -> usize {
        self.held().waiting
    }

    /// Releases all of them.
    pub(crate) fn let_go(&self) {
        let mut held = self.held();
        held.starts.clear();
        held.ends.clear();
        self.let_go.notify_all();
    }

    /// Waits while this holds.
    fn wait_while(&self, is_held: impl Fn(&Held) -> bool) {
        let mut held = self.held();
        held.waiting += usize::from(is_held(&held));
        drop(self.let_go.wait_timeout_while(held, PATIENCE, |held| is_held(held)));
    }
}

impl Spawn for Known {
    fn spawn(&self, name: &str, firmware: Firmware) -> Result<Spawned> {
        self.wait_while(|held| held.starts.iter().any(|router| router == name));
        let spawned = self.forker.spawn(name, firmware)?;
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.push((name.to_owned(), spawned.pid));
        Ok(spawned)
    }
    fn kill(&self, process: &Child) {
        self.forker.kill(process);
        // The thread that serves the process kills it as well, and has a time limit for that.
        if std::thread::current().name().is_some_and(|name| name.ends_with("/bus")) {
            return;
        }
        self.wait_while(|held| held.ends.iter().any(|router| router == process.name()));
    }
}
