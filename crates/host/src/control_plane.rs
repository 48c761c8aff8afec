//! What a router's control plane needs of this host: FRR, and a configuration that it can use.

use std::path::Path;

use config::{Control, Router};
use frr::{Configuration, Content, Programs};
use rustix::process::geteuid;

use crate::{Finding, State, tun};

/// Returns what the control plane of a router lacks, by key.
pub(crate) fn lacks(control: &Control) -> Option<(&'static str, String)> {
    look(control).err().map(|what| ("control.frr", what))
}

/// Reads the configuration of FRR and looks for the daemons that it needs; `None`: FRR does not run.
fn look(control: &Control) -> Result<Option<Content>, String> {
    let Some(path) = &control.frr else { return Ok(None) };
    let Configuration { content, .. } = Configuration::load(path).map_err(|error| error.to_string())?;
    Programs::find(Path::new("/"), content.daemons()).map_err(|error| error.to_string())?;
    Ok(Some(content))
}

/// Finding about the control plane of a router.
pub(crate) fn finding(router: &Router, control: &Control) -> Finding {
    let (state, meaning) = match look(control) {
        _ if !geteuid().is_root() => {
            (State::No, "only root may make its network namespace: run as root".to_owned())
        }
        Err(what) => (State::No, what),
        // A kernel router has it where it is, without shadows.
        Ok(content) if router.is_in_kernel() => content.map_or_else(alone, told),
        Ok(content) => match tun() {
            Err(what) => (State::No, what),
            Ok(()) => content.map_or_else(alone, told),
        },
    };
    Finding::new(state, router.name.clone(), format!("control = {control}"), meaning)
}

fn alone() -> (State, String) {
    (State::Ok, "makes a network namespace, in which nothing runs".to_owned())
}

/// What a configuration starts, or the first thing in it that works less well than its author may think.
fn told(content: Content) -> (State, String) {
    if let Some(hint) = content.hints().first() {
        return (State::Note, hint.text().to_owned());
    }
    let daemons: Vec<&str> = content.daemons().map(frr::Daemon::name).collect();
    (State::Ok, format!("starts {} in a network namespace", daemons.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_plane_without_frr_lacks_nothing() {
        assert_eq!(lacks(&Control { frr: None }), None);
    }

    #[test]
    fn a_configuration_that_is_not_there_is_told_by_its_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let frr = Some(folder.path().join("none.conf"));
        let (key, what) = lacks(&Control { frr }).expect("it is not there");
        assert_eq!(key, "control.frr");
        assert!(what.starts_with("cannot read ") && !what.contains('\n'), "{what}");
    }
}
