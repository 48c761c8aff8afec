use netlink_packet_route::link::LinkMessage;

use super::*;

/// Test object with an `Id`, a variant, and a value; its parts are letters.
#[derive(Clone, Debug, PartialEq)]
struct Thing(u8, &'static str, u32);

impl Object for Thing {
    type Id = u8;
    type Variant = String;

    fn wanted() -> RouteNetlinkMessage {
        RouteNetlinkMessage::GetLink(LinkMessage::default())
    }

    fn read(_: RouteNetlinkMessage) -> Option<(bool, Self)> {
        None
    }

    fn key(&self) -> (u8, String) {
        (self.0, self.1.to_owned())
    }

    fn without(&self, gone: &Self) -> Option<Self> {
        let rest = self.1.strip_prefix(gone.1).filter(|rest| !rest.is_empty())?;
        Some(Self(self.0, rest, self.2))
    }
}

fn told(table: &mut Table<Thing>, thing: Thing, is_there: bool, replaces: bool) -> Vec<Change<Thing>> {
    let mut told = Vec::new();
    table.take(thing, is_there, replaces, &mut |change| told.push(change));
    told
}

fn rows(table: &Table<Thing>) -> Vec<Thing> {
    table.iter().cloned().collect()
}

#[test]
fn what_is_told_twice_changes_nothing() {
    let mut table = Table::default();
    let thing = Thing(1, "a", 5);
    assert_eq!(told(&mut table, thing.clone(), true, false), [Change::Set(thing.clone())]);
    assert_eq!(told(&mut table, thing.clone(), true, false), []);
    let changed = Thing(1, "a", 6);
    assert_eq!(told(&mut table, changed.clone(), true, false), [Change::Set(changed.clone())]);
    assert_eq!(told(&mut table, thing, false, false), [Change::Gone(changed)], "as it was last");
    assert_eq!(told(&mut table, Thing(1, "a", 6), false, false), []);
    assert!(table.is_empty());
}

#[test]
fn one_that_replaces_takes_the_place_of_all_with_its_id() {
    let mut table = Table::default();
    for thing in [Thing(1, "a", 0), Thing(1, "b", 0), Thing(2, "a", 0)] {
        told(&mut table, thing, true, false);
    }
    assert_eq!(table.of(&1).count(), 2);
    let told = told(&mut table, Thing(1, "c", 0), true, true);
    assert_eq!(
        told,
        [Change::Gone(Thing(1, "a", 0)), Change::Gone(Thing(1, "b", 0)), Change::Set(Thing(1, "c", 0))]
    );
    assert_eq!(rows(&table), [Thing(1, "c", 0), Thing(2, "a", 0)]);
}

#[test]
fn of_a_row_a_part_may_go() {
    let mut table = Table::default();
    told(&mut table, Thing(1, "ab", 0), true, false);
    let told = told(&mut table, Thing(1, "a", 0), false, false);
    assert_eq!(told, [Change::Gone(Thing(1, "ab", 0)), Change::Set(Thing(1, "b", 0))]);
    assert_eq!(rows(&table), [Thing(1, "b", 0)]);
}

#[test]
fn a_new_table_tells_the_difference_alone() {
    let mut table = Table::default();
    for thing in [Thing(1, "a", 0), Thing(2, "a", 0), Thing(3, "a", 0)] {
        told(&mut table, thing, true, false);
    }
    let mut told = Vec::new();
    let now = vec![Thing(4, "a", 0), Thing(3, "a", 9), Thing(1, "a", 0)];
    table.take_all(now, &mut |change| told.push(change));
    assert_eq!(
        told,
        [Change::Gone(Thing(2, "a", 0)), Change::Set(Thing(3, "a", 9)), Change::Set(Thing(4, "a", 0))]
    );
    assert_eq!(rows(&table), [Thing(1, "a", 0), Thing(3, "a", 9), Thing(4, "a", 0)]);
    assert_eq!(table.len(), 3);
}

#[test]
fn a_part_of_a_table_is_replaced_alone() {
    let mut table = Table::default();
    for thing in [Thing(1, "a", 0), Thing(2, "a", 0), Thing(3, "a", 0)] {
        told(&mut table, thing, true, false);
    }
    let mut told = Vec::new();
    table.take_part(vec![Thing(2, "b", 0)], |id| *id <= 2, &mut |change| told.push(change));
    assert_eq!(
        told,
        [Change::Gone(Thing(1, "a", 0)), Change::Gone(Thing(2, "a", 0)), Change::Set(Thing(2, "b", 0))]
    );
    assert_eq!(rows(&table), [Thing(2, "b", 0), Thing(3, "a", 0)]);
}
