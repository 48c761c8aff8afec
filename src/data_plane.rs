//! `ringroad data-plane`: what forwards. It is started by `run`, never by hand.

use anyhow::Result;
use clap::Args;

/// The options of `ringroad data-plane`.
#[derive(Args)]
pub(crate) struct Options {
    /// Process number of the supervisor.
    supervisor: u32,
    /// User to become.
    user: Option<u32>,
    /// Only give up what is to be given up, and say what this host does not give.
    #[arg(long)]
    probe: bool,
}

/// Forwards as the supervisor orders, until it says otherwise or ends; or says what this host does not give, a line each.
///
/// # Errors
/// No supervisor has started it, or this host cannot shut it in.
pub(crate) fn data_plane(options: &Options) -> Result<()> {
    if !options.probe {
        return data_plane::run(options.supervisor, options.user);
    }
    let missing = data_plane::probe(options.user)?;
    command_line::print(&missing.iter().map(|what| format!("{what}\n")).collect::<String>())
}
