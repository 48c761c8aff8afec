use std::net::Ipv4Addr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use config::learned::{LearnedGateway, LearnedGroup, LearnedHop, LearnedWay};
use fib::NextHop;
use vmm::Room6;

use super::*;

fn table() -> Arc<RouteTable> {
    let room = Room6 { nodes: 64, ranges: 4096 };
    Arc::new(RouteTable::with_six(16, Some(room)).expect("memory"))
}

fn route(to: &str, len: u8, fate: Option<LearnedFate>) -> LearnedRoute {
    LearnedRoute { to: to.parse().expect("an address"), len, fate }
}

const GROUP: Option<LearnedFate> = Some(LearnedFate::Group(1));

fn group(hops: &[(u8, &str, u8)]) -> LearnedGroup {
    let hop = |(link, via, weight): &(u8, &str, u8)| LearnedHop {
        link: *link,
        via: Some(via.parse().expect("an address")),
        weight: *weight,
    };
    LearnedGroup { number: 1, way: Some(LearnedWay::Hops(hops.iter().map(hop).collect())) }
}

/// Next hops of an address of 10.0.0.0/8.
fn choices(table: &RouteTable, net: u8) -> Vec<NextHop> {
    table.choices(MAIN, [10, net, 0, 1].into(), 0)
}

/// Number of routes of both families.
fn count(table: &RouteTable) -> (usize, usize) {
    let four = table.routes().len();
    (four, table.change_six(MAIN, |six| six.len()).expect("a table"))
}

#[test]
fn a_table_has_what_was_learned_before_it_was_built_and_what_is_learned_later() {
    let learned = Learned::default();
    let routes = vec![
        route("10.1.0.0", 16, GROUP),
        route("2001:db8:1::", 48, GROUP),
        route("10.2.0.0", 16, Some(LearnedFate::Blackhole)),
    ];
    let groups = vec![group(&[(0, "2001:db8::2", 1)])];
    assert_eq!(learned.take(&Lesson { groups, routes, ..Lesson::default() }), 0);
    let table = table();
    learned.adopt(&table, 2);
    assert_eq!(count(&table), (2, 1));
    let routes = vec![route("10.1.0.0", 16, None), route("10.3.0.0", 16, Some(LearnedFate::Local))];
    assert_eq!(learned.take(&Lesson { routes, ..Lesson::default() }), 0);
    assert_eq!(count(&table), (2, 1));
    let gone = route("10.9.0.0", 16, None);
    assert_eq!(learned.take(&Lesson { routes: vec![gone], ..Lesson::default() }), 0, "it was never there");
}

#[test]
fn what_does_not_come_again_is_gone_at_the_end_and_no_earlier() {
    let (learned, table) = (Learned::default(), table());
    learned.adopt(&table, 2);
    let [one, two] = ["10.1.0.0", "10.2.0.0"].map(|to| route(to, 16, Some(LearnedFate::Local)));
    learned.take(&Lesson { routes: vec![one, two], ..Lesson::default() });
    learned.take(&Lesson { begins: true, routes: vec![two], ..Lesson::default() });
    assert_eq!(count(&table).0, 2, "what may come again stays");
    learned.take(&Lesson { ends: true, ..Lesson::default() });
    assert_eq!(count(&table).0, 1);
}

#[test]
fn a_full_table_gets_the_rest_as_soon_as_it_has_room() {
    let (learned, table) = (Learned::default(), Arc::new(RouteTable::new(1).expect("memory")));
    learned.adopt(&table, 1);
    let long = |net: u32| LearnedRoute {
        to: Ipv4Addr::from_bits(0x0a00_0001 | net << 8).into(),
        len: 32,
        fate: Some(LearnedFate::Local),
    };
    let routes = (0..4000).map(long).collect();
    let late = learned.take(&Lesson { routes, ..Lesson::default() });
    assert!(late > 0, "there is room for some /24 networks with longer prefixes");
    assert_eq!(learned.take(&Lesson { begins: true, ends: true, ..Lesson::default() }), 0);
    assert_eq!(table.routes().len(), 0);
}

#[test]
fn what_does_not_fit_is_tried_again_less_and_less_often_until_some_of_it_fits() {
    let mut attempts = Attempts::default();
    let mut tries = |late: usize| -> Vec<usize> {
        let look = |number: usize| {
            let is_due = attempts.is_due();
            if is_due {
                attempts.note(9, late);
            }
            is_due.then_some(number)
        };
        (0..200).filter_map(look).collect()
    };
    assert_eq!(tries(9), [0, 2, 6, 14, 30, 62, 126, 190]);
    assert_eq!(tries(8).len(), 200 - 54, "a long pause is waited for, and is the last one");
    attempts.note(0, 9);
    assert!(attempts.is_due(), "a new shortage may be over at once");
}

