//! `RESULT name=… unit=… median=… min=… max=… n=… key=value…`

use std::fmt;

use crate::stats::Summary;

/// One case's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultLine {
    /// `experiment/case`, without spaces.
    pub name: String,
    /// Unit of the figures: `mpps`, `us`, `ms`, …
    pub unit: String,
    /// The middle sample; not a number where there is none.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// Samples.
    pub n: usize,
    /// What else there is to say, in order.
    pub more: Vec<(String, String)>,
}

impl ResultLine {
    /// The line of these samples; `n=0` where there are none.
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

    /// Appends a figure, if it is known.
    pub fn with_number(self, key: &str, value: Option<f64>) -> Self {
        match value {
            Some(value) if value.is_finite() => self.with(key, number(value)),
            _ => self,
        }
    }

    /// The value of a further key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.more.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Reads a line as it is printed. None for any other line, so that all of a program's output can be offered.
    pub fn parse(line: &str) -> Option<Self> {
        let mut result = Self::default();
        let mut figures = 0;
        for word in line.trim().strip_prefix("RESULT ")?.split_whitespace() {
            let (key, value) = word.split_once('=')?;
            let figure = match key {
                "median" => &mut result.median,
                "min" => &mut result.min,
                "max" => &mut result.max,
                "name" | "unit" | "n" => {
                    match key {
                        "name" => result.name = value.to_owned(),
                        "unit" => result.unit = value.to_owned(),
                        _ => result.n = value.parse().ok()?,
                    }
                    continue;
                }
                _ => {
                    result.more.push((key.to_owned(), value.to_owned()));
                    continue;
                }
            };
            *figure = value.parse().ok()?;
            figures += 1;
        }
        let complete = figures == 3 && !result.name.is_empty() && !result.unit.is_empty();
        complete.then_some(result)
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

/// A figure with four digits that count, never as a power of ten; whole numbers from 1000 on.
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
