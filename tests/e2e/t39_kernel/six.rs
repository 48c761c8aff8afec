//! Objective: a kernel router forwards IPv6 beside IPv4. Its IPv6 addresses, routes and neighbours, and routes of a type, change
//! while it forwards. An IPv4 route has an IPv6 gateway. A filter of IPv6 sources, which the kernel does not have, is refused in one
//! line. Hosts behind it configure themselves by its router advertisements, and look for another router when it sends none or does not
//! forward any more.

use std::path::Path;

use super::*;

/// Address of the host in the east.
const EAST: &str = "2001:db8:2::2";

/// A router between two hosts: one gets its end of a pair by `netns`, and the test moves the other's.
fn file() -> String {
    // The name that `Namespace::add` gives it.
    let west = format!("t39-west-{}", std::process::id());
    format!(
        "[[router]]\nname = \"t39\"\nengine = \"kernel\"\n\
         [[router.nic]]\nname = \"west\"\nattach = \"veth:t39w\"\nnetns = \"{west}\"\n\
         address = [\"192.0.2.1/24\", \"2001:db8:1::1/64\"]\n\
         [[router.nic]]\nname = \"east\"\nattach = \"veth:t39e\"\n\
         address = [\"198.51.100.1/24\", \"2001:db8:2::1/64\"]\n"
    )
}

/// A host that asks for no router, and uses its own addresses at once.
fn host(name: &str) -> Namespace {
    let host = Namespace::add(name).expect("a namespace");
    for key in ["accept_ra", "accept_dad"] {
        for which in ["all", "default"] {
            host.set(&format!("net.ipv6.conf.{which}.{key}"), "0").expect("set");
        }
    }
    host
}

/// Gives a host's end of a pair addresses and default routes.
fn settle(host: &Namespace, link: &str, (four, six): (&str, &str)) {
    host.ip(&["link", "set", link, "up"]).expect("up");
    for (family, flag, own, gateway) in [
        ("ipv4", "-4", format!("{four}.2/24"), format!("{four}.1")),
        ("ipv6", "-6", format!("{six}::2/64"), format!("{six}::1")),
    ] {
        host.ip(&["address", "add", &own, "dev", link]).expect("an address");
        // Repeat requests for the router's Ethernet address until there is an answer, not only three times.
        host.set(&format!("net.{family}.neigh.{link}.mcast_solicit"), "60").expect("set");
        host.ip(&[flag, "route", "add", "default", "via", &gateway]).expect("a route");
    }
}

/// A run of a file like [`file`], with a host on each side, of which the western one is configured.
fn start(text: &str) -> World {
    let hosts = |_: &Namespace| Ok((host("t39-west"), host("t39-east")));
    let started = Stage::start_with_names_after(RINGROAD, text, &["--json"], hosts);
    let (stage, (west, east)) = started.expect("it starts");
    // All interfaces exist by then.
    wait_for(|| stage.client().ok());
    stage.home().ip(&["link", "set", "t39e", "netns", east.name()]).expect("moved");
    settle(&west, "t39w", ("192.0.2", "2001:db8:1"));
    World { stage, west, east }
}

/// Returns true if one ping of the host in the west is answered.
fn answers(world: &World, address: &str) -> bool {
    support::answers(world.west.command("busybox"), &["-6", address])
}

/// Waits until the router uses its addresses, which no other station has, and pings.
fn pings(world: &World) {
    wait_for(|| answers(world, EAST).then_some(()));
    ping(world.west.command("busybox"), 3, &["-6", EAST]).expect("answers");
}

