//! Values of keys, as they are shown.

use std::fmt;

/// Value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Plain number: `mtu`, `vcpus`.
    Number(u32),
    /// Word, or number with a unit: `always`, `64M`, `50us`.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}