#[test]
fn routes_share_a_group_and_follow_its_changes() {
    let (learned, table) = (Learned::default(), table());
    learned.adopt(&table, 2);
    let routes: Vec<LearnedRoute> = (0..200).map(|net| route(&format!("10.{net}.0.0"), 16, GROUP)).collect();
    let [one, two] = [(0, "192.0.2.2", 3), (1, "198.51.100.2", 1)];
    let groups = vec![group(&[one, two])];
    assert_eq!(learned.take(&Lesson { groups, routes, ..Lesson::default() }), 0);
    for net in [0, 199] {
        assert_eq!(choices(&table, net).len(), 2);
    }
    let is_second = |flow: u32| {
        let first = table.choices(MAIN, [10, 0, 0, 1].into(), flow.wrapping_mul(0x9e37_79b9));
        matches!(first.first(), Some(NextHop::Gateway { nic: 1, .. }))
    };
    let second = (0..1000).filter(|flow| is_second(*flow)).count();
    assert!((150..350).contains(&second), "a quarter of the flows goes by the second: {second} of 1000");
    assert_eq!(learned.take(&Lesson { groups: vec![group(&[two])], ..Lesson::default() }), 0);
    for net in [0, 199] {
        assert!(matches!(choices(&table, net)[..], [NextHop::Gateway { nic: 1, .. }, ..]));
    }
    let away = LearnedGroup { number: 1, way: None };
    let routes = (0..200).map(|net| route(&format!("10.{net}.0.0"), 16, None)).collect();
    assert_eq!(learned.take(&Lesson { groups: vec![away], routes, ..Lesson::default() }), 0);
    assert_eq!(count(&table).0, 0);
}

#[test]
fn what_did_not_come_again_yet_keeps_its_group() {
    let (learned, table) = (Learned::default(), table());
    learned.adopt(&table, 2);
    let routes = ["10.1.0.0", "10.2.0.0"].map(|to| route(to, 16, GROUP)).to_vec();
    let groups = vec![group(&[(0, "192.0.2.2", 1)])];
    learned.take(&Lesson { groups, routes: routes.clone(), ..Lesson::default() });
    let groups = vec![group(&[(1, "198.51.100.2", 1)])];
    learned.take(&Lesson { begins: true, groups, routes: routes[..1].to_vec(), ..Lesson::default() });
    let nic = |net| match choices(&table, net)[..] {
        [NextHop::Gateway { nic, .. }, ..] => Some(nic),
        _ => None,
    };
    assert_eq!((nic(1), nic(2)), (Some(1), Some(0)));
    let later = Arc::new(RouteTable::new(16).expect("memory"));
    learned.adopt(&later, 2);
    assert!(matches!(choices(&later, 2)[..], [NextHop::Gateway { nic: 0, .. }, ..]));
    learned.take(&Lesson { ends: true, ..Lesson::default() });
    assert_eq!((nic(1), nic(2)), (Some(1), None));
}

#[test]
fn gateways_that_do_not_answer_stay_until_others_are_told() {
    let (learning, down) = (Learning::default(), LearnedGateway { link: 1, ip: [192, 0, 2, 2].into() });
    let learned = learning.of("edge");
    learned.take(&Lesson { down: Some(vec![down]), ..Lesson::default() });
    learned.take(&Lesson::default());
    assert_eq!(*learning.silent("edge"), BTreeSet::from([(1, down.ip)]));
    assert!(learning.silent("core").is_empty());
    learned.take(&Lesson { down: Some(Vec::new()), ..Lesson::default() });
    assert!(learning.silent("edge").is_empty());
}

#[test]
fn addresses_have_a_version() {
    let learned = Learned::default();
    let before = learned.version();
    learned.take(&Lesson::default());
    assert_eq!(learned.version(), before);
    let addresses = ["10.0.0.2", "10.0.0.1"].map(|ip| ip.parse().expect("an address")).to_vec();
    learned.take(&Lesson { addresses: Some(addresses), ..Lesson::default() });
    assert_ne!(learned.version(), before);
    assert!(learned.addresses().is_sorted());
}

#[test]
fn a_look_does_not_wait_for_a_table_that_is_being_filled() {
    let learning = Learning::default();
    let learned = learning.of("edge");
    let filling = learned.routes();
    let (tell, told) = mpsc::channel();
    let looks = learning.clone();
    let looking = thread::spawn(move || {
        looks.look_after();
        // The receiver may have timed out.
        let _ = tell.send(());
    });
    let looked = told.recv_timeout(Duration::from_secs(60));
    drop(filling);
    looking.join().expect("no panic");
    assert_eq!(looked, Ok(()));
}
