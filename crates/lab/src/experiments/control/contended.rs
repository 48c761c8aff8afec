//! Routers attached by TAPs or macvtaps that share one CPU, with the load generator on another one.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use host::cores;

use super::capacity;
use crate::experiment::{Experiment, Options, Sample};
use crate::rig::router_run::{File, Link, RouterRun, StateDirectory, program};

/// CPUs and options of such an experiment.
#[derive(Clone)]
pub(super) struct SharedCpuSetup {
    pub(super) options: Options,
    /// CPU of the load generator, and the CPU of all routers.
    pub(super) cpus: (usize, usize),
    /// Attachment of the routers.
    link: Link,
}

impl SharedCpuSetup {
    /// Load generator on the first CPU of the options, routers with TAPs on the second.
    ///
    /// # Errors
    /// There are fewer than two CPUs.
    pub(super) fn new(options: &Options) -> Result<Self> {
        Ok(Self { options: options.clone(), cpus: (options.cpu(0)?, options.cpu(1)?), link: Link::Tap })
    }

    /// Returns the same with macvtaps. The load's CPU receives their frames, as nothing steers them, and the routers' own threads
    /// fetch them.
    pub(super) fn by_macvtap(&self) -> Self {
        Self { link: Link::Macvtap, ..self.clone() }
    }

    /// Name of a case, whose end is `end` with TAPs; another attachment is named behind it.
    fn name(&self, end: &str) -> String {
        let (device, frame) = (self.options.device(), self.options.frame);
        match self.link {
            Link::Tap => format!("{device}/{frame}/tap/{end}"),
            link => format!("{device}/{frame}/{end}/{}", link.name()),
        }
    }

    /// Creates a case from the names of experiment and unit and the end of its own name. Each sample measures the capacity anew,
    /// starts routers with the configuration lines that `lines` returns for it, and calls `measure`.
    pub(super) fn case(
        &self,
        names: (&'static str, &'static str),
        end: &str,
        lines: impl Fn(&Self, f64) -> Vec<String> + 'static,
        measure: impl Fn(&Self, &RouterRun, f64) -> Result<Sample> + 'static,
    ) -> Experiment {
        let name = self.name(end);
        let (contended, does) = (self.clone(), Rc::new((lines, measure)));
        let build = move || {
            program()?;
            let (contended, does) = (contended.clone(), Rc::clone(&does));
            anyhow::Ok(move |_: Duration| contended.repetition(&does.0, &does.1))
        };
        Experiment::new(names, name, build).whole().between(self.cpus)
    }

    fn repetition(
        &self,
        lines: impl Fn(&Self, f64) -> Vec<String>,
        measure: impl Fn(&Self, &RouterRun, f64) -> Result<Sample>,
    ) -> Result<Sample> {
        cores::pin(self.cpus.0)?;
        let memory = StateDirectory::new()?;
        let capacity = capacity::measure(&self.options, self.link, self.cpus.1, Some(&memory))?;
        let here = capacity::on(self.cpus.1);
        let routers: Vec<String> =
            lines(self, capacity).into_iter().map(|lines| format!("{here}{lines}")).collect();
        let file = File { memory: Some(&memory), ..File::new(&self.options, self.link, &routers) };
        RouterRun::with_routers(&file, |room| measure(self, room, capacity))
    }
}
