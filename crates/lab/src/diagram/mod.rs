//! Diagrams of running routers, as SVG: the path of a frame from the load to the sink.
//!
//! The lab runs the routers in a room and draws them by the file of the command, by the kernel's interfaces and by the threads that
//! exist. An interface of the file that does not exist is an error.

mod paths;
mod seen;
mod svg;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result};

pub use paths::{Path, Space, Station, paths};
pub use seen::Seen;
pub(crate) use seen::interfaces;
pub use svg::svg;

use crate::experiment::Options;
use crate::experiments::drawn;

/// A diagram, as a drawing and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    /// The drawing.
    pub svg: String,
    /// A line for each router with its stations in order.
    pub lines: Vec<String>,
}

/// The names of all diagrams.
pub fn names() -> Vec<&'static str> {
    drawn::ALL.iter().map(|drawing| drawing.name).collect()
}

/// Whether there is a diagram of this name.
pub fn is_known(name: &str) -> bool {
    names().contains(&name)
}

/// Runs the routers of a diagram and draws them.
///
/// # Errors
/// There is no such diagram, or its routers do not run as their file says.
pub fn draw(name: &str, title: &str, options: &Options) -> Result<Diagram> {
    let drawing = drawn::ALL.iter().find(|drawing| drawing.name == name);
    let drawing = drawing.with_context(|| format!("nothing is drawn under the name `{name}`"))?;
    drawing.with_routers(options, |text, seen| {
        let plan = config::parse(text, "lab.toml")?;
        let paths = paths(&plan, seen)?;
        Ok(Diagram { svg: svg(title, &paths), lines: paths.iter().map(Path::line).collect() })
    })
}
