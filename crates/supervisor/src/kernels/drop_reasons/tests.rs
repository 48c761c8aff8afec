use super::*;

#[test]
fn drops_are_told_by_reason() {
    let drops = [("no_socket".to_owned(), 5), ("neigh_failed".to_owned(), 3)].into();
    assert_eq!(words(&drops), "neigh_failed 3, no_socket 5");
    assert_eq!(words(&BTreeMap::new()), "none");
}

#[test]
fn nothing_is_counted_for_those_who_do_not_ask() {
    let mut drops = DropReasons::default();
    let mut counted = Counted::default();
    drops.count("edge", &mut counted);
    drops.forget("edge");
    assert_eq!((drops.of("edge"), counted), (None, Counted::default()));
    assert!(drops.counters.is_none(), "no program is attached");
}

/// Interfaces at which no packet arrives.
fn some(indices: impl IntoIterator<Item = u32>) -> Watched {
    let interface = |index| (format!("nic{index}"), Interface { namespace: 1, index });
    indices.into_iter().map(interface).collect()
}

/// Watches the first interfaces of a router. Returns `None`, and prints the reason, if this user or kernel cannot count drops.
fn watched(drops: &mut DropReasons, interfaces: Watched) -> Option<Result<()>> {
    let outcome = drops.watch("edge", &Watched::new(), interfaces);
    let lacks = |line: &str| line.contains("not permitted") || line.contains("no type information");
    match outcome {
        Err(error) if lacks(&error.to_string()) => {
            println!("SKIPPED: {error:#}");
            None
        }
        outcome => Some(outcome),
    }
}

/// Names of the NICs of a router whose drops are counted.
fn nics(drops: &DropReasons, router: &str) -> Option<Vec<String>> {
    drops.of(router).map(|of| of.into_keys().collect())
}

#[test]
fn the_program_goes_with_the_last_router_that_asks() {
    let mut drops = DropReasons::default();
    let Some(outcome) = watched(&mut drops, some([1, 2])) else { return };
    outcome.expect("there is room");
    drops.watch("core", &Watched::new(), some([3])).expect("there is room");
    assert_eq!(nics(&drops, "edge"), Some(vec!["nic1".to_owned(), "nic2".to_owned()]));
    let before = drops.watched.remove("edge").expect("it is watched");
    drops.watch("edge", &before, some([2, 4])).expect("there is room");
    assert_eq!(nics(&drops, "edge"), Some(vec!["nic2".to_owned(), "nic4".to_owned()]));
    let gone = drops.counters.as_ref().expect("it counts").counted(Interface { namespace: 1, index: 1 });
    assert_eq!(gone.expect("it is told"), None);
    drops.forget("edge");
    assert!(drops.counters.is_some() && nics(&drops, "core").is_some());
    drops.forget("core");
    assert!(drops.counters.is_none() && drops.watched.is_empty());
}

#[test]
fn what_there_is_no_room_for_is_one_line() {
    let mut drops = DropReasons::default();
    let Some(outcome) = watched(&mut drops, some(0..=MOST)) else { return };
    let line = outcome.expect_err("there is no room").to_string();
    assert_eq!(line, "the number of interfaces is 1025, expected 1 to 1024");
    assert!(drops.counters.is_none() && drops.watched.is_empty(), "nothing is left of it");
}
