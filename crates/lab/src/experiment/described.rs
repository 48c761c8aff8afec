//! Experiments as descriptions: what a case is called, how its rig is built, and what happens in a slice.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Sample;

/// What stands while a case is measured. It is taken down when it goes.
///
/// A closure that measures a slice is one as well: what it holds stands for as long as it is there.
pub trait Rig {
    /// Measures for about `length`.
    fn run_slice(&mut self, length: Duration) -> Result<Sample>;

    /// Takes it down, where that can go wrong.
    fn take_down(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut(Duration) -> Result<Sample>> Rig for F {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        self(length)
    }
}

/// Something that can be measured in slices: one case of an experiment.
pub struct Experiment {
    /// Its name in the list: `forward`.
    pub id: &'static str,
    /// What was varied, without spaces: `kvm/virtio-net/64`.
    pub case: String,
    /// Unit of the samples.
    pub unit: &'static str,
    /// The two CPUs between which cache lines move, if there are two. Between slices nothing of the experiment may
    /// run on them: their distance is measured then.
    pub cpus: Option<(usize, usize)>,
    /// Whether a slice is a whole repetition, however long: it is not cut by seconds.
    pub is_whole: bool,
    /// Whether it is built for each of its turns where others have turns between them, and taken down after it: what it is made of
    /// would go on meanwhile, or hold what they need.
    pub is_built_each_turn: bool,
    build: Box<dyn FnMut() -> Result<Box<dyn Rig>>>,
    rig: Option<Box<dyn Rig>>,
}

impl Experiment {
    /// A case by the experiment's name and unit, its own name, and how its rig is built.
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
            is_built_each_turn: false,
            build: Box::new(build),
            rig: None,
        }
    }

    /// A case of which nothing stands: whatever a slice needs it builds itself.
    pub fn unbuilt(
        names: (&'static str, &'static str),
        case: String,
        slice: impl FnMut(Duration) -> Result<Sample> + Clone + 'static,
    ) -> Self {
        Self::new(names, case, move || Ok(slice.clone()))
    }

    /// Cache lines move between these two CPUs, if they are two.
    pub fn between(self, cpus: impl Into<Option<(usize, usize)>>) -> Self {
        Self { cpus: cpus.into(), ..self }
    }

    /// A slice is a whole repetition.
    pub fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// It is built for each of its turns.
    pub fn built_each_turn(self) -> Self {
        Self { is_built_each_turn: true, ..self }
    }

    /// Builds what is measured.
    pub fn prepare(&mut self) -> Result<()> {
        self.rig = Some((self.build)()?);
        Ok(())
    }

    /// Measures for about `length`.
    pub fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let rig = self.rig.as_mut().with_context(|| format!("{} was not prepared", self.id))?;
        rig.run_slice(length)
    }

    /// Takes down what [`Experiment::prepare`] built, if it stands. Called after it, also when a slice failed; then it can be built again.
    pub fn finish(&mut self) -> Result<()> {
        self.rig.take().map_or(Ok(()), |rig| rig.take_down())
    }
}
