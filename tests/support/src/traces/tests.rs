use std::time::Duration;

use super::Traces;

fn of(things: &[&str]) -> Traces {
    Traces { things: things.iter().map(|thing| (*thing).to_owned()).collect() }
}

#[test]
fn only_what_is_new_is_left() {
    let before = of(&["link lo", "link old", "hugepages-2048kB free_hugepages 8"]);
    let after = of(&["link lo", "link new", "hugepages-2048kB free_hugepages 7"]);
    assert_eq!(after.since(&before), ["hugepages-2048kB free_hugepages 7", "link new"]);
    assert!(before.since(&before).is_empty());
}

#[test]
fn the_loopback_is_seen() {
    assert!(Traces::now().things.contains("link lo"));
}

#[test]
fn a_namespace_is_a_trace_until_it_is_removed() {
    crate::needs!(Root, Program("ip"));
    let before = Traces::now();
    let namespace = crate::Namespace::add("traces").expect("a namespace can be added");
    let ours = format!("namespace {}", namespace.name());
    assert!(Traces::now().since(&before).contains(&ours));
    drop(namespace);
    assert!(!Traces::left(&before, Duration::from_millis(100)).contains(&ours));
}
