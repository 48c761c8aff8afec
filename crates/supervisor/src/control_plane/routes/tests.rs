use std::time::{Duration, Instant};

use config::learned::{LearnedFate, LearnedGroup, LearnedHop, LearnedMac, LearnedRoute, LearnedWay};
use fpm::Key;
use netlink::Prefix;
use support::needs;

use super::super::taught::MOST;
use super::*;

fn routes() -> Routes {
    Routes {
        session: Session::new(false),
        ports: Ports::new([("wan".to_owned(), Port { nic: 3, vlan: 0 })]),
        nics: vec![0, 1, 2, 3],
        translator: Translator::default(),
        table: Taught::default(),
        followed: BTreeMap::new(),
        down: BTreeSet::new(),
        silent: BTreeSet::new(),
        is_changed: false,
        addresses: Vec::new(),
        macs: Vec::new(),
        neighbours: Vec::new(),
        telling: Telling::default(),
        counts: Counts::default(),
    }
}

fn link(running: bool) -> Link {
    Link {
        index: 7,
        name: "wan".to_owned(),
        mtu: 1500,
        up: true,
        running,
        queue_len: 1000,
        ..Link::default()
    }
}

fn prefix(number: u16) -> Prefix {
    let [high, low] = number.to_be_bytes();
    Prefix::new([10, high, low, 0], 24).expect("a prefix")
}

fn route(to: Prefix, index: u32) -> Route {
    let id = RouteId { table: MAIN, to, tos: 0, metric: 0 };
    let next_hops = vec![NextHop { via: None, index, weight: 1 }];
    Route { id, kind: RouteKind::Unicast, next_hops, group: None, protocol: 4 }
}

#[test]
fn a_new_data_plane_is_told_everything_and_then_what_changes() {
    let mut routes = routes();
    routes.ports.take(&Change::Set(link(true)));
    let many = u16::try_from(MOST + 1).expect("a small number");
    (0..many).for_each(|number| routes.take_route(&route(prefix(number), 7)));
    routes.flush();
    assert_eq!(routes.lesson(), None, "no data plane is there");
    routes.tell_anew();
    let first = routes.lesson().expect("the first lesson");
    assert_eq!((first.begins, first.ends, first.routes.len()), (true, false, MOST));
    assert_eq!((first.addresses, first.macs), (Some(Vec::new()), Some(Vec::new())));
    let hop = LearnedHop { link: 3, via: None, weight: 1 };
    let shared = LearnedGroup { number: 1, way: Some(LearnedWay::Hops(vec![hop])) };
    assert_eq!(first.groups, [shared], "all routes share it");
    let one = LearnedRoute { to: prefix(0).ip, len: 24, fate: Some(LearnedFate::Group(1)) };
    assert_eq!(first.routes.first(), Some(&one));
    let last = routes.lesson().expect("the rest");
    assert_eq!((last.begins, last.ends, last.routes.len()), (false, true, 1));
    assert_eq!(routes.lesson(), None);
    routes.forget(&route(prefix(0), 7));
    routes.flush();
    let change = Lesson { routes: vec![LearnedRoute { fate: None, ..one }], ..Lesson::default() };
    assert_eq!(routes.lesson(), Some(change));
}

/// What a lesson says of the network with this number: `None` if nothing, `Some(None)` that there is no route any more.
fn told(lesson: &Lesson, number: u16) -> Option<Option<LearnedFate>> {
    let is_it = |route: &&LearnedRoute| (route.to, route.len) == (prefix(number).ip, 24);
    lesson.routes.iter().find(is_it).map(|route| route.fate)
}