#[test]
fn both_families_are_forwarded_and_changed() {
    support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
    if !Path::new("/proc/sys/net/ipv6").exists() {
        return println!("SKIPPED: this kernel has no IPv6");
    }
    let world = start(&file());
    settle(&world.east, "t39e", ("198.51.100", "2001:db8:2"));
    pings(&world);
    assert!(said(&["show", "t39"]).contains("2001:db8:1::1/64"));
    let counters = world.stage.wait_for_counters(|counters| counters.get("t39.ip6.forwarded") >= 6);
    counters.expect("it counts requests and answers");

    let flow = world.flow();
    let text = file();
    let more = text.replace("\"2001:db8:2::1/64\"", "\"2001:db8:2::1/64\", \"2001:db8:3::1/64\"")
        + "[[router.route]]\nto = \"2001:db8:9::/48\"\nvia = \"2001:db8:3::2\"\n\
           [[router.route]]\nto = \"10.39.0.0/16\"\nvia = \"2001:db8:3::2\"\n\
           [[router.route]]\nto = \"2001:db8:a::/48\"\ntype = \"prohibit\"\n\
           [[router.route]]\nto = \"203.0.113.0/24\"\ntype = \"blackhole\"\n\
           [[router.neighbour]]\naddress = \"2001:db8:3::2\"\nmac = \"02:00:00:00:00:39\"\n";
    let told = world.apply(&more, &["--dry-run"]);
    let line = "route 2001:db8:9::/48 via 2001:db8:3::2 out of east added";
    assert!(told.stdout.contains(line), "{told:?}");
    let done = world.apply(&more, &[]);
    assert!(done.status.success(), "{}", done.stderr);
    let (four, six) = (world.inside(&["-4", "route"]), world.inside(&["-6", "route"]));
    assert!(four.contains("10.39.0.0/16 via inet6 2001:db8:3::2 dev east"), "{four}");
    assert!(four.contains("blackhole 203.0.113.0/24"), "{four}");
    assert!(six.contains("2001:db8:9::/48 via 2001:db8:3::2 dev east"), "{six}");
    assert!(six.contains("prohibit 2001:db8:a::/48"), "{six}");
    let known = world.inside(&["-6", "neigh"]);
    assert!(known.contains("2001:db8:3::2 dev east lladdr 02:00:00:00:00:39"), "{known}");
    assert!(!answers(&world, "2001:db8:a::1"));
    pings(&world);
    // A refused request changes nothing.
    let bad = more.replace("attach = \"veth:t39e\"", "attach = \"veth:t39e\"\nrpf = \"strict\"");
    let done = world.apply(&bad, &[]);
    assert!(!done.status.success());
    assert!(done.stderr.contains("the kernel filters IPv4 sources only"), "{}", done.stderr);
    let done = world.apply(&text, &[]);
    assert!(done.status.success(), "{}", done.stderr);
    let (four, six) = (world.inside(&["-4", "route"]), world.inside(&["-6", "route"]));
    assert!(!four.contains("10.39.0.0/16") && !four.contains("blackhole"), "{four}");
    assert!(!six.contains("2001:db8:9::/48") && !six.contains("prohibit"), "{six}");
    flow.reaches(flow.so_far().received + 100, PATIENCE).expect("it flows");
    let tally = flow.stop().expect("it ends");
    assert_eq!((tally.lost(), tally.repeated), (0, 0), "{tally:?}");

    said(&["set", "t39", "forwarding=false"]);
    assert!(!answers(&world, EAST));
    said(&["set", "t39", "forwarding=true"]);
    pings(&world);
    assert!(said(&["restart", "t39"]).contains("router t39 was started anew"));
    pings(&world);
    // The refused request appears among the events.
    world.finish_troubled();
}

/// Returns what `ip -6` says about an interface of the host in the west.
fn west_says(world: &World, what: &str) -> String {
    world.west.ip(&["-6", what, "show", "dev", "t39w"]).expect("it says so")
}

fn has_router(world: &World) -> bool {
    west_says(world, "route").contains("default via fe80:")
}

/// The file of a router that advertises itself in the west.
fn advertising() -> String {
    let ra = "\"2001:db8:1::1/64\"\nra = { dns = \"2001:db8::53\" }";
    file().replace("[\"192.0.2.1/24\", \"2001:db8:1::1/64\"]", ra)
}

/// A run of this file with a host of the kernel's defaults in the west, which asks for a router as soon as its link is up.
fn start_before_a_host(text: &str) -> World {
    let hosts = |_: &Namespace| Ok((Namespace::add("t39-west").expect("a namespace"), host("t39-east")));
    let started = Stage::start_with_names_after(RINGROAD, text, &["--json"], hosts);
    let (stage, (west, east)) = started.expect("it starts");
    wait_for(|| stage.client().ok());
    let world = World { stage, west, east };
    world.west.ip(&["link", "set", "t39w", "up"]).expect("up");
    world
}

mod all {
    use super::*;

    #[test]
    fn an_ipv4_route_has_a_gateway_without_ipv4() {
        support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
        if !Path::new("/proc/sys/net/ipv6").exists() {
            return println!("SKIPPED: this kernel has no IPv6");
        }
        let text = file().replace("\"198.51.100.1/24\", ", "")
            + "[[router.route]]\nto = \"203.0.113.0/24\"\nvia = \"fe80::9\"\nnic = \"east\"\n";
        let world = start(&text);
        let east = &world.east;
        east.ip(&["link", "set", "t39e", "up"]).expect("up");
        east.ip(&["address", "add", "fe80::9/64", "dev", "t39e"]).expect("an address");
        east.ip(&["address", "add", &format!("{EAST}/64"), "dev", "t39e"]).expect("an address");
        east.ip(&["address", "add", "203.0.113.2/32", "dev", "lo"]).expect("an address");
        east.set("net.ipv6.neigh.t39e.mcast_solicit", "60").expect("set");
        let back = ["-4", "route", "add", "default", "via", "inet6", "2001:db8:2::1", "dev", "t39e"];
        east.ip(&back).expect("a route");
        wait_for(|| support::answers(world.west.command("busybox"), &["203.0.113.2"]).then_some(()));
        let said = ping(world.west.command("busybox"), 3, &["203.0.113.2"]).expect("answers");
        assert_eq!(said.matches("ttl=63").count(), 3, "{said}");
        let neighbours = world.inside(&["-4", "neigh", "show", "dev", "east"]);
        assert!(neighbours.is_empty(), "nobody is asked for by ARP there: {neighbours}");
        world.finish_troubled();
    }

