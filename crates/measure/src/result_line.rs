//! `RESULT name=… unit=… median=… min=… max=… n=… key=value…`

use std::fmt;

use crate::stats::Summary;

/// Keys that every line has.
const KEYS: [&str; 6] = ["name", "unit", "median", "min", "max", "n"];

/// Result of one case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultLine {
    /// `experiment/case`, without spaces.
    pub name: String,
    /// Unit of the figures: `mpps`, `us`, `ms`, …
    pub unit: String,
    /// Median of the samples; NaN if there are none.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// Number of samples.
    pub n: usize,
    /// Additional keys and values, in order.
    pub more: Vec<(String, String)>,
}

impl ResultLine {
    /// Creates the line for these samples; `n=0` if there are none.
    pub fn new(name: &str, unit: &str, summary: Option<Summary>) -> Self {
        let (median, min, max) = summary.map_or((f64::NAN, f64::NAN, f64::NAN), |s| (s.median, s.min, s.max));
        let n = summary.map_or(0, |summary| summary.n);
        Self { name: name.to_owned(), unit: unit.to_owned(), median, min, max, n, more: Vec::new() }
    }

    /// Appends `key=value`.
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.more.push((key.to_owned(), value.to_string()));
        self
    }

    /// Appends a figure, if it is known and finite.
    pub fn with_number(self, key: &str, value: Option<f64>) -> Self {
        match value {
            Some(value) if value.is_finite() => self.with(key, number(value)),
            _ => self,
        }
    }

    /// Returns the value of an additional key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.more.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns the number under a key, one of the six or an additional one; none if it is not a finite number.
    pub fn figure(&self, key: &str) -> Option<f64> {
        let figure = match key {
            "median" => self.median,
            "min" => self.min,
            "max" => self.max,
            "n" => self.n as f64,
            further => self.get(further)?.parse().ok()?,
        };
        Some(figure).filter(|figure| figure.is_finite())
    }

    /// Parses a printed line. Returns none for any other line, so that all of a program's output can be passed.
    pub fn parse(line: &str) -> Option<Self> {
        let words = line.trim().strip_prefix("RESULT ")?.split_whitespace();
        let pairs: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        let of = |wanted: &str| pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        let further = pairs.iter().filter(|(key, _)| !KEYS.contains(key));
        Some(Self {
            name: of("name").filter(|name| !name.is_empty())?.to_owned(),
            unit: of("unit").filter(|unit| !unit.is_empty())?.to_owned(),
            median: of("median")?.parse().ok()?,
            min: of("min")?.parse().ok()?,
            max: of("max")?.parse().ok()?,
            n: of("n")?.parse().ok()?,
            more: further.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        })
    }
}

impl fmt::Display for ResultLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unit, n, .. } = self;
        let [median, min, max] = [self.median, self.min, self.max].map(number);
        write!(f, "RESULT name={name} unit={unit} median={median} min={min} max={max} n={n}")?;
        self.more.iter().try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

/// Formats a figure with four significant digits, never in scientific notation; from 1000 on as a whole number.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "nan".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests;
