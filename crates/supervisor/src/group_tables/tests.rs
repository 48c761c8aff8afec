use std::sync::atomic::Ordering::Release;

use super::*;

/// A plan with a group of so many members, with these networks behind a gateway.
fn plan(members: u32, address: &str, networks: &[&str]) -> Plan {
    let routes: String =
        networks.iter().map(|to| format!("[[group.route]]\nto = '{to}'\nvia = '192.0.2.2'\n")).collect();
    let text = format!(
        "[switch.lan]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = {members}\n{routes}\
         [[group.nic]]\nname = 'lan'\nattach = 'switch:lan'\naddress = '{address}/24'\n"
    );
    config::parse(&text, "x.toml").expect("good")
}

/// Tables as they are after this plan became the one that runs.
fn after(plan: &Plan) -> GroupTables {
    let mut tables = GroupTables::default();
    let opened = GroupTables::open(plan, &tables.held()).expect("opened");
    tables.adopt(opened, plan);
    tables
}

fn routes(tables: &GroupTables) -> &Arc<GroupRoutes> {
    &tables.open.groups["core"].routes
}

fn handed(give: impl FnOnce(&mut Handover) -> Result<()>) -> Vec<(SupplyKind, String, usize)> {
    let mut given = Handover::default();
    give(&mut given).expect("descriptors");
    let (supplies, descriptors) = given.into_parts();
    let told: Vec<_> =
        supplies.into_iter().map(|supply| (supply.need, supply.of, supply.descriptors)).collect();
    assert_eq!(told.iter().map(|(.., count)| count).sum::<usize>(), descriptors.len());
    told
}

#[test]
fn the_data_plane_may_write_neighbours_and_a_member_nothing_but_its_desk() {
    let plan = plan(2, "192.0.2.1", &[]);
    let (tables, none) = (after(&plan), GroupTables::default());
    let of = |need, of: &str, count| (need, of.to_owned(), count);
    let plane = handed(|given| tables.hand_to_plane(&none, &plan, given));
    let desks = [of(SupplyKind::Desk, "core_0", 1), of(SupplyKind::Desk, "core_1", 1)];
    let common =
        |count| [of(SupplyKind::GroupRoutes, "core", 1), of(SupplyKind::GroupNeighbours, "core", count)];
    assert_eq!(plane, [&common(2)[..], &desks].concat());
    let member = handed(|given| tables.hand_to_member(&none, &plan.routers[1], given));
    assert_eq!(member, [&common(1)[..], &desks[1..]].concat());
    let nothing = handed(|given| none.hand_to_member(&none, &plan.routers[1], given));
    assert!(nothing.is_empty() && none.is_empty() && !tables.is_empty());
}

#[test]
fn routes_change_when_a_plan_is_prepared_and_stay_only_if_it_becomes_what_runs() {
    let (first, second) =
        (plan(2, "192.0.2.1", &["10.1.0.0/16"]), plan(2, "192.0.2.1", &["10.2.0.0/16", "10.3.0.0/16"]));
    let mut tables = after(&first);
    let (memory, count) = (routes(&tables).memory().clone(), routes(&tables).count());
    let prepared = GroupTables::open(&second, &tables.held()).expect("opened");
    assert_eq!(routes(&tables).count(), count + 1);
    let told: Vec<String> = changes(&first, &second).into_iter().map(|change| change.what).collect();
    assert_eq!(told, ["group core: 2 routes added or turned, 1 removed"]);
    drop(prepared);
    assert_eq!(routes(&tables).count(), count, "it was refused");
    let prepared = GroupTables::open(&second, &tables.held()).expect("opened");
    drop(tables.adopt(prepared, &second));
    assert_eq!(routes(&tables).count(), count + 1);
    assert!(Arc::ptr_eq(&memory, routes(&tables).memory()), "members need not map anything else");
    let same = GroupTables::open(&second, &tables.held()).expect("opened");
    assert!(changes(&second, &second).is_empty() && same.is_empty());
}