#[test]
fn a_route_that_is_gone_when_all_are_taken_is_withdrawn_and_a_new_one_is_told() {
    let mut routes = routes();
    routes.ports.take(&Change::Set(link(true)));
    (0..2).for_each(|number| routes.take_route(&route(prefix(number), 7)));
    routes.flush();
    routes.tell_anew();
    let first = routes.lesson().expect("everything");
    let fate = Some(LearnedFate::Group(1));
    assert_eq!([0, 1, 2].map(|number| told(&first, number)), [Some(fate), Some(fate), None]);
    // Route 0 went and route 2 came, of which nobody has told.
    let now = [1, 2].map(|number| route(prefix(number), 7));
    routes.take_all_routes(&now.iter().collect::<Vec<_>>());
    routes.flush();
    let second = routes.lesson().expect("the changes");
    assert_eq!([0, 2].map(|number| told(&second, number)), [Some(None), Some(fate)]);
    assert!(told(&second, 1).is_none_or(|told| told == fate), "it stays");
    assert_eq!(routes.followed.len(), 2);
    routes.take_all_routes(&now.iter().collect::<Vec<_>>());
    routes.flush();
    assert_eq!(routes.lesson(), None, "nothing has changed");
}

/// A mirror of a namespace, once its link has a carrier.
fn mirror_of(inside: &netns::Namespace) -> Mirror {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let mirror = inside.mirror().expect("a mirror");
        if mirror.links().iter().any(|link| link.name == "wan" && link.running) {
            return mirror;
        }
        assert!(Instant::now() < end, "its link gets no carrier");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The namespace of a router, of which the kernel's changes are not told one by one.
#[test]
fn after_an_overrun_what_was_missed_is_found_in_the_namespace() {
    needs!(Root, Program("ip"));
    let namespace = support::Namespace::add("overrun").expect("a namespace");
    namespace.ip(&["link", "add", "wan", "type", "veth", "peer", "name", "wan-peer"]).expect("a link");
    namespace.ip(&["address", "add", "192.0.2.1/24", "dev", "wan"]).expect("an address");
    for end in ["wan", "wan-peer"] {
        namespace.ip(&["link", "set", end, "up"]).expect("up");
    }
    let change = |what: &str, to: &str| {
        namespace.ip(&["route", what, to, "via", "192.0.2.2", "dev", "wan"]).expect("a route");
    };
    change("add", "10.0.0.0/24");
    change("add", "10.0.1.0/24");
    let text = "[[router]]\nname = \"edge\"\ncontrol = {}\n\
                [[router.nic]]\nname = \"wan\"\nattach = \"null\"\naddress = \"192.0.2.1/24\"\n";
    let router = config::parse(text, "f.toml").expect("a good file").routers.remove(0);
    let inside = netns::Namespace::open_named(namespace.name()).expect("a namespace");
    let mut routes = Routes::new(&router, &mirror_of(&inside), Counts::default());
    routes.flush();
    routes.tell_anew();
    let first = routes.lesson().expect("everything");
    let is_told = |lesson: &Lesson, number: u16| told(lesson, number).map(|fate| fate.is_some());
    assert_eq!([0, 1, 2].map(|number| is_told(&first, number)), [Some(true), Some(true), None]);
    change("delete", "10.0.0.0/24");
    change("add", "10.0.2.0/24");
    // A mirror that has dumped the tables, as one does after an overrun.
    routes.resynchronize(&mirror_of(&inside));
    routes.flush();
    let second = routes.lesson().expect("the changes");
    assert_eq!([0, 2].map(|number| is_told(&second, number)), [Some(false), Some(true)]);
    assert!(is_told(&second, 1).is_none_or(|is_there| is_there), "it stays");
}

#[test]
fn a_few_lessons_are_under_way_at_a_time() {
    let mut routes = routes();
    routes.ports.take(&Change::Set(link(true)));
    routes.tell_anew();
    let mut sent = 0;
    for number in 0..9 {
        routes.take_route(&route(prefix(number), 7));
        routes.flush();
        sent += usize::from(routes.lesson().is_some());
    }
    assert_eq!(sent, MOST_LESSONS);
    routes.has_learned();
    assert_eq!(routes.lesson().map(|lesson| lesson.routes.len()), Some(9 - MOST_LESSONS));
}

#[test]
fn a_verdict_is_told_alone_before_the_change_of_the_group_that_follows() {
    let mut routes = routes();
    routes.ports.take(&Change::Set(link(true)));
    let (via, to) = (IpAddr::from([192, 0, 2, 2]), prefix(0));
    let hop = |via| NextHop { via: Some(via), index: 7, weight: 1 };
    let next_hops = vec![hop(via), hop(IpAddr::from([192, 0, 2, 3]))];
    routes.take_route(&Route { next_hops, ..route(to, 7) });
    routes.flush();
    routes.tell_anew();
    let first = routes.lesson().expect("everything");
    assert_eq!((first.begins, first.down), (true, Some(Vec::new())));
    routes.judge_at([7], via, false);
    routes.flush();
    let down = Some(vec![LearnedGateway { link: 3, ip: via }]);
    assert_eq!(routes.lesson(), Some(Lesson { down, ..Lesson::default() }));
    let group = routes.lesson().expect("the group").groups.remove(0);
    let left = LearnedHop { link: 3, via: Some(IpAddr::from([192, 0, 2, 3])), weight: 1 };
    assert_eq!(group.way, Some(LearnedWay::Hops(vec![left])));
    routes.forget_verdicts();
    routes.flush();
    assert_eq!(routes.lesson().map(|lesson| lesson.down), Some(Some(Vec::new())));
    assert_eq!(routes.lesson().map(|lesson| lesson.groups.len()), None, "four lessons are under way");
}

#[test]
fn a_verdict_that_was_not_told_yet_is_told_though_ports_change_meanwhile() {
    let mut routes = routes();
    routes.ports.take(&Change::Set(link(true)));
    routes.tell_anew();
    let via = IpAddr::from([192, 0, 2, 2]);
    routes.judge_at([7], via, false);
    let at = |link| Some(vec![LearnedGateway { link, ip: via }]);
    assert_eq!(routes.lesson().and_then(|lesson| lesson.down), at(3));
    routes.judge_at([7], via, true);
    routes.ports_have_changed();
    assert_eq!(routes.lesson().and_then(|lesson| lesson.down), Some(Vec::new()), "it answers again");
    routes.judge_at([7], via, false);
    assert_eq!(routes.lesson().and_then(|lesson| lesson.down), at(3));
    routes.ports = Ports::new([("wan".to_owned(), Port { nic: 1, vlan: 0 })]);
    routes.ports.take(&Change::Set(link(true)));
    routes.ports_have_changed();
    assert_eq!(routes.lesson().and_then(|lesson| lesson.down), at(1), "its link has another number");
}

#[test]
fn without_carrier_a_route_makes_way_for_others() {
    let mut routes = routes();
    routes.ports.take(&Change::Set(link(true)));
    let connected = route(prefix(0), 7);
    routes.take_route(&connected);
    assert!(routes.note_carrier(&link(false), true));
    assert!(!routes.note_carrier(&link(false), true), "it is known");
    routes.take_route(&connected);
    routes.flush();
    assert!(routes.session.rib().get(Key { table: MAIN, to: prefix(0) }).is_none());
    assert!(routes.note_carrier(&link(true), true));
    routes.take_route(&connected);
    routes.flush();
    assert!(routes.session.rib().get(Key { table: MAIN, to: prefix(0) }).is_some());
}

#[test]
fn routes_of_links_and_of_the_host_itself_are_its_own() {
    let six =
        |text: &str, len| Prefix::new(text.parse::<IpAddr>().expect("an address"), len).expect("a prefix");
    assert!(is_followed(&route(prefix(0), 7)));
    assert!(!is_followed(&route(six("fe80::", 64), 7)));
    assert!(!is_followed(&route(six("ff00::", 8), 7)));
    assert!(!is_followed(&route(six("2001:db8::1", 128), LOOPBACK)));
    let refused = Route { kind: RouteKind::Unreachable, ..route(six("2001:db8::", 32), LOOPBACK) };
    assert!(is_followed(&refused));
    let mut other = route(prefix(0), 7);
    other.id.table = 255;
    assert!(!is_followed(&other));
}

/// Interface of the virtual router 5 on that of NIC 3.
fn virtual_link(running: bool, proto_down: bool) -> Link {
    let mac = Some([0, 0, 0x5e, 0, 1, 5]);
    let name = "vrrp4-7-5".to_owned();
    Link { index: 8, name, mac, lower: Some(7), is_macvlan: true, proto_down, ..link(running) }
}

#[test]
fn the_address_of_a_virtual_router_is_that_of_its_master() {
    let mut routes = routes();
    routes.ports.take(&Change::Set(link(true)));
    let master = virtual_link(true, false);
    let held = (3, [0, 0, 0x5e, 0, 1, 5]);
    assert_eq!(routes.virtual_mac(&master), Some(held));
    assert_eq!(routes.virtual_mac(&virtual_link(false, true)), None, "another one is the master");
    assert_eq!(routes.virtual_mac(&virtual_link(true, true)), None, "its cable alone makes it none");
    assert_eq!(routes.virtual_mac(&Link { mac: Some([2, 0, 0, 0, 1, 5]), ..master.clone() }), None);
    assert_eq!(routes.virtual_mac(&Link { lower: Some(9), ..master }), None, "it is at no NIC");
    let wrong = [[0, 0, 0x5e, 0, 3, 5], [0, 0, 0x5e, 1, 1, 5]];
    assert!(wrong.iter().all(|mac| !is_virtual(&Link { mac: Some(*mac), ..virtual_link(true, false) })));
    assert!(!is_virtual(&Link { lower: None, ..virtual_link(true, false) }), "it is an interface itself");
    routes.tell_anew();
    routes.lesson().expect("everything");
    let ips = [1, 2].map(|host| IpAddr::from([192, 0, 2, host]));
    let told = learned_macs([(held, ips[1]), (held, ips[0]), (held, ips[1])].into_iter());
    assert_eq!(told, [LearnedMac { nic: 3, mac: held.1, ips: ips.to_vec() }]);
    (routes.macs, routes.telling.macs) = (told.clone(), true);
    assert_eq!(routes.lesson(), Some(Lesson { macs: Some(told), ..Lesson::default() }));
    assert_eq!(routes.lesson(), None);
}

#[test]
fn static_neighbours_are_told_once_and_to_a_new_data_plane_again() {
    let mut routes = routes();
    routes.tell_anew();
    assert_eq!(routes.lesson().and_then(|lesson| lesson.neighbours), Some(Vec::new()));
    let told = vec![LearnedNeighbour { link: 3, ip: prefix(0).ip, mac: [2, 0, 0, 0, 0, 9] }];
    (routes.neighbours, routes.telling.neighbours) = (told.clone(), true);
    let change = Lesson { neighbours: Some(told.clone()), ..Lesson::default() };
    assert_eq!(routes.lesson(), Some(change));
    assert_eq!(routes.lesson(), None);
    routes.tell_anew();
    assert_eq!(routes.lesson().and_then(|lesson| lesson.neighbours), Some(told));
}

#[test]
fn a_vlan_that_moves_to_another_nic_is_another_link() {
    let router = |nic: &str| {
        let text = format!(
            "[[router]]\nname = \"edge\"\ncontrol = {{}}\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n\
             [[router.nic]]\nname = \"lan\"\nattach = \"null\"\n\
             [[router.interface]]\nname = \"guests\"\nnic = \"{nic}\"\nvlan = 7\n"
        );
        config::parse(&text, "f.toml").expect("a good file").routers.remove(0)
    };
    assert_eq!(links(&router("wan")), [("wan", 0), ("lan", 1), ("guests", 0)]);
    assert_ne!(links(&router("wan")), links(&router("lan")));
}
