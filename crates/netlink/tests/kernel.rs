//! Tests against a real kernel, in a network namespace of the test's own thread.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use netlink::{
    Change, Kept, Kind, MacvtapMode, Mirror, Neighbour, Netlink, News, NextHop, Object, Prefix, Route,
    RouteId, RouteKind, Settings, State, Table,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs a test in a namespace of its own, which ends with it; skips it with a message if none can be created.
fn in_namespace(test: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let body = || {
            // SAFETY: a new network namespace affects neither memory nor descriptors, and only this thread.
            match unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
                Ok(()) => test(),
                Err(errno) => eprintln!("SKIPPED: no network namespace can be made ({errno})"),
            }
        };
        scope.spawn(body).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

fn prefix(text: &str) -> Prefix {
    let (ip, len) = text.split_once('/').expect("a length");
    Prefix::new(ip.parse::<IpAddr>().expect("an address"), len.parse().expect("a number")).expect("a prefix")
}

fn at(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Runs ip(8). Returns true if it exists and succeeds.
fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success())
}

const MACVTAP: &str = "t0";

/// Creates a macvtap on one end of a veth pair, which stands for any interface. Returns its index.
fn with_interface(kernel: &Netlink) -> Option<u32> {
    if !ip("link add near type veth peer name far") {
        eprintln!("SKIPPED: needs iproute2, and a kernel that has veth pairs");
        return None;
    }
    for end in ["near", "far"] {
        kernel.set_link(end, &Settings::default().up(true)).expect("up");
    }
    let lower = kernel.link("near").expect("made").index;
    let kind = Kind::Macvtap { lower, mode: MacvtapMode::Bridge };
    let settings = Settings::default().name(MACVTAP).mac([2, 0, 0, 0, 0, 9]).mtu(1400).group(77);
    match kernel.make_link(kind, &settings) {
        Ok(()) => {
            let made = kernel.link(MACVTAP).expect("made").index;
            kernel.set_link(made, &Settings::default().up(true)).expect("up");
            Some(made)
        }
        Err(e) => {
            eprintln!("SKIPPED: this kernel makes no macvtap ({e})");
            None
        }
    }
}

fn errno<T>(outcome: std::io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|e| e.raw_os_error())
}

#[test]
fn interfaces_are_made_shown_changed_and_deleted() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let Some(index) = with_interface(&kernel) else { return };
        let link = kernel.link(MACVTAP).expect("shown");
        assert_eq!((link.index, link.mtu, link.group), (index, 1400, 77));
        assert_eq!((link.mac, link.up, link.master), (Some([2, 0, 0, 0, 0, 9]), true, None));
        let changes =
            Settings::default().name("t1").mtu(1300).mac([2, 0, 0, 0, 0, 8]).up(false).alias("ours");
        kernel.set_link(index, &changes).expect("changed");
        let link = kernel.link("t1").expect("shown");
        assert_eq!((link.index, link.mtu, link.up, link.mac), (index, 1300, false, Some([2, 0, 0, 0, 0, 8])));
        for alias in ["x".repeat(255), String::new()] {
            kernel.set_link(index, &Settings::default().alias(&alias)).expect("changed");
            assert_eq!(kernel.link(index).expect("shown").alias, alias);
        }
        assert_eq!(errno(kernel.link(MACVTAP)), Some(libc::ENODEV));
        assert_eq!(errno(kernel.set_link("nothing", &changes)), Some(libc::ENODEV));
        kernel.delete_link("t1").expect("deleted");
        assert_eq!(errno(kernel.link(index)), Some(libc::ENODEV));
        assert_eq!(errno(kernel.delete_link("t1")), Some(libc::ENODEV));
        let names: Vec<String> =
            kernel.all().expect("a dump").into_iter().map(|link: netlink::Link| link.name).collect();
        assert!(names.contains(&"lo".to_owned()), "{names:?}");
    });
}

