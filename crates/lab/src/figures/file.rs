//! Format of a figure's file.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::diagram;
use crate::experiment::{OptionOverrides, Options};

/// One figure or table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// `001/fig1a`.
    pub id: String,
    /// Title in the paper.
    pub title: String,
    /// Reason why there is nothing to measure; none: there are rows.
    pub missing: Option<String>,
    /// Name of the diagram that replaces the table, such as `kvm-path`.
    pub draws: Option<String>,
    /// Roles of the components that take part.
    #[serde(default)]
    pub players: Vec<String>,
    /// Further remarks, such as slips in the paper's arithmetic.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Setting of all cells.
    #[serde(default)]
    pub setting: Setting,
    /// Fewest rounds in which all cases alternate, a slice of each per round; 0: each cell is measured separately, one
    /// after the other.
    #[serde(default, rename = "in_turn")]
    pub rounds: usize,
    /// Default for the seconds of each judged step; none: the experiments' defaults.
    pub seconds: Option<f64>,
    /// Name of the row that the others are compared with.
    #[serde(rename = "beside")]
    pub baseline_row: Option<String>,
    /// Columns in order.
    #[serde(default, rename = "column")]
    pub columns: Vec<Column>,
    /// Rows in order.
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
    /// Claims that are to hold.
    #[serde(default, rename = "shape")]
    pub shapes: Vec<Shape>,
    /// Rows that are to be proportional to their varied parameter.
    #[serde(default, rename = "line")]
    pub lines: Vec<ProportionalityClaim>,
    /// Best cell of a column, printed beside a number of the paper's text.
    pub headline: Option<Headline>,
}

/// Best cell of a column, as a paper's text states it for all of its set-ups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headline {
    /// What the number is.
    pub what: String,
    /// Column of which the cell with the highest median counts.
    pub column: String,
    /// Number of the paper, in the column's unit.
    pub published: f64,
}

/// One column, either measured (`runs`) or computed from others (`of`).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Unit of its figures: `Kpps`, `Mbps`, `KTps`, `us`, `times`, `a packet`.
    pub unit: String,
    /// Experiments of its cells, by the value of a row's `plays`.
    #[serde(default)]
    pub runs: BTreeMap<String, Run>,
    /// Column from which it is computed: its packets times `payload`, or its ratio to `over`.
    pub of: Option<String>,
    /// Octets of payload in each packet of `of`; none: the row's.
    pub payload: Option<u32>,
    /// The column that `of` is divided by.
    pub over: Option<String>,
    /// Position of its cells on the horizontal axis of a chart; none: they are not drawn.
    pub x: Option<f64>,
}

/// Specification of a cell's measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Name of the experiment.
    pub run: String,
    /// End of the case's name, where the experiment has several.
    pub case: Option<String>,
    /// Additional figure of the experiment that is used; `best:NAME`: of those whose names begin with NAME, the one with
    /// the highest median; none: the experiment's own figure.
    pub take: Option<String>,
    /// Setting of the run.
    #[serde(default)]
    pub with: Setting,
}

/// One row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Selects a run of each column.
    pub plays: Option<String>,
    /// Octets of payload of its packets.
    pub payload: Option<u32>,
    /// Numeric value of the parameter that varies from row to row.
    pub at: Option<f64>,
    /// Setting of the row.
    #[serde(default)]
    pub setting: Setting,
    /// Reason why it is not measured; none: it is.
    pub not_run: Option<String>,
    /// True if its cells are measured although nothing was published for them.
    #[serde(default)]
    pub run_unpublished: bool,
    /// Published values, one for each column.
    pub published: Vec<Published>,
}

/// Value as printed.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// `17.3x`, `+36 %`, or a word for no value: `-`, `n.a.`.
    Text(String),
}

/// Options of `ringroad lab run` by name; those not listed keep their values.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Setting(BTreeMap<String, toml::Value>);

