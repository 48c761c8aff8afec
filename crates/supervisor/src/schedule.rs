//! Differences between two plans in the placement of threads, their scheduling, and the promises.

use api::Change;
use config::keys::{self, Change as Cost};
use config::{Key, Plan, Router};

/// Scheduling keys of a router with their values.
fn settings(router: &Router) -> Vec<(&'static str, String)> {
    // `spin`, the polling budget of its threads, is reported by the data plane.
    let is_placed = |cost: Cost| matches!(cost, Cost::Free(key) if key.is_of_threads() && key != Key::Spin);
    // A kernel router has no vCPU.
    let is_its = |name: &str| !(router.is_in_kernel() && name.ends_with(".vcpu"));
    let entries = keys::ROUTER.iter().filter(|entry| is_placed(entry.change) && is_its(entry.name));
    entries.filter_map(|entry| Some((entry.name, entry.value(router)?.to_string()))).collect()
}

/// Changes of scheduling for routers that are in both plans.
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