#[test]
fn addresses_routes_and_neighbours_go_in_and_out() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let Some(index) = with_interface(&kernel) else { return };
        let net = prefix("192.0.2.1/24");
        kernel.add_address(index, net).expect("an address");
        assert_eq!(errno(kernel.add_address(index, net)), Some(libc::EEXIST));
        let addresses: Vec<netlink::Address> = kernel.all().expect("a dump");
        assert!(
            addresses.iter().any(|address| (address.index, address.prefix) == (index, net)),
            "{addresses:?}"
        );

        kernel.add_route(prefix("10.0.0.0/8"), at("192.0.2.254")).expect("a route");
        assert_eq!(errno(kernel.add_route(prefix("11.0.0.0/8"), at("203.0.113.1"))), Some(libc::ENETUNREACH));
        let id = RouteId { table: 254, to: prefix("10.0.0.0/8"), tos: 0, metric: 0 };
        let next_hops = vec![NextHop { via: Some(at("192.0.2.254")), index, weight: 1 }];
        let route = Route { id, kind: RouteKind::Unicast, next_hops, group: None, protocol: 3 };
        assert!(kernel.all().expect("a dump").contains(&route));

        kernel.add_neighbour(index, at("192.0.2.254"), [2, 0, 0, 0, 0, 1]).expect("a neighbour");
        kernel.add_neighbour(index, at("192.0.2.254"), [2, 0, 0, 0, 0, 2]).expect("changed");
        let state = State::Permanent;
        let neighbour = Neighbour { index, ip: at("192.0.2.254"), mac: Some([2, 0, 0, 0, 0, 2]), state };
        assert!(kernel.all().expect("a dump").contains(&neighbour));

        kernel.delete_neighbour(index, at("192.0.2.254")).expect("forgotten");
        kernel.remove_route(&route).expect("no route");
        assert_eq!(errno(kernel.remove_route(&route)), Some(libc::ESRCH));
        kernel.delete_address(index, net).expect("no address");
        assert!(!kernel.all().expect("a dump").contains(&neighbour));
        let rules: Vec<netlink::Rule> = kernel.all().expect("a dump");
        assert!(rules.iter().any(|rule| rule.table == Some(254) && !rule.other), "{rules:?}");
    });
}

#[test]
fn the_rule_of_a_table_is_moved() {
    const LOCAL: u32 = 255;
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let places = || {
            let rules: Vec<netlink::Rule> = kernel.all().expect("a dump");
            let local = rules.iter().filter(|rule| rule.from.ip.is_ipv4() && rule.table == Some(LOCAL));
            local.map(|rule| rule.priority).collect::<Vec<_>>()
        };
        if places().is_empty() {
            return eprintln!("SKIPPED: this kernel has no rules");
        }
        assert_eq!(places(), [0]);
        kernel.add_table_rule(true, 32765, LOCAL).expect("a second rule");
        assert_eq!(errno(kernel.add_table_rule(true, 32765, LOCAL)), Some(libc::EEXIST));
        kernel.delete_table_rule(true, 0, LOCAL).expect("the first rule");
        assert_eq!(places(), [32765]);
        assert_eq!(errno(kernel.delete_table_rule(true, 0, LOCAL)), Some(libc::ENOENT));
        kernel.add_table_rule(true, 0, LOCAL).expect("the first rule");
        kernel.delete_table_rule(true, 32765, LOCAL).expect("the second rule");
        assert_eq!(places(), [0]);
    });
}

#[test]
fn a_look_up_returns_the_route_with_the_longest_prefix() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let Some(index) = with_interface(&kernel) else { return };
        kernel.add_address(index, prefix("192.0.2.1/24")).expect("an address");
        let route = |to: &str, kind, next_hops| {
            let id = RouteId { table: 254, to: prefix(to), tos: 0, metric: 0 };
            Route { id, kind, next_hops, group: None, protocol: 114 }
        };
        let hop = |via: &str| vec![NextHop { via: Some(at(via)), index, weight: 1 }];
        let wide = route("10.0.0.0/8", RouteKind::Unicast, hop("192.0.2.253"));
        let narrow = route("10.1.0.0/16", RouteKind::Unicast, hop("192.0.2.254"));
        let none = route("10.1.2.0/24", RouteKind::Prohibit, Vec::new());
        for route in [&wide, &narrow, &none] {
            kernel.insert_route(route).expect("inserted");
        }
        assert_eq!(kernel.route_to(at("10.2.0.1")).expect("a route"), wide);
        assert_eq!(kernel.route_to(at("10.1.3.1")).expect("a route"), narrow);
        assert_eq!(errno(kernel.route_to(at("10.1.2.3"))), Some(libc::EACCES));
        assert_eq!(errno(kernel.route_to(at("11.0.0.1"))), Some(libc::ENETUNREACH));
    });
}

