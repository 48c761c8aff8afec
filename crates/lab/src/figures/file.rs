//! What a figure's file says.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::experiment::{Options, Varied};

/// One figure or table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// `001/fig1a`.
    pub id: String,
    /// What the paper calls it.
    pub title: String,
    /// Why there is nothing to play; none: there is.
    pub missing: Option<String>,
    /// Which player has which part.
    #[serde(default)]
    pub players: Vec<String>,
    /// What else there is to know, such as slips of the paper's arithmetic.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What holds for all cells.
    #[serde(default)]
    pub setting: Setting,
    /// Fewest rounds in which all cases run in turn, a slice of each; 0: one case after the other, for each cell anew.
    #[serde(default)]
    pub in_turn: usize,
    /// Seconds of each judged step, if nobody says how long; none: as long as the experiments say.
    pub seconds: Option<f64>,
    /// The row that the others are compared with.
    pub beside: Option<String>,
    /// Columns in order.
    #[serde(default, rename = "column")]
    pub columns: Vec<Column>,
    /// Rows in order.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// What is to hold.
    #[serde(default, rename = "shape")]
    pub shapes: Vec<Shape>,
    /// Which rows are to be proportional to what they vary.
    #[serde(default, rename = "line")]
    pub lines: Vec<Line>,
}

/// One column. It is played (`runs`) or worked out of others (`of`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Unit of its figures: `Kpps`, `Mbps`, `KTps`, `us`, `times`, `a packet`.
    pub unit: String,
    /// The experiment of its cells, by what a row plays.
    #[serde(default)]
    pub runs: BTreeMap<String, Run>,
    /// The column that it is worked out of: its packets times `payload`, or its ratio to `over`.
    pub of: Option<String>,
    /// Octets of each packet of `of`; else the row's.
    pub payload: Option<u32>,
    /// The column that `of` is divided by.
    pub over: Option<String>,
    /// Where its cells stand on the horizontal axis of a drawing; none: they are not drawn.
    pub x: Option<f64>,
}

/// How a cell is played.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Name of the experiment.
    pub run: String,
    /// End of the case's name, where the experiment has several.
    pub case: Option<String>,
    /// Further figure of the experiment that is taken; `best:NAME`: that one of those whose names begin so whose median is
    /// the highest; none: its own.
    pub take: Option<String>,
    /// What it is played with.
    #[serde(default)]
    pub with: Setting,
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Which of the columns' runs it plays.
    pub plays: Option<String>,
    /// Octets of payload of its packets.
    pub payload: Option<u32>,
    /// What is varied from row to row, as a number.
    pub at: Option<f64>,
    /// What it is played with.
    #[serde(default)]
    pub setting: Setting,
    /// Why it is not played; none: it is.
    pub not_run: Option<String>,
    /// Play its cells although nothing was published for them.
    #[serde(default)]
    pub run_unpublished: bool,
    /// What was published, a value for each column.
    pub published: Vec<Published>,
}

/// A value as it was printed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// `17.3x`, `+36 %`, or a word for none: `-`, `n.a.`.
    Text(String),
}

/// What is varied, by the options of `ringroad lab run`; what is not said stays as it is.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Setting(BTreeMap<String, toml::Value>);

/// A ratio of two cells and its bounds, or that the first is not below the second, or that it is steadier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// What it says.
    pub claim: String,
    /// Column of both cells.
    pub column: String,
    /// Row of the cell that is divided.
    pub first: String,
    /// Row of the cell that it is divided by.
    pub second: String,
    /// Column of the second cell, if it is another one.
    pub second_column: Option<String>,
    /// Least ratio.
    pub at_least: Option<f64>,
    /// Greatest ratio.
    pub at_most: Option<f64>,
    /// The first's median lies at most by this part below the second's, or within the second's 95 % interval, or above.
    pub not_below: Option<f64>,
    /// Greatest ratio of the relative standard deviations of the rounds.
    pub spread_at_most: Option<f64>,
    /// This claim of the paper does not hold here; none: it does.
    pub contradicts: Option<Contradiction>,
}

/// A claim of a paper that does not hold here: a claim that fails then contradicts the paper, and one that holds fails.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contradiction {
    /// The reason, after a colon.
    pub because: String,
    /// On which hosts; none: wherever it can be played.
    #[serde(rename = "where")]
    pub only: Option<Hosts>,
}

/// Hosts on which the median of a cell is at most that.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    /// Row of the cell.
    pub row: String,
    /// Its column.
    pub column: String,
    /// Greatest median, in the column's unit.
    pub at_most: f64,
}

/// Rows whose cells are to be proportional to what the rows vary, up to where they come near to a plateau.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// What it says.
    pub claim: String,
    /// Column of the cells.
    pub column: String,
    /// Rows, each with its `at`.
    pub rows: Vec<String>,
    /// The row that nothing is taken from.
    pub plateau: String,
    /// Greatest part by which cell / `at` may differ from the slope; as near to the plateau, the line has ended.
    pub within: f64,
    /// Least part of the variance that a line through the origin explains.
    pub r2: f64,
    /// This claim of the paper does not hold here; none: it does.
    pub contradicts: Option<Contradiction>,
}