    /// Behind a bridge the host's own interface stays when the router ends.
    #[test]
    fn hosts_are_told_of_a_router_that_is_stopped() {
        support::needs!(Root, Program("ip"), Program("nsenter"));
        if !Path::new("/proc/sys/net/ipv6").exists() {
            return println!("SKIPPED: this kernel has no IPv6");
        }
        let text = "[[router]]\nname = \"t39\"\nengine = \"kernel\"\n\
            [[router.nic]]\nname = \"west\"\nattach = \"bridge:t39b\"\naddress = \"2001:db8:1::1/64\"\nra = {}\n";
        let hosts = |home: &Namespace| {
            let (west, east) = (Namespace::add("t39-west").expect("a namespace"), host("t39-east"));
            let pair = ["link", "add", "t39p", "type", "veth", "peer", "name", "t39w", "netns", west.name()];
            home.ip(&["link", "add", "t39b", "type", "bridge"]).expect("a bridge");
            home.ip(&["link", "set", "t39b", "up"]).expect("up");
            home.ip(&pair).expect("a pair");
            home.ip(&["link", "set", "t39p", "master", "t39b"]).expect("a port");
            home.ip(&["link", "set", "t39p", "up"]).expect("up");
            west.ip(&["link", "set", "t39w", "up"]).expect("up");
            Ok((west, east))
        };
        let started = Stage::start_with_names_after(RINGROAD, text, &["--json"], hosts);
        let (stage, (west, east)) = started.expect("it starts");
        wait_for(|| stage.client().ok());
        let world = World { stage, west, east };
        let says_that_it_goes = || {
            wait_for(|| has_router(&world).then_some(()));
            said(&["stop", "t39"]);
            wait_for(|| (!has_router(&world)).then_some(()));
            let link = world.west.ip(&["link", "show", "t39w"]).expect("its link has stayed");
            assert!(link.contains("LOWER_UP"), "{link}");
        };
        says_that_it_goes();
        said(&["start", "t39"]);
        says_that_it_goes();
        for link in ["t39b", "t39p"] {
            world.stage.home().ip(&["link", "delete", link]).expect("deleted");
        }
        world.finish_troubled();
    }

    #[test]
    fn hosts_behind_it_configure_themselves() {
        support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"));
        if !Path::new("/proc/sys/net/ipv6").exists() {
            return println!("SKIPPED: this kernel has no IPv6");
        }
        let text = advertising();
        let world = start_before_a_host(&text);
        wait_for(|| has_router(&world).then_some(()));
        wait_for(|| west_says(&world, "address").contains("inet6 2001:db8:1:").then_some(()));
        wait_for(|| answers(&world, "2001:db8:1::1").then_some(()));
        world
            .stage
            .wait_for_counters(|counters| counters.get("t39.west.ra.sent") > 0)
            .expect("it is counted");

        // Without `ra` the host is told that it is no router any more.
        let quiet = text.replace("\nra = { dns = \"2001:db8::53\" }", "");
        let told = world.apply(&quiet, &["--dry-run"]);
        assert!(told.stdout.contains("ra of west = none"), "{told:?}");
        assert!(world.apply(&quiet, &[]).status.success());
        wait_for(|| (!has_router(&world)).then_some(()));
        assert!(world.apply(&text, &[]).status.success());
        wait_for(|| has_router(&world).then_some(()));
        said(&["restart", "t39"]);
        wait_for(|| answers(&world, "2001:db8:1::1").then_some(()));
        wait_for(|| has_router(&world).then_some(()));
        // A router that does not forward is no default router.
        said(&["set", "t39", "forwarding=false"]);
        wait_for(|| (!has_router(&world)).then_some(()));
        said(&["set", "t39", "forwarding=true"]);
        wait_for(|| has_router(&world).then_some(()));
        said(&["stop", "t39"]);
        world.finish_troubled();
    }

    #[test]
    fn it_is_found_by_the_tools_of_ndisc6() {
        support::needs!(Root, Program("ip"), Program("nsenter"), Program("ndisc6"), Program("rdisc6"));
        if !Path::new("/proc/sys/net/ipv6").exists() {
            return println!("SKIPPED: this kernel has no IPv6");
        }
        let mac = "02:00:00:00:39:01";
        let text = advertising().replacen("ra = {", &format!("mac = \"{mac}\"\nra = {{"), 1);
        let world = start_before_a_host(&text);
        let finds = |words: &[&str], wanted: &str| {
            let done = run(world.west.command(words[0]).args(&words[1..]), PATIENCE).expect("it ends");
            done.stdout.to_ascii_lowercase().contains(wanted).then_some(())
        };
        wait_for(|| finds(&["rdisc6", "-1", "t39w"], "2001:db8:1::/64"));
        wait_for(|| finds(&["rdisc6", "-1", "t39w"], mac));
        wait_for(|| finds(&["ndisc6", "-1", "2001:db8:1::1", "t39w"], mac));
        said(&["stop", "t39"]);
        world.finish_troubled();
    }
}
