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
    both.filter(|(_, old, new)| old != new).map(|(router, old, new)| change(router, &old, &new)).collect()
}

fn change(router: &Router, old: &[(&str, String)], new: &[(&str, String)]) -> Change {
    let has = |settings: &[(&str, String)], key: &str| settings.iter().any(|(known, _)| *known == key);
    // A key that is gone has its default again.
    let gone = keys::ROUTER.iter().filter(|entry| has(old, entry.name) && !has(new, entry.name));
    let gone = gone.map(|entry| format!("{} = {}", entry.name, entry.default));
    let settings: Vec<String> =
        new.iter().map(|(key, value)| format!("{key} = {value}")).chain(gone).collect();
    let what = format!("router {}: {}", router.name, settings.join(", "));
    Change { hitless: true, what, why: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_is_told_as_well() {
        let plan = |line: &str| {
            let text = format!(
                "[[router]]\nname = \"edge\"\n{line}\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n"
            );
            config::parse(&text, "f.toml").expect("a good file")
        };
        let told = |from: &str, to: &str| {
            changes(&plan(from), &plan(to)).into_iter().map(|change| change.what).collect::<Vec<_>>()
        };
        assert!(told("guarantee = \"2kpps\"", "guarantee = \"2kpps\"").is_empty());
        let any = "router edge: pin.vcpu = any, pin.vhost = any";
        let fifo = "sched = { policy = \"fifo\", priority = 7 }";
        assert_eq!(told("", fifo), [format!("{any}, {fifo}")]);
        assert_eq!(told(fifo, ""), [format!("{any}, sched = {{ policy = \"other\" }}")]);
        assert_eq!(told("guarantee = \"2kpps\"", ""), [format!("{any}, guarantee = none")]);
        assert_eq!(told("affinity = { vcpu = \"free\" }", ""), [format!("{any}, affinity.vcpu = auto")]);
    }
}
