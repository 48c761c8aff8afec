//! `ringroad data-plane`: what forwards. It is started by `run`, never by hand.

use anyhow::Result;

/// Says what this host does not give a data plane that becomes `user`, a line each.
///
/// # Errors
/// Something cannot be given up.
pub(crate) fn probe(user: Option<u32>) -> Result<()> {
    let missing = data_plane::probe(user)?;
    crate::print(&missing.iter().map(|what| format!("{what}\n")).collect::<String>())
}
