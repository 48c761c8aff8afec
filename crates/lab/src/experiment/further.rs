//! Additional figures of a sample.

use std::borrow::Cow;

/// List of named figures, in insertion order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraFigures(Vec<(Cow<'static, str>, f64)>);

impl ExtraFigures {
    /// Appends a figure.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: f64) {
        self.0.push((name.into(), value));
    }

    /// Appends all figures of another list.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the figure with this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Iterates over names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

impl<N: Into<Cow<'static, str>>> Extend<(N, f64)> for ExtraFigures {
    fn extend<I: IntoIterator<Item = (N, f64)>>(&mut self, more: I) {
        more.into_iter().for_each(|(name, value)| self.push(name, value));
    }
}

impl<N: Into<Cow<'static, str>>, const COUNT: usize> From<[(N, f64); COUNT]> for ExtraFigures {
    fn from(all: [(N, f64); COUNT]) -> Self {
        let mut further = Self::default();
        further.extend(all);
        further
    }
}
