//! What another plan changes of where threads are, how they are scheduled, and what is promised.

use api::Change;
use config::keys::{self, Change as Cost};
use config::{Key, Plan, Router};

/// What is planned for the threads of a router, by key.
fn settings(router: &Router) -> Vec<(&'static str, String)> {
    // What its threads poll for the data plane is told.
    let is_placed = |cost: Cost| matches!(cost, Cost::Free(key) if key.is_of_threads() && key != Key::Spin);
    let entries = keys::ROUTER.iter().filter(|entry| is_placed(entry.change));
    entries.filter_map(|entry| Some((entry.name, entry.value(router)?.to_string()))).collect()
}

/// What another plan changes for the threads of routers that stay.
pub(super) fn changes(from: &Plan, to: &Plan) -> Vec<Change> {
    let old = |new: &Router| from.routers.iter().find(|old| old.name == new.name);
    let both = to.routers.iter().filter_map(|new| Some((new, settings(old(new)?), settings(new))));
    both.filter(|(_, old, new)| old != new).map(|(router, _, new)| change(router, &new)).collect()
}

fn change(router: &Router, settings: &[(&str, String)]) -> Change {
    let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    let what = format!("router {}: {}", router.name, settings.join(", "));
    Change { hitless: true, what, why: None }
}