#[test]
fn routes_with_several_next_hops_go_in_and_out() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let Some(index) = with_interface(&kernel) else { return };
        kernel.add_address(index, prefix("192.0.2.1/24")).expect("an address");
        let hop = |via: &str, weight| NextHop { via: Some(at(via)), index, weight };
        let route = |to: &str, metric, next_hops| {
            let id = RouteId { table: 254, to: prefix(to), tos: 0, metric };
            Route { id, kind: RouteKind::Unicast, next_hops, group: None, protocol: 114 }
        };
        let mut all = vec![
            route("10.0.0.0/8", 0, vec![hop("192.0.2.253", 1), hop("192.0.2.254", 256)]),
            route("10.0.0.0/8", 7, vec![hop("192.0.2.252", 2), hop("192.0.2.253", 2), hop("192.0.2.254", 3)]),
        ];
        match kernel.add_address(index, prefix("2001:db8::1/64")) {
            Ok(()) => {
                all.push(route("2001:db8:1::/48", 1024, vec![hop("2001:db8::2", 1), hop("2001:db8::3", 4)]))
            }
            Err(e) => eprintln!("this namespace has no IPv6 ({e}): IPv4 alone is tested"),
        }
        // The order of next hops means nothing.
        let shown = || -> Vec<Route> {
            let mut shown: Vec<Route> =
                kernel.all_kept(|route: &Route| route.protocol == 114).expect("a dump");
            shown.iter_mut().for_each(|route| route.next_hops.sort());
            shown
        };
        for route in &all {
            kernel.insert_route(route).expect("inserted");
            assert!(shown().contains(route), "{route:?} is not among {:?}", shown());
            assert_eq!(errno(kernel.insert_route(route)), Some(libc::EEXIST));
        }
        let others = vec![hop("192.0.2.251", 1), hop("192.0.2.254", 256)];
        let other = Route { next_hops: others, ..all[0].clone() };
        assert_eq!(errno(kernel.remove_route(&other)), Some(libc::ESRCH), "it has other next hops");
        for route in &all {
            kernel.remove_route(route).expect("removed");
            assert!(!shown().contains(route), "{route:?}");
        }
    });
}

/// Updates the mirror until a condition holds.
fn until(mirror: &mut Mirror, what: &str, holds: impl Fn(&Mirror) -> bool) -> Vec<News> {
    let end = Instant::now() + Duration::from_secs(60);
    let mut news = Vec::new();
    while !holds(mirror) {
        assert!(Instant::now() < end, "{what} is not seen: {news:?}");
        news.extend(mirror.update().expect("an update"));
        thread::yield_now();
    }
    news
}

/// Differences between mirror and kernel, in words.
fn differences<T: Object + std::fmt::Debug>(mirror: &Mirror, table: &Table<T>) -> Vec<String> {
    let theirs: Vec<T> = mirror.kernel().all().expect("a dump");
    let lacks = theirs.iter().filter(|row| !table.of(&row.key().0).any(|own| own == *row));
    let has = table.iter().filter(|own| !theirs.contains(own));
    lacks.map(|row| format!("lacks {row:?}")).chain(has.map(|own| format!("has {own:?}"))).collect()
}

fn same_as_the_kernel(mirror: &Mirror) -> bool {
    let all = [
        differences(mirror, mirror.links()),
        differences(mirror, mirror.addresses()),
        differences(mirror, mirror.routes()),
        differences(mirror, mirror.rules()),
    ];
    all.iter().all(Vec::is_empty)
}

