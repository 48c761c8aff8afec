//! SVG diagrams of running routers: the path of a frame from the load to the sink, the stages of a group, or the functions of the
//! kernel that a frame passes.
//!
//! The lab runs the routers in a room. The diagram combines the configuration file of the command with the interfaces and threads
//! that exist. An interface that the file names but that does not exist is an error.

mod functions;
mod paths;
mod seen;
mod stages;
mod svg;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, ensure};

pub use functions::functions;
pub use paths::{Path, Space, Station, paths};
pub use seen::Seen;
pub(crate) use seen::interfaces;
pub use stages::{Graph, Stage, graph};
pub use svg::{svg, svg_of_stages};

use crate::experiment::Options;
use crate::experiments::drawn::{self, Room, Shows};

/// A diagram as a drawing and as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagram {
    /// Drawing.
    pub svg: String,
    /// One line for each router, with its stations in order.
    pub lines: Vec<String>,
    /// Names of the paths that this host cannot run, with the reasons.
    pub not_run: Vec<(String, String)>,
}

/// Returns the names of all diagrams.
pub fn names() -> Vec<&'static str> {
    drawn::ALL.iter().map(|drawing| drawing.name).collect()
}

/// Returns true if there is a diagram of this name.
pub fn is_known(name: &str) -> bool {
    names().contains(&name)
}

/// Runs the routers of a diagram, and draws the path through each, or the stages of their group.
///
/// # Errors
/// There is no such diagram, its routers do not run, or an interface or thread of the file does not exist.
pub fn draw(name: &str, title: &str, options: &Options) -> Result<Diagram> {
    let drawing = drawn::ALL.iter().find(|drawing| drawing.name == name);
    let drawing = drawing.with_context(|| format!("nothing is drawn under the name `{name}`"))?;
    let rooms = drawing.rooms(options)?;
    match drawing.shows {
        Shows::Paths => {
            let of_room = |room: &Room| paths(&config::parse(&room.text, "lab.toml")?, &room.seen);
            let mut paths = rooms.iter().map(of_room).collect::<Result<Vec<_>>>()?.concat();
            let mut not_run = Vec::new();
            match drawing.by_functions()? {
                Some((_, Ok(room))) => paths.extend(of_room(&room)?),
                Some((name, Err(why))) => not_run.push((name.to_owned(), why.to_owned())),
                None => {}
            }
            Ok(Diagram { svg: svg(title, &paths), lines: paths.iter().map(Path::line).collect(), not_run })
        }
        Shows::Stages => {
            let room = rooms.first().context("no room was opened")?;
            let graph = graph(&config::parse(&room.text, "lab.toml")?, &room.seen)?;
            let (svg, lines) = (svg_of_stages(title, &graph), vec![graph.line()]);
            Ok(Diagram { svg, lines, not_run: Vec::new() })
        }
        Shows::Functions => {
            let room = rooms.first().context("no room was opened")?;
            // Every namespace has a loopback interface.
            let interfaces = room.seen.outside.iter().filter(|name| *name != "lo").cloned().collect();
            let stations = functions(&room.trace, &interfaces, &room.threads);
            ensure!(!stations.is_empty(), "no tracepoint of this host tells of the frame");
            let path = Path { router: "vr1".to_owned(), stations };
            let svg = svg(title, std::slice::from_ref(&path));
            Ok(Diagram { svg, lines: vec![path.line()], not_run: Vec::new() })
        }
    }
}
