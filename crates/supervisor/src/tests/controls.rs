//! Questions about control planes, for routers that have none of ours, and what one of a group tells the data plane.

use std::sync::Arc;
use std::sync::mpsc::channel;

use api::{Answer, ControlAnswer, ControlPlace, ControlQuestion, Request};
use config::learned::{
    LearnedFate, LearnedGateway, LearnedGroup, LearnedHop, LearnedRoute, LearnedWay, Lesson,
};
use engine::GroupRoutes;
use link::{ToPlane, ToSupervisor};

use super::stage::{ONE, Stage};
use crate::group_tables::{GroupTables, OpenTables};

/// A kernel router.
const KERNEL: &str = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"192.0.2.1/24\"\n";

fn ask(router: &str, question: ControlQuestion) -> Request {
    Request::Control { router: router.to_owned(), question }
}

#[test]
fn the_last_words_of_a_control_plane_that_ends_are_heard() {
    let mut stage = Stage::up(ONE);
    let (end, ends) = channel();
    stage.supervisor().controls.ends_with("edge", "these are the last words", ends);
    stage.turn().expect("it goes on");
    assert_eq!(stage.supervisor().controls.watched().count(), 1, "it has not ended yet");
    drop(end);
    stage.until(|stage| stage.supervisor().controls.watched().count() == 0);
    assert_eq!(stage.lines("these are the last words").len(), 1);
}

/// A namespace goes with the thread of its control plane, whose daemons have some seconds to end.
#[test]
fn a_file_waits_for_a_control_plane_that_ends() {
    let mut stage = Stage::up(ONE);
    let (end, ends) = channel();
    stage.supervisor().controls.ends_with("edge", "it has ended", ends);
    let (file, text) = ("next.toml".to_owned(), ONE.replace("192.0.2.1/24", "192.0.2.3/24"));
    let _client = stage.client(&Request::Apply { file, text, dry_run: true });
    for _ in 0..100 {
        stage.turn().expect("it goes on");
        std::thread::yield_now();
    }
    assert!(!stage.supervisor().changes.is_busy() && !stage.supervisor().changes.is_idle(), "it waits");
    drop(end);
    stage.until(|stage| stage.plane().is_to_become().is_some());
}

/// Why a question is refused.
fn refusal(stage: &mut Stage, request: &Request) -> String {
    let mut client = stage.client(request);
    stage.turn().expect("it goes on");
    client.next_answer().expect_err("it is refused").to_string()
}

#[test]
fn without_a_control_plane_the_answer_says_so_in_one_line() {
    let mut stage = Stage::up(ONE);
    let why = refusal(&mut stage, &ask("edge", ControlQuestion::Neighbours {}));
    assert_eq!(why, "router edge has no control plane; write e.g. control = {} in its [[router]]");
    let why = refusal(&mut stage, &ask("core", ControlQuestion::Place {}));
    assert_eq!(why, "there is no router \"core\"");
}

#[test]
fn a_kernel_router_has_a_place_and_its_routes_are_the_kernels() {
    let mut stage = Stage::up(KERNEL);
    let mut client = stage.client(&ask("edge", ControlQuestion::Place {}));
    stage.turn().expect("it goes on");
    let place = ControlPlace { network: "/run/netns/edge".to_owned(), ..ControlPlace::default() };
    let answer = client.next_answer().expect("an answer");
    assert_eq!(answer, Answer::Control(ControlAnswer::Place(place)));
    let why = refusal(&mut stage, &ask("edge", ControlQuestion::Routes { within: None, after: None }));
    assert!(why.contains("`ringroad exec edge -- ip route`"), "{why}");
}

#[test]
fn a_kernel_router_has_no_control_plane_before_it_was_seen_to_run() {
    // The stand-in for the kernel has no namespaces.
    let mut stage =
        Stage::up(&KERNEL.replace("engine = \"kernel\"\n", "engine = \"kernel\"\ncontrol = {}\n"));
    let why = refusal(&mut stage, &ask("edge", ControlQuestion::Neighbours {}));
    assert_eq!(why, "the control plane of router edge does not run: see `ringroad events edge`");
}

