//! Descriptions of experiments: the name of a case, the function that builds its rig, and the measurement of one slice.

use std::time::Duration;

use anyhow::{Context, Result};
use host::cores;

use super::{Options, Sample};

/// Test set-up that exists while a case is measured; dropping it tears it down.
///
/// A closure that measures a slice is a rig as well: the values it captures live as long as the closure.
pub trait Rig {
    /// Measures for about `length`.
    fn run_slice(&mut self, length: Duration) -> Result<Sample>;

    /// Tears the rig down, for rigs whose tear-down can fail.
    fn take_down(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut(Duration) -> Result<Sample>> Rig for F {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        self(length)
    }
}

/// One case of an experiment, measured in slices.
pub struct Experiment {
    /// Its name in the list: `forward`.
    pub id: &'static str,
    /// Parameters of the case, without spaces: `kvm/virtio-net/64`.
    pub case: String,
    /// Unit of the samples.
    pub unit: &'static str,
    /// The two CPUs between which cache lines move, if there are two. The runner measures their distance between slices, so nothing of the
    /// experiment may run on them then.
    pub cpus: Option<(usize, usize)>,
    /// True if each slice is a complete repetition, however long it takes, rather than a share of the requested seconds.
    pub is_whole: bool,
    /// True if the rig is built for each of its slices and torn down after it when cases alternate: while other cases run, the rig would
    /// keep working or hold resources that they need.
    pub rebuilt_per_slice: bool,
    build: Box<dyn FnMut() -> Result<Box<dyn Rig>>>,
    rig: Option<Box<dyn Rig>>,
}

impl Experiment {
    /// Creates a case from the experiment's name and unit, the case's own name, and a function that builds its rig.
    pub fn new<R: Rig + 'static>(
        (id, unit): (&'static str, &'static str),
        case: String,
        mut build: impl FnMut() -> Result<R> + 'static,
    ) -> Self {
        let build = move || -> Result<Box<dyn Rig>> { Ok(Box::new(build()?)) };
        Self {
            id,
            case,
            unit,
            cpus: None,
            is_whole: false,
            rebuilt_per_slice: false,
            build: Box::new(build),
            rig: None,
        }
    }

    /// Creates a case without a rig: each slice builds whatever it needs.
    pub fn unbuilt(
        names: (&'static str, &'static str),
        case: String,
        slice: impl FnMut(Duration) -> Result<Sample> + Clone + 'static,
    ) -> Self {
        Self::new(names, case, move || Ok(slice.clone()))
    }

    /// Creates a case without a rig, a slice of which is a whole repetition on the first two CPUs: this thread is pinned to one, and
    /// `measure` gets the other, for what it measures.
    ///
    /// # Errors
    /// There are not two CPUs.
    pub fn pinned(
        names: (&'static str, &'static str),
        case: String,
        options: &Options,
        measure: impl Fn(&Options, usize) -> Result<Sample> + Clone + 'static,
    ) -> Result<Self> {
        let (cpus, options) = ((options.cpu(0)?, options.cpu(1)?), options.clone());
        let slice = move |_: Duration| {
            cores::pin(cpus.0)?;
            measure(&options, cpus.1)
        };
        Ok(Self::unbuilt(names, case, slice).whole().between(cpus))
    }

    /// Sets the two CPUs between which cache lines move, if there are two.
    pub fn between(self, cpus: impl Into<Option<(usize, usize)>>) -> Self {
        Self { cpus: cpus.into(), ..self }
    }

    /// Marks each slice as a whole repetition (see [`Experiment::is_whole`]).
    pub fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Has the rig built anew for each slice (see [`Experiment::rebuilt_per_slice`]).
    pub fn built_each_turn(self) -> Self {
        Self { rebuilt_per_slice: true, ..self }
    }

    /// Builds the rig.
    pub fn prepare(&mut self) -> Result<()> {
        self.rig = Some((self.build)()?);
        Ok(())
    }

    /// Measures for about `length`.
    pub fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let rig = self.rig.as_mut().with_context(|| format!("{} was not prepared", self.id))?;
        rig.run_slice(length)
    }

    /// Tears down the rig that [`Experiment::prepare`] built, if there is one. It is called after `prepare` even when a slice failed; the
    /// rig can then be built again.
    pub fn finish(&mut self) -> Result<()> {
        self.rig.take().map_or(Ok(()), |rig| rig.take_down())
    }
}
