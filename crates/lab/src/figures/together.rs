//! Runs all cases of a figure alternately, one slice of each per round. Disturbances of the host then affect all cases
//! alike, and the ratios of cells can be taken round by round.

use std::collections::BTreeMap;

use anyhow::Result;

use super::play::{chosen, experiment};
use super::{Figure, Published};
use crate::experiment::{Experiment, Options, Outcome, in_turn};

/// Outcome of each case, by its name, or the reason why there is none.
#[derive(Default)]
pub(super) struct AlternatingRuns(BTreeMap<String, Result<Outcome, String>>);

/// Returns the name of a case.
fn name(experiment: &Experiment) -> String {
    format!("{}/{}", experiment.id, experiment.case)
}

impl AlternatingRuns {
    /// Runs the experiments that the cells of a figure need; each case runs once, however many cells it fills.
    pub(super) fn run(figure: &Figure, options: &Options) -> Self {
        let mut wanted: BTreeMap<String, Experiment> = BTreeMap::new();
        for row in figure.rows.iter().filter(|row| row.not_run.is_none()) {
            let is_wanted = |published: &Published| published.number().is_some() || row.run_unpublished;
            let columns =
                figure.columns.iter().zip(&row.published).filter(|(_, published)| is_wanted(published));
            for how in columns.filter_map(|(column, _)| column.run(row.plays.as_ref())) {
                // The error of a case that cannot be created is recorded when its cell is filled.
                if let Ok(found) =
                    chosen(figure, row, how, options).and_then(|options| experiment(how, &options))
                {
                    wanted.entry(name(&found)).or_insert(found);
                }
            }
        }
        let (names, mut experiments): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
        let outcomes = in_turn(&mut experiments, figure.rounds, options);
        let told = outcomes.into_iter().map(|outcome| outcome.map_err(|error| format!("{error:#}")));
        Self(names.into_iter().zip(told).collect())
    }

    /// Returns the outcome of a case.
    pub(super) fn outcome(&self, experiment: &Experiment) -> Result<Outcome> {
        match self.0.get(&name(experiment)) {
            Some(Ok(outcome)) => Ok(outcome.clone()),
            Some(Err(why)) => anyhow::bail!("{why}"),
            None => anyhow::bail!("it was not run"),
        }
    }
}