/// A group whose members have one route table.
const CORE: &str = "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\nengine = 'process'\ncontrol = {}\n\
    [[group.nic]]\nname = 'lan'\nattach = 'tap:rr-lan'\naddress = '192.0.2.1/24'\n";

/// Makes its table.
fn core_table(stage: &mut Stage) -> Arc<GroupRoutes> {
    let plan = stage.plan().clone();
    stage.supervisor().resources.tables = GroupTables::open(&plan, &OpenTables::default()).expect("memory");
    stage.supervisor().resources.tables.routes_of("core").expect("there is one")
}

/// A lesson with a route by two gateways, and an address.
fn lesson() -> Lesson {
    let hop = |last: u8| LearnedHop { link: 0, via: Some([192, 0, 2, last].into()), weight: 1 };
    let way = Some(LearnedWay::Hops(vec![hop(2), hop(3)]));
    let route = LearnedRoute { to: [10, 0, 0, 0].into(), len: 8, fate: Some(LearnedFate::Group(1)) };
    Lesson {
        begins: true,
        ends: true,
        groups: vec![LearnedGroup { number: 1, way }],
        routes: vec![route],
        addresses: Some(vec![[192, 0, 2, 1].into()]),
        ..Lesson::default()
    }
}

#[test]
fn routes_of_a_group_are_in_its_table_and_the_data_plane_is_told_addresses_and_gateways() {
    let mut stage = Stage::up(CORE);
    let table = core_table(&mut stage);
    let count = table.count();
    stage.supervisor().controls.finds("core", &table, lesson());
    let (mut learned, mut watched) = (Vec::new(), Vec::new());
    stage.until(|stage| {
        let plane = stage.plane();
        for told in std::iter::from_fn(|| plane.told()) {
            match told {
                ToPlane::Learn { router, lesson } => learned.push((router, lesson)),
                ToPlane::Gateways { group, gateways } => watched.push((group, gateways)),
                _ => {}
            }
        }
        !learned.is_empty() && watched.iter().any(|(_, gateways)| !gateways.is_empty())
    });
    let core = || "core".to_owned();
    let addresses = Lesson { addresses: lesson().addresses, ..Lesson::default() };
    assert_eq!(learned, [(core(), addresses)], "no route among them");
    let gateway = |last: u8| LearnedGateway { link: 0, ip: [192, 0, 2, last].into() };
    assert_eq!(watched.last(), Some(&(core(), vec![gateway(2), gateway(3)])));
    assert_eq!(table.count(), count + 1);
    // The event names one that does not answer.
    stage.plane().say(&ToSupervisor::SilentGateways { group: core(), gateways: vec![gateway(3)] });
    stage.turn().expect("it goes on");
    let line =
        "group core: next hop 192.0.2.3 behind lan is not reached: its flows take the others of their routes";
    assert_eq!(stage.lines("next hop"), [line]);
}

#[test]
fn of_very_many_gateways_the_data_plane_is_told_as_many_as_are_watched() {
    let gateway = |net: u8, last: u8| LearnedGateway { link: 0, ip: [10, 1, net, last].into() };
    let group = |net: u8| {
        let hop = |last: u8| LearnedHop { link: 0, via: Some(gateway(net, last).ip), weight: 1 };
        LearnedGroup { number: net.into(), way: Some(LearnedWay::Hops((1..=64).map(hop).collect())) }
    };
    let mut stage = Stage::up(CORE);
    let table = core_table(&mut stage);
    let groups = (0..17).map(group).collect();
    let lesson = Lesson { begins: true, ends: true, groups, ..Lesson::default() };
    stage.supervisor().controls.finds("core", &table, lesson);
    let mut watched = Vec::new();
    stage.until(|stage| {
        let plane = stage.plane();
        for told in std::iter::from_fn(|| plane.told()) {
            if let ToPlane::Gateways { gateways, .. } = told {
                watched = gateways;
            }
        }
        !watched.is_empty()
    });
    assert_eq!(table.learned_ways().len(), 17 * 64);
    let first: Vec<LearnedGateway> =
        (0..16).flat_map(|net| (1..=64).map(move |last| gateway(net, last))).collect();
    assert_eq!(watched, first);
}