#[test]
fn gateways_that_do_not_answer_are_avoided_in_the_next_table_as_well() {
    use std::collections::BTreeSet;

    let several = |long_routes: u32, last: u8| {
        let text = format!(
            "[switch.lan]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\nlong_routes = {long_routes}\n\
             route = [{{ to = '10.0.0.0/8', via = ['192.0.2.2', '192.0.2.{last}'] }}]\n\
             [[group.nic]]\nname = 'lan'\nattach = 'switch:lan'\naddress = '192.0.2.1/24'\n"
        );
        config::parse(&text, "x.toml").expect("good")
    };
    let (first, turned) = (several(10, 3), several(10, 4));
    let told: Vec<String> = changes(&first, &turned).into_iter().map(|change| change.what).collect();
    assert_eq!(told, ["group core: 1 routes added or turned, 0 removed"]);
    let mut tables = after(&first);
    let silent = BTreeSet::from([(0, IpAddr::from([192, 0, 2, 3]))]);
    assert_eq!(tables.avoid("core", silent.clone()), Some(BTreeSet::new()));
    assert_eq!(tables.avoid("other", silent.clone()), None);
    let pattern = &first.groups[0].pattern;
    let lines = engine::next_hop_changes(pattern, &BTreeSet::new(), &silent);
    let lost = "next hop 192.0.2.3 behind lan is not reached: its flows take the others of their routes";
    assert_eq!(lines, [lost]);
    let lines = engine::next_hop_changes(pattern, &silent, &BTreeSet::new());
    assert_eq!(lines, ["next hop 192.0.2.3 behind lan is reached again and has its flows back"]);
    let larger = several(100_000, 3);
    let memory = routes(&tables).memory().clone();
    let opened = GroupTables::open(&larger, &tables.held()).expect("opened");
    tables.adopt(opened, &larger);
    assert!(!Arc::ptr_eq(&memory, routes(&tables).memory()));
    assert_eq!(tables.avoid("core", BTreeSet::new()), Some(silent));
}

#[test]
fn with_more_room_for_routes_members_get_another_table_that_has_the_routes_of_the_new_plan() {
    let first = plan(2, "192.0.2.1", &["10.1.0.0/16"]);
    let mut tables = after(&first);
    let (memory, count) = (routes(&tables).memory().clone(), routes(&tables).count());
    let mut second = plan(2, "192.0.2.1", &["10.1.0.0/16", "10.2.0.0/25"]);
    second.groups[0].pattern.forwarding.long_routes = Some(100_000);
    second.routers.iter_mut().for_each(|member| member.forwarding.long_routes = Some(100_000));
    let opened = GroupTables::open(&second, &tables.held()).expect("opened");
    assert_eq!(routes(&tables).count(), count, "the table that members have is as it was");
    tables.adopt(opened, &second);
    assert_eq!(routes(&tables).count(), count + 1);
    assert!(routes(&tables).memory().len() > memory.len());
    let same = GroupTables::open(&second, &tables.held()).expect("opened");
    assert!(same.is_empty());
}

#[test]
fn with_other_addresses_members_get_other_tables_and_what_is_not_needed_goes() {
    let first = plan(2, "192.0.2.1", &[]);
    let mut tables = after(&first);
    let memory = routes(&tables).memory().clone();
    let second = plan(3, "192.0.2.3", &[]);
    let opened = GroupTables::open(&second, &tables.held()).expect("opened");
    assert_eq!(opened.open.desks.keys().collect::<Vec<_>>(), ["core_2"], "others have theirs");
    tables.adopt(opened, &second);
    assert!(!Arc::ptr_eq(&memory, routes(&tables).memory()));
    let third = plan(1, "192.0.2.3", &[]);
    let opened = GroupTables::open(&third, &tables.held()).expect("opened");
    tables.adopt(opened, &third);
    assert_eq!(tables.open.desks.keys().collect::<Vec<_>>(), ["core_0"]);
    let alone =
        "[[router]]\nname = 'edge'\n[[router.nic]]\nname = 'a'\nattach = 'null'\naddress = '10.0.0.1/24'\n";
    tables.adopt(GroupTables::default(), &config::parse(alone, "x.toml").expect("good"));
    assert!(tables.is_empty());
}

