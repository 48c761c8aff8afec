//! Differences of control planes between two plans, as `apply` reports them. Pure.

use api::Change;
use config::{Control, Plan};

/// Lists what changes in control planes that stay; the data plane reports those that come or go with their routers.
pub(crate) fn changes(from: &Plan, to: &Plan) -> Vec<Change> {
    let changed = to.controlled().filter_map(|(router, now)| {
        let (_, before) = from.controlled().find(|(old, _)| old.name == router.name)?;
        (before != now).then(|| of_control(&router.name, now))
    });
    changed.collect()
}

fn of_control(router: &str, now: &Control) -> Change {
    match &now.frr {
        Some(path) => {
            let what = format!("router {router}: FRR follows {}", path.display());
            Change { what, hitless: true, why: None }
        }
        None => {
            let why = "what goes by its routes is lost".to_owned();
            Change { what: format!("router {router}: FRR ends"), hitless: false, why: Some(why) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_configuration_is_told_and_its_end_is_not_hitless() {
        let plan = |control: &str| {
            let text = format!(
                "[[router]]\nname = \"edge\"\n{control}\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n"
            );
            config::parse(&text, "f.toml").expect("a good file")
        };
        let with = plan("control = { frr = \"a.conf\" }");
        let told = |from: &Plan, to: &Plan| {
            changes(from, to).into_iter().map(|change| (change.what, change.hitless)).collect::<Vec<_>>()
        };
        assert!(told(&with, &with).is_empty());
        let other = told(&with, &plan("control = { frr = \"b.conf\" }"));
        assert_eq!(other, [("router edge: FRR follows b.conf".to_owned(), true)]);
        assert_eq!(told(&with, &plan("control = {}")), [("router edge: FRR ends".to_owned(), false)]);
        assert!(told(&plan(""), &with).is_empty(), "its router is replaced");
    }
}