#[test]
fn a_mirror_follows_and_learns_what_goes_without_a_word() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let mut mirror = Mirror::open().expect("a mirror");
        let Some(index) = with_interface(&kernel) else { return };
        kernel.add_address(index, prefix("192.0.2.1/24")).expect("an address");
        kernel.add_route(prefix("10.0.0.0/8"), at("192.0.2.254")).expect("a route");
        let id = RouteId { table: 254, to: prefix("10.0.0.0/8"), tos: 0, metric: 0 };
        let news = until(&mut mirror, "the route", |mirror| mirror.routes().of(&id).next().is_some());
        assert!(
            news.iter().any(|news| matches!(news, News::Link(Change::Set(link)) if link.name == MACVTAP))
        );
        // The kernel reports the interface, but not the routes that disappear with it.
        kernel.set_link(index, &Settings::default().up(false)).expect("down");
        let news =
            until(&mut mirror, "the end of the route", |mirror| mirror.routes().of(&id).next().is_none());
        assert!(news.iter().any(|news| matches!(news, News::Route(Change::Gone(route)) if route.id == id)));
        until(&mut mirror, "the kernel's state", same_as_the_kernel);
        kernel.delete_link(index).expect("deleted");
        until(&mut mirror, "the end of the interface", |mirror| mirror.links().of(&index).next().is_none());
        until(&mut mirror, "the kernel's state", same_as_the_kernel);
    });
}

#[test]
fn after_an_overrun_a_mirror_has_all_again() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let mut mirror = Mirror::open().expect("a mirror");
        let Some(index) = with_interface(&kernel) else { return };
        kernel.add_address(index, prefix("192.0.2.1/24")).expect("an address");
        // More notifications than fit into an unread socket.
        const ROUTES: u32 = 4096;
        let to = |n: u32| Prefix::new(Ipv4Addr::from(0x0a00_0000 + (n << 8)), 24).expect("a prefix");
        for n in 0..ROUTES {
            kernel.add_route(to(n), at("192.0.2.254")).expect("a route");
        }
        let main = |mirror: &Mirror| mirror.routes().iter().filter(|route| route.protocol == 3).count();
        let news = until(&mut mirror, "all routes", |mirror| main(mirror) == ROUTES as usize);
        let told = news.iter().filter(|news| matches!(news, News::Route(Change::Set(_)))).count();
        assert!(told >= ROUTES as usize, "{told}");
        let added: Vec<Route> = mirror.routes().iter().filter(|route| route.protocol == 3).cloned().collect();
        added.iter().for_each(|route| kernel.remove_route(route).expect("no route"));
        until(&mut mirror, "no routes", |mirror| main(mirror) == 0);
        until(&mut mirror, "the kernel's state", same_as_the_kernel);
    });
}

/// The kernel discards notifications until a socket that has overrun is empty. This one has room for more than a mirror handles in
/// one update, as it also is if it overruns during an update.
#[test]
fn what_changes_right_after_an_overrun_is_not_missed() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let mut mirror = Mirror::open().expect("a mirror");
        let Some(index) = with_interface(&kernel) else { return };
        kernel.add_address(index, prefix("192.0.2.1/24")).expect("an address");
        rustix::net::sockopt::set_socket_recv_buffer_size(mirror.descriptor(), 1 << 20).expect("room");
        const ROUTES: u32 = 4096;
        let to = |n: u32| Prefix::new(Ipv4Addr::from(0x0a00_0000 + (n << 8)), 24).expect("a prefix");
        for n in 0..ROUTES {
            kernel.add_route(to(n), at("192.0.2.254")).expect("a route");
        }
        let mut updates = 0;
        let main = |mirror: &Mirror| mirror.routes().iter().filter(|route| route.protocol == 3).count();
        while main(&mirror) < ROUTES as usize {
            assert!(updates < ROUTES, "{} of {ROUTES}", main(&mirror));
            mirror.update().expect("an update");
            kernel.add_route(to(ROUTES + updates), at("192.0.2.254")).expect("a route");
            updates += 1;
        }
        until(&mut mirror, "all routes", |mirror| main(mirror) == (ROUTES + updates) as usize);
        until(&mut mirror, "the kernel's state", same_as_the_kernel);
    });
}

