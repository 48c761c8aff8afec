//! Everything one file asks for, running: switches, routers, uplinks and the threads that serve them.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use config::{Plan, Router};
use sandbox::Confinement;
use switch::Switch;

use crate::clock::{Clock, Timed};
use crate::io_thread::IoThread;
use crate::guest::{Duty, Ground, Guest};
use crate::wiring::{Outside, Plugs, Site, connect, io_threads};

/// A router with its outside.
pub struct RunningRouter {
    // Threads first: they must not outlive what they serve.
    threads: Vec<IoThread>,
    /// The router.
    pub router: Guest,
    /// What each NIC is plugged into, in the order of the file.
    pub outside: Vec<Outside>,
}

impl RunningRouter {
    /// Its I/O threads.
    pub fn io_threads(&self) -> &[IoThread] {
        &self.threads
    }
}

/// A running file. Dropping it stops everything and removes what it made.
pub struct Instance {
    clock: Clock,
    /// The routers, in the order of the file.
    pub routers: Vec<RunningRouter>,
    /// The switches, in the order of the file.
    pub switches: Vec<Arc<Switch>>,
    /// When it was up.
    pub since: Instant,
}

impl Instance {
    /// Brings a file up. What fails leaves nothing behind.
    pub fn start(plan: &Plan, plugs: Plugs) -> Result<Self> {
        let switches: Vec<_> = plan.switches.iter().map(make_switch).collect();
        let mut site = Site { switches: &switches, plugs, captures: Vec::new() };
        let routers =
            plan.routers.iter().map(|router| start_router(router, &mut site)).collect::<Result<Vec<_>>>()?;
        let machines = routers.iter().map(|running| running.router.machine().clone()).collect();
        let clock = Clock::start(
            Timed { machines, switches: switches.clone(), captures: site.captures },
            Confinement::Off,
        )?;
        Ok(Self { clock, routers, switches, since: Instant::now() })
    }

    /// The first router that cannot go on, with the reason.
    pub fn fault(&self) -> Option<String> {
        self.routers.iter().find_map(|running| {
            let fault = running.router.fault()?;
            Some(format!("router {}: {fault}", running.router.plan().name))
        })
    }

    /// The thread that keeps time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

fn make_switch(plan: &config::Switch) -> Arc<Switch> {
    let ageing = u32::try_from(plan.ageing.as_secs()).unwrap_or(u32::MAX);
    let config = switch::Config { ageing, ..switch::Config::default() };
    Arc::new(Switch::new(&plan.name, config))
}

fn start_router(plan: &Router, site: &mut Site<'_>) -> Result<RunningRouter> {
    let ground = Ground::open(plan.engine.unwrap_or(config::Engine::Kvm))?;
    let mut router = Guest::new(plan, Duty::default(), &ground)?;
    let (mut ways, mut outside) = (Vec::new(), Vec::new());
    for (number, nic) in plan.nics.iter().enumerate() {
        let (way, out) = connect(&router, number, site)
            .with_context(|| format!("router {}, NIC {}", plan.name, nic.name))?;
        ways.push(way);
        outside.push(out);
    }
    router.launch()?;
    let threads = io_threads(plan, ways, Confinement::Off)?;
    let running = RunningRouter { threads, router, outside };
    running.router.wait_until_ready()?;
    Ok(running)
}
