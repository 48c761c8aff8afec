//! `ringroad data-plane`: the forwarding process. `run` starts it, never the user.

use anyhow::Result;
use clap::Args;

/// Options of `ringroad data-plane`.
#[derive(Args)]
pub(crate) struct Options {
    /// Process number of the supervisor
    supervisor: u32,
    /// Number of the user to run as
    user: Option<u32>,
    /// Only drop privileges, and print which isolation features this host lacks
    #[arg(long)]
    probe: bool,
}

/// Forwards as the supervisor orders, until that says stop or ends; or prints the isolation features that
/// this host lacks, one per line.
///
/// # Errors
/// It was not started by a supervisor, or this host cannot isolate it.
pub(crate) fn data_plane(options: &Options) -> Result<()> {
    if !options.probe {
        return data_plane::run(options.supervisor, options.user);
    }
    let missing = data_plane::probe(options.user)?;
    command_line::print(&missing.iter().map(|what| format!("{what}\n")).collect::<String>())
}
