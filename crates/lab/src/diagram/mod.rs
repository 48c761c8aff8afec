//! SVG diagrams of running routers: the path of a frame from the load to the sink.
//!
//! The lab runs the routers in a room. The diagram combines the configuration file of the command with the interfaces and threads
//! that exist. An interface that the file names but that does not exist is an error.

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

/// A diagram as a drawing and as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    /// Drawing.
    pub svg: String,
    /// One line for each router, with its stations in order.
    pub lines: Vec<String>,
}

/// Returns the names of all diagrams.
pub fn names() -> Vec<&'static str> {
    drawn::ALL.iter().map(|drawing| drawing.name).collect()
}

/// Returns true if there is a diagram of this name.
pub fn is_known(name: &str) -> bool {
    names().contains(&name)
}

/// Runs the routers of a diagram, and draws the path through each.
///
/// # Errors
/// There is no such diagram, its routers do not run, or an interface or thread of the file does not exist.
pub fn draw(name: &str, title: &str, options: &Options) -> Result<Diagram> {
    let drawing = drawn::ALL.iter().find(|drawing| drawing.name == name);
    let drawing = drawing.with_context(|| format!("nothing is drawn under the name `{name}`"))?;
    drawing.with_routers(options, |text, seen| {
        let plan = config::parse(text, "lab.toml")?;
        let paths = paths(&plan, seen)?;
        Ok(Diagram { svg: svg(title, &paths), lines: paths.iter().map(Path::line).collect() })
    })
}