impl Figure {
    /// Reads a file.
    ///
    /// # Errors
    /// One line: what is not as it should be.
    pub fn parse(text: &str) -> Result<Self> {
        let figure: Self = toml::from_str(text)?;
        figure.check().with_context(|| figure.id.clone())?;
        Ok(figure)
    }

    /// Whether any of its rows is played.
    pub fn plays_something(&self) -> bool {
        self.rows.iter().any(|row| row.not_run.is_none())
    }

    /// Place of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Place of the row of this name.
    pub fn row(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.name == name)
    }

    fn check(&self) -> Result<()> {
        ensure!(self.missing.is_some() == self.rows.is_empty(), "either rows, or why they are missing");
        for row in &self.rows {
            let (values, columns) = (row.published.len(), self.columns.len());
            ensure!(values == columns, "{}: {values} values for {columns} columns", row.name);
            let readable = |value: &Published| value.number().is_some() || value.is_none();
            ensure!(row.published.iter().all(readable), "{}: a value is no number", row.name);
            ensure!(
                row.not_run.is_some() || row.plays.is_some(),
                "{}: plays nothing, and no reason",
                row.name
            );
        }
        let beside = self.beside.as_ref().is_none_or(|row| self.row(row).is_some());
        ensure!(beside, "the rows are compared with one that is not there");
        let seconds = self.seconds.is_none_or(|seconds| (0.001..=3600.0).contains(&seconds));
        ensure!(seconds, "seconds must be 0.001 to 3600");
        let known = |name: &Option<String>| name.as_ref().is_none_or(|name| self.column(name).is_some());
        for column in &self.columns {
            let name = &column.name;
            ensure!(known(&column.of) && known(&column.over), "{name}: worked out of an unknown column");
            let sizes = column.payload.is_some() || self.rows.iter().all(|row| row.payload.is_some());
            ensure!(column.of.is_none() || column.over.is_some() || sizes, "{name}: no payload");
        }
        for shape in &self.shapes {
            let Shape { claim, column, first, second, second_column, .. } = shape;
            let rows = self.row(first).is_some() && self.row(second).is_some();
            ensure!(rows && self.column(column).is_some() && known(second_column), "{claim}: no such cell");
            let ratio = shape.at_least.is_some() || shape.at_most.is_some();
            let kinds = [ratio, shape.not_below.is_some(), shape.spread_at_most.is_some()];
            let asked = kinds.iter().filter(|is_asked| **is_asked).count();
            ensure!(asked == 1, "{claim}: either bounds of a ratio, or not_below, or spread_at_most");
        }
        self.lines.iter().try_for_each(|line| self.check_line(line))?;
        let shapes = self.shapes.iter().filter_map(|shape| shape.contradicts.as_ref());
        let lines = self.lines.iter().filter_map(|line| line.contradicts.as_ref());
        shapes.chain(lines).try_for_each(|contradiction| self.check_contradiction(contradiction))
    }

    fn check_contradiction(&self, Contradiction { because, only }: &Contradiction) -> Result<()> {
        ensure!(!because.is_empty(), "a contradiction without a reason");
        let there = |hosts: &Hosts| self.row(&hosts.row).is_some() && self.column(&hosts.column).is_some();
        ensure!(only.as_ref().is_none_or(there), "{because}: hosts are told by a cell that is not there");
        Ok(())
    }

    fn check_line(&self, line: &Line) -> Result<()> {
        let Line { claim, column, rows, plateau, within, r2, .. } = line;
        let varied = |name: &String| {
            self.row(name).and_then(|at| self.rows.get(at)).is_some_and(|row| row.at.is_some_and(|x| x > 0.0))
        };
        ensure!(self.column(column).is_some() && self.row(plateau).is_some(), "{claim}: no such cell");
        ensure!(
            rows.len() >= 3 && rows.iter().all(varied),
            "{claim}: three rows at least, each with its `at`"
        );
        let part = |value: f64| (0.0..1.0).contains(&value);
        ensure!(part(*within) && part(*r2), "{claim}: within and r2 are parts of 1");
        Ok(())
    }
}

impl Column {
    /// How a row that plays this is measured.
    pub fn run(&self, plays: Option<&String>) -> Option<&Run> {
        self.runs.get(plays?)
    }
}

impl Published {
    /// The number that it stands for; none where nothing was published.
    pub fn number(&self) -> Option<f64> {
        let text = match self {
            Self::Number(number) => return Some(*number),
            Self::Text(text) => text.trim(),
        };
        if let Some(percent) = text.strip_suffix('%') {
            return percent.trim().parse().ok().map(|percent: f64| 1.0 + percent / 100.0);
        }
        text.strip_suffix('x')?.trim().parse().ok()
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::Text(text) if matches!(text.as_str(), "-" | "n.a."))
    }

    /// As it was printed.
    pub fn shown(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Setting {
    /// The options with this setting.
    ///
    /// # Errors
    /// A word that says nothing.
    pub fn change(&self, options: &Options) -> Result<Options> {
        let word = |(name, value): (&String, &toml::Value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}={value}", name.replace('_', "-"))
        };
        Ok(Varied::parse(self.0.iter().map(word))?.change(options))
    }
}