#[test]
fn with_another_vlan_members_get_other_tables() {
    let with_vlan = |(vlan, address): (u16, &str)| {
        let text = format!(
            "[switch.lan]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\n\
             [[group.nic]]\nname = 'lan'\nattach = 'switch:lan'\naddress = '192.0.2.1/24'\n\
             [[group.interface]]\nname = 'guests'\nnic = 'lan'\nvlan = {vlan}\naddress = '{address}/24'\n"
        );
        config::parse(&text, "x.toml").expect("good")
    };
    let mut tables = after(&plan(2, "192.0.2.1", &[]));
    let count = routes(&tables).count();
    for wanted in [(100, "10.50.0.1"), (100, "10.51.0.1"), (101, "10.51.0.1")] {
        let (memory, next) = (routes(&tables).memory().clone(), with_vlan(wanted));
        let opened = GroupTables::open(&next, &tables.held()).expect("opened");
        tables.adopt(opened, &next);
        assert!(!Arc::ptr_eq(&memory, routes(&tables).memory()), "{wanted:?}");
        assert_eq!(routes(&tables).count(), count + 2, "its network and its address");
    }
}

#[test]
fn removed_routes_wait_for_members_that_are_there_and_not_for_ever_for_one_that_lies() {
    let (first, second) = (plan(2, "192.0.2.1", &["10.1.2.0/25"]), plan(2, "192.0.2.1", &[]));
    let mut tables = after(&first);
    let old = routes(&tables).epoch();
    let tell = |tables: &GroupTables, member: &str, epoch: u32| {
        tables.open.desks[member].epoch(0).expect("there").store(epoch, Release);
    };
    tell(&tables, "core_0", old);
    tell(&tables, "core_1", old);
    let opened = GroupTables::open(&second, &tables.held()).expect("opened");
    drop(tables.adopt(opened, &second));
    tell(&tables, "core_0", old + 1);
    let waits = |tables: &GroupTables| routes(tables).retired() > 0;
    tables.reclaim(|_| false);
    assert!(waits(&tables), "the other one reads the old epoch");
    tables.reclaim(|member| member == "core_1");
    assert!(!waits(&tables), "it has no process");
    // Once more, with one that never goes on.
    let opened = GroupTables::open(&first, &tables.held()).expect("opened");
    drop(tables.adopt(opened, &first));
    let opened = GroupTables::open(&second, &tables.held()).expect("opened");
    drop(tables.adopt(opened, &second));
    tell(&tables, "core_0", routes(&tables).epoch());
    let looks = (0..2 * PATIENCE).take_while(|_| {
        tables.reclaim(|_| false);
        waits(&tables)
    });
    let looks = looks.count();
    assert!((PATIENCE - 2..=PATIENCE).contains(&looks), "its word is believed for {looks} looks");
}

#[test]
fn a_member_that_is_started_again_reads_nothing_before() {
    let plan = plan(2, "192.0.2.1", &[]);
    let tables = after(&plan);
    tables.open.desks["core_1"].epoch(3).expect("there").store(7, Release);
    tables.leave("core_0");
    assert_eq!(tables.open.desks["core_1"].epochs()[3], 7);
    tables.leave("core_1");
    assert_eq!(tables.open.desks["core_1"].epochs()[3], 0);
}

#[test]
fn what_is_shown_is_what_there_is_once_and_what_that_saves() {
    let plan = plan(3, "192.0.2.1", &["10.1.0.0/16"]);
    let shown = after(&plan).shown("core");
    let number = |key: &str| match shown.iter().find(|(name, _)| name == key) {
        Some((_, api::Value::Number(number))) => *number,
        other => panic!("{key}: {other:?}"),
    };
    // The network, the own address, two routes for probes, and that of the file.
    assert_eq!(number("tables.routes"), 5);
    assert!(number("tables.octets") > 0);
    assert_eq!(number("tables.octets_saved"), 2 * number("tables.octets"));
    assert!(after(&plan).shown("other").is_empty());
}
