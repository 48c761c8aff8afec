//! The table of keys agrees with what files accept, with the help, and with the documentation of the file.

use crate::keys::{Change, Entry, ROUTER, nic};
use crate::parse;

/// Rows of a table in docs/file.md.
pub(super) fn rows<T>(entries: &[Entry<T>]) -> String {
    let row = |Entry { name, takes, default, does, change, .. }: &Entry<T>| {
        let costs = match change {
            Change::Free(_) => "no packet is lost".to_owned(),
            Change::Loses(_, what) => format!("{what} is lost"),
            Change::Replaces => "the router is replaced".to_owned(),
            Change::Applies => "by `apply`; no packet is lost".to_owned(),
            Change::AppliesAndLoses(what) => format!("by `apply`; {what} is lost"),
            Change::Refused => "refused while the run lasts".to_owned(),
        };
        format!("| `{name}` | {takes} | {default} | {does} | {costs} |\n")
    };
    entries.iter().map(row).collect()
}

#[test]
fn the_page_about_the_file_has_every_key() {
    let page = include_str!("../../../../docs/file.md");
    for table in [rows(ROUTER), rows(&nic())] {
        assert!(page.contains(&table), "docs/file.md is to have this table:\n{table}");
    }
}

#[test]
fn what_a_file_does_not_say_is_as_the_table_has_it() {
    let text = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n";
    let plan = parse(text, "f.toml").expect("a good file");
    let router = &plan.routers[0];
    let of_router = ROUTER.iter().map(|entry| (entry.name, entry.default, entry.value(router)));
    let of_nic = nic().into_iter().map(|entry| (entry.name, entry.default, entry.value(&router.nics[0])));
    let mut seen = 0;
    for (name, default, value) in of_router.chain(of_nic) {
        let (Some(value), false) = (value, ["attach", "mac", "queues", "memory"].contains(&name)) else {
            continue;
        };
        assert_eq!(value.to_string(), default, "{name}");
        seen += 1;
    }
    assert!(seen > 12, "{seen}");
}
