//! Rig of comparisons whose rooms exist all the time, and of which each slice floods one.

use std::time::Duration;

use anyhow::Result;
use host::cores;

use super::Stand;
use crate::experiment::{Options, Rig, Sample};
use crate::rig::router_run::RouterRun;
use crate::scenario::load::{SendMode, step};

/// Duration of the flood before the measurement of a slice begins.
const LEAD: Duration = Duration::from_millis(30);

/// Routers that share a CPU. A slice offers as much as the sockets accept, in equal parts; its sample is what all of them forward.
pub(super) struct Flooded {
    room: RouterRun,
    routers: usize,
    /// CPU of the load.
    cpu: usize,
}

impl Flooded {
    /// Opens a room with this number of routers. The CPUs are that of the load, and that of the routers.
    ///
    /// # Errors
    /// The routers do not run.
    pub(super) fn open(
        stand: Stand,
        options: &Options,
        cpus: (usize, usize),
        routers: usize,
    ) -> Result<Self> {
        cores::pin(cpus.0)?;
        Ok(Self { room: stand.open(options, &vec![cpus.1; routers])?, routers, cpu: cpus.0 })
    }
}

impl Rig for Flooded {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        cores::pin(self.cpu)?;
        let rates = vec![f64::INFINITY; self.routers];
        let step = step(&self.room, &rates, (LEAD, length), SendMode::PLAIN)?;
        let each = || (0..self.routers).map(|router| step.forwarded_kpps(router));
        let offered: f64 = (0..self.routers).map(|router| step.offered_kpps(router)).sum();
        let (value, least) = (each().sum::<f64>(), each().fold(f64::INFINITY, f64::min));
        let more = [
            ("offered_kpps", offered),
            // Rate of the slowest router, as a fraction of an equal share.
            ("least_part", if value > 0.0 { least * self.routers as f64 / value } else { 0.0 }),
        ];
        Ok(Sample { value, packets: step.packets(), more: more.into(), ..Sample::default() })
    }

    fn take_down(self: Box<Self>) -> Result<()> {
        self.room.close()
    }
}
