//! Differences between two plans that the supervisor itself follows, as `apply` reports them: the address of the metrics, the bounds on
//! the number of a group's members, and its spare ones. Pure.

use api::Change;
use config::{GROUP, Group, GroupKind, Plan};

/// Lists these changes.
pub(super) fn changes(from: &Plan, to: &Plan) -> Vec<Change> {
    let both = to.groups.iter().filter_map(|new| Some((from.group(&new.name)?, new)));
    let numbers = both.flat_map(|(old, new)| of_numbers(old, new));
    let all = of_metrics(from, to).into_iter().chain(numbers);
    all.map(|what| Change { hitless: true, what, why: None }).collect()
}

fn of_metrics(from: &Plan, to: &Plan) -> Option<String> {
    let (old, new) = (&from.telemetry.prometheus, &to.telemetry.prometheus);
    (old != new).then(|| format!("telemetry: prometheus = {}", shown(new.as_ref())))
}

/// Keys of `scale` that differ, and the number of spare members.
fn of_numbers(old: &Group, new: &Group) -> Vec<String> {
    let keys = GROUP.iter().filter(|key| key.name.starts_with("scale.") || key.name == GroupKind::SPARE_KEY);
    let differing = keys.filter(|key| key.value(old) != key.value(new));
    differing.map(|key| format!("group {}: {} = {}", new.name, key.name, shown(key.value(new)))).collect()
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: &str, to: &str) -> Vec<String> {
        let plan = |text: &str| config::parse(text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
        changes(&plan(from), &plan(to)).into_iter().map(|change| change.what).collect()
    }

    #[test]
    fn another_address_of_the_metrics_is_told() {
        let router = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n";
        let metrics = format!("{router}[telemetry]\nprometheus = \"127.0.0.1:9477\"\n");
        assert!(told(&metrics, &metrics).is_empty());
        assert_eq!(told(router, &metrics), ["telemetry: prometheus = 127.0.0.1:9477"]);
        assert_eq!(told(&metrics, router), ["telemetry: prometheus = none"]);
    }

    #[test]
    fn other_bounds_on_the_number_of_members_are_told() {
        let group = |lines: &str| {
            format!(
                "[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\n{lines}\n\
                 [[group.nic]]\nname = \"wan\"\nattach = \"tap:core-wan\"\n"
            )
        };
        let few = group("scale = { min = 1, max = 4 }");
        let many = group("scale = { min = 1, max = 6, surplus = \"end\" }");
        assert!(told(&few, &few).is_empty());
        let due = ["spare = none", "scale.max = 6", "scale.surplus = end"];
        assert_eq!(told(&few, &many), due.map(|what| format!("group core: {what}")));
        let keys = ["spare", "scale.min", "scale.max", "scale.target", "scale.surplus"];
        assert_eq!(told(&few, &group("")), keys.map(|key| format!("group core: {key} = none")));
        assert_eq!(told(&group(""), &group("spare = 2")), ["group core: spare = 2"]);
    }
}
