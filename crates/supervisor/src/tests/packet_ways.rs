//! Ways of packets that a data plane traces: found in the table of a group, or by the process of a router.

use std::net::IpAddr;

use config::way::{Way, WayQuestion};
use link::{ToPlane, ToSupervisor, TracedPacket};

use super::questions::isolated;
use super::stage::{Scripted, Stage};
use crate::group_tables::{GroupTables, OpenTables};

fn packet(router: &str) -> TracedPacket {
    TracedPacket { trace: 3, number: 1, router: router.to_owned() }
}

fn question() -> WayQuestion {
    WayQuestion { table: 0, destination: IpAddr::from([10, 1, 2, 3]), flow: 7, link: 0 }
}

fn way() -> Way {
    Way { route: Some(([10, 0, 0, 0].into(), 8)), gateway: Some([192, 0, 2, 9].into()) }
}

/// Ways that a data plane was told since the last call.
fn found(plane: &Scripted) -> Vec<(TracedPacket, Option<Way>)> {
    let told = std::iter::from_fn(|| plane.told());
    let ways = told.filter_map(|told| match told {
        ToPlane::FoundWay { of, way } => Some((of, way)),
        _ => None,
    });
    ways.collect()
}

#[test]
fn the_way_of_a_packet_of_a_member_is_found_in_the_table_of_its_group() {
    let text = "[switch.lan]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\nengine = 'process'\n\
                route = [{ to = '10.0.0.0/8', via = '192.0.2.9' }]\n\
                [[group.nic]]\nname = 'lan'\nattach = 'switch:lan'\naddress = '192.0.2.1/24'\n";
    let mut stage = Stage::up(text);
    let plan = stage.plan().clone();
    stage.supervisor().resources.tables = GroupTables::open(&plan, &OpenTables::default()).expect("memory");
    let plane = stage.plane();
    let elsewhere = WayQuestion { destination: [203, 0, 113, 1].into(), ..question() };
    for question in [question(), elsewhere] {
        plane.say(&ToSupervisor::FindWay { of: packet("core_0"), question });
    }
    stage.turn().expect("it goes on");
    let core = || packet("core_0");
    assert_eq!(found(&plane), [(core(), Some(way())), (core(), None)]);
}

#[test]
fn the_process_of_a_router_is_asked_for_ways_and_speaks_for_that_router_alone() {
    let (mut stage, main, own) = isolated();
    main.say(&ToSupervisor::FindWay { of: packet("edge"), question: question() });
    stage.turn().expect("it goes on");
    let asked = std::iter::from_fn(|| own.told()).find_map(|told| match told {
        ToPlane::FindWay { of, question } => Some((of, question)),
        _ => None,
    });
    assert_eq!(asked, Some((packet("edge"), question())));
    assert!(found(&main).is_empty(), "it is to answer first");
    own.say(&ToSupervisor::FoundWay { of: packet("core"), way: Some(way()) });
    own.say(&ToSupervisor::FoundWay { of: packet("edge"), way: Some(way()) });
    stage.turn().expect("it goes on");
    assert_eq!(found(&main), [(packet("edge"), Some(way()))]);
    own.say(&ToSupervisor::FoundWay { of: packet("edge"), way: None });
    stage.turn().expect("it goes on");
    assert!(found(&main).is_empty(), "nobody has asked again");
}

#[test]
fn a_way_that_nobody_knows_is_not_waited_for() {
    let (mut stage, main, own) = isolated();
    own.die();
    stage.turn().expect("it goes on");
    found(&main);
    for router in ["edge", "core", "none"] {
        main.say(&ToSupervisor::FindWay { of: packet(router), question: question() });
    }
    stage.turn().expect("it goes on");
    let nothing = ["edge", "core", "none"].map(|router| (packet(router), None::<Way>));
    assert_eq!(found(&main), nothing);
}