/// Claim about two cells: bounds on their ratio, or that the first is not below the second, or that it is steadier.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Text of the claim.
    pub claim: String,
    /// Column of both cells.
    pub column: String,
    /// Row of the dividend.
    pub first: String,
    /// Row of the divisor.
    pub second: String,
    /// Column of the second cell, if it differs.
    pub second_column: Option<String>,
    /// Least ratio.
    pub at_least: Option<f64>,
    /// Greatest ratio.
    pub at_most: Option<f64>,
    /// The first's median is at most this fraction below the second's, or within the second's 95 % interval, or above.
    pub not_below: Option<f64>,
    /// Largest ratio of the relative standard deviations of the rounds.
    pub spread_at_most: Option<f64>,
    /// Present if this claim of the paper does not hold here.
    pub contradicts: Option<Contradiction>,
}

/// Declares that a paper's claim does not hold here: if the claim fails, it contradicts the paper; if it holds, that is a
/// failure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contradiction {
    /// Reason, printed after a colon.
    pub because: String,
    /// Hosts on which it applies; none: every host that can measure it.
    #[serde(rename = "where")]
    pub only: Option<Hosts>,
}

/// Hosts on which the median of a cell is at most a given value.
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

/// Claim that the cells of some rows are proportional to the rows' parameter, up to where they approach a plateau.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProportionalityClaim {
    /// Text of the claim.
    pub claim: String,
    /// Column of the cells.
    pub column: String,
    /// Rows, each with its `at`.
    pub rows: Vec<String>,
    /// Row without a limit, which gives the plateau.
    pub plateau: String,
    /// Largest relative deviation of cell / `at` from the slope; the line ends where cells come as near as this to the
    /// plateau.
    pub within: f64,
    /// Least fraction of the variance that a line through the origin must explain.
    pub r2: f64,
    /// Present if this claim of the paper does not hold here.
    pub contradicts: Option<Contradiction>,
}

impl Figure {
    /// Parses a file.
    ///
    /// # Errors
    /// One line that describes the error.
    pub fn parse(text: &str) -> Result<Self> {
        let figure: Self = toml::from_str(text)?;
        figure.check().with_context(|| figure.id.clone())?;
        Ok(figure)
    }

    /// Returns true if any of its rows is measured.
    pub fn plays_something(&self) -> bool {
        self.rows.iter().any(|row| row.not_run.is_none())
    }

    /// Index of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Index of the row with this name.
    pub fn row(&self, name: &str) -> Option<usize> {
        self.rows.iter().position(|row| row.name == name)
    }

    fn check(&self) -> Result<()> {
        let parts = [self.missing.is_some(), self.draws.is_some(), !self.rows.is_empty()];
        let parts = parts.iter().filter(|is_there| **is_there).count();
        ensure!(parts == 1, "either rows, or a diagram, or why both are missing");
        let drawing = self.draws.as_ref().is_none_or(|name| diagram::is_known(name));
        ensure!(drawing, "the diagram is none of {}", diagram::names().join(" "));
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
        let beside = self.baseline_row.as_ref().is_none_or(|row| self.row(row).is_some());
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
        let headed = self.headline.as_ref().is_none_or(|headline| self.column(&headline.column).is_some());
        ensure!(headed, "the headline is of a column that is not there");
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

    fn check_line(&self, line: &ProportionalityClaim) -> Result<()> {
        let ProportionalityClaim { claim, column, rows, plateau, within, r2, .. } = line;
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
    /// Returns the run for a row's `plays`.
    pub fn run(&self, plays: Option<&String>) -> Option<&Run> {
        self.runs.get(plays?)
    }
}

impl Published {
    /// Numeric value; none if nothing was published.
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

    /// Text as it was printed.
    pub fn shown(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Setting {
    /// Applies this setting to the options.
    ///
    /// # Errors
    /// A name or value is not understood.
    pub fn change(&self, options: &Options) -> Result<Options> {
        let word = |(name, value): (&String, &toml::Value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{}={value}", name.replace('_', "-"))
        };
        Ok(OptionOverrides::parse(self.0.iter().map(word))?.change(options))
    }
}