#[test]
fn a_mirror_of_neighbours_alone_has_no_other_tables() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let Some(index) = with_interface(&kernel) else { return };
        let (ip, mac) = (at("192.0.2.2"), [2, 0, 0, 0, 0, 2]);
        let mut mirror = Mirror::open_with(Kept::neighbours()).expect("a mirror");
        kernel.add_address(index, prefix("192.0.2.1/24")).expect("an address");
        kernel.add_neighbour(index, ip, mac).expect("a neighbour");
        let neighbour = Neighbour { index, ip, mac: Some(mac), state: State::Permanent };
        let has_it = |mirror: &Mirror| mirror.neighbours().iter().any(|known| *known == neighbour);
        let news = until(&mut mirror, "the neighbour", has_it);
        assert!(news.iter().all(|news| matches!(news, News::Neighbour(_))), "{news:?}");
        kernel.delete_neighbour(index, ip).expect("forgotten");
        until(&mut mirror, "no such neighbour", |mirror| !has_it(mirror));
        assert!(mirror.links().is_empty() && mirror.addresses().is_empty() && mirror.routes().is_empty());
    });
}

#[test]
fn neighbours_that_are_not_kept_are_not_reported() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let Some(index) = with_interface(&kernel) else { return };
        let neighbour = |number: u8| {
            let ip = Ipv4Addr::new(192, 0, 2, number).into();
            kernel.add_neighbour(index, ip, [2, 0, 0, 0, 0, number]).expect("a neighbour");
        };
        kernel.add_address(index, prefix("192.0.2.1/24")).expect("an address");
        neighbour(2);
        let mut mirror = Mirror::open_with(Kept { neighbours: false, ..Kept::default() }).expect("a mirror");
        neighbour(3);
        let last = prefix("192.0.2.9/24");
        kernel.add_address(index, last).expect("an address");
        let is_there = |mirror: &Mirror| mirror.addresses().iter().any(|own| own.prefix == last);
        let news = until(&mut mirror, "the address", is_there);
        assert!(!news.iter().any(|news| matches!(news, News::Neighbour(_))), "{news:?}");
        assert!(mirror.neighbours().is_empty());
    });
}

#[test]
fn next_hops_of_ipv6_go_one_by_one() {
    in_namespace(|| {
        let kernel = Netlink::open().expect("a socket");
        let mut mirror = Mirror::open().expect("a mirror");
        let Some(index) = with_interface(&kernel) else { return };
        if let Err(e) = kernel.add_address(index, prefix("2001:db8::1/64")) {
            return eprintln!("SKIPPED: this namespace has no IPv6 ({e})");
        }
        let run = |arguments: &str| assert!(ip(arguments), "ip {arguments}");
        run("route add 2001:db8:1::/48 nexthop via 2001:db8::2 nexthop via 2001:db8::3 weight 2");
        let id = RouteId { table: 254, to: prefix("2001:db8:1::/48"), tos: 0, metric: 1024 };
        let hops =
            |mirror: &Mirror| mirror.routes().of(&id).map(|route| route.next_hops.len()).sum::<usize>();
        until(&mut mirror, "two next hops", |mirror| hops(mirror) == 2);
        run("route del 2001:db8:1::/48 via 2001:db8::2");
        until(&mut mirror, "one next hop", |mirror| hops(mirror) == 1);
        let route = mirror.routes().of(&id).next().expect("the route").clone();
        let via = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3));
        assert_eq!(route.next_hops[0].via, Some(via));
        run("route replace 2001:db8:1::/48 via 2001:db8::4");
        until(&mut mirror, "the kernel's state", same_as_the_kernel);
        assert_eq!(hops(&mirror), 1);
    });
}
