use super::*;

const FILE: &str = "[switch.lan]\n[[router]]\nname = \"edge\"\nvcpus = 2\npin = { vcpu = \"0\" }\n\
                    restart = \"never\"\nvhost = \"per-nic\"\nlimit = \"200kpps\"\n[[router.nic]]\nname = \"wan\"\n\
                    attach = \"switch:lan\"\naddress = \"192.0.2.1/24\"\nmtu = 1400\nqueue_len = 300\n\
                    [[router.nic]]\nname = \"lan\"\nattach = \"tap:x\"\nqueue_len = \"auto\"\nitr = \"adaptive\"\n";

fn plan() -> config::Plan {
    config::parse(FILE, "x.toml").expect("a good file")
}

/// Keys whose values are numbers.
fn numbers(settings: &Settings) -> Vec<(&str, u64)> {
    let number = |value: &Value| match value {
        Value::Number(number) => Some(*number),
        Value::Text(_) => None,
    };
    settings.iter().filter_map(|(key, value)| Some((key.as_str(), number(value)?))).collect()
}

#[test]
fn a_router_is_shown_as_it_would_be_written() {
    let plan = plan();
    let shown = settings(&plan.routers[0]);
    let get = |key: &str| shown.get(key).map(ToString::to_string);
    assert_eq!(get("vcpus").as_deref(), Some("2"));
    assert_eq!(get("pin.vcpu").as_deref(), Some("0"));
    assert_eq!(get("pin.vhost").as_deref(), Some("any"));
    assert_eq!(get("restart").as_deref(), Some("never"));
    assert_eq!(get("vhost").as_deref(), Some("per-nic"));
    assert_eq!(get("limit").as_deref(), Some("200kpps"));
    assert_eq!(get("misdeed"), None);
    let nic = nic(&plan.routers[0], &plan.routers[0].nics[0]);
    assert_eq!(nic.attach, "switch:lan");
    assert_eq!(nic.addresses, ["192.0.2.1/24"]);
}

#[test]
fn plain_counts_are_numbers_and_nothing_else_is() {
    let plan = plan();
    let router = &plan.routers[0];
    // A set of CPUs is text, even if it is one CPU.
    assert_eq!(numbers(&settings(router)), [("neighbours", 4096), ("vcpus", 2)]);
    let wan = nic(router, &router.nics[0]).settings;
    assert_eq!(numbers(&wan), [("itr", 0), ("mtu", 1400), ("queue_len", 300), ("queues", 2), ("ring", 1024)]);
    let lan = nic(router, &router.nics[1]).settings;
    assert_eq!(numbers(&lan).iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["mtu", "queues", "ring"]);
    assert_eq!((&lan["itr"], &lan["queue_len"]), (&"adaptive".into(), &"auto".into()));
}

#[test]
fn of_a_router_without_a_machine_nothing_is_told_of_one() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\nrp_filter = \"strict\"\n[[router.nic]]\nname = \"wan\"\n\
                attach = \"veth:rr-wan\"\naddress = \"192.0.2.1/24\"\n";
    let plan = config::parse(text, "x.toml").expect("a good file");
    let router = &plan.routers[0];
    let keys: Vec<String> = settings(router).into_keys().collect();
    assert_eq!(
        keys,
        ["drop_reasons", "engine", "forwarding", "proxy_arp", "restart", "rp_filter", "threaded"]
    );
    let keys: Vec<String> = nic(router, &router.nics[0]).settings.into_keys().collect();
    assert_eq!(keys, ["mtu"]);
}

#[test]
fn an_interface_for_a_vlan_is_told_with_its_tags() {
    let text = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n[[router.interface]]\n\
                name = \"guests\"\nnic = \"wan\"\nvlan = 100\nouter = 200\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n\
                vrf = \"red\"\nrpf = \"strict\"\n";
    let plan = config::parse(text, "x.toml").expect("a good file");
    let [guests] = <[_; 1]>::try_from(interfaces(&plan.routers[0])).expect("one interface");
    assert_eq!((guests.nic.as_str(), guests.vlan.as_str()), ("wan", "200.100"));
    assert_eq!(guests.addresses, ["192.0.2.1/24", "2001:db8::1/64"]);
    let settings: Vec<String> =
        guests.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    assert_eq!(settings, ["mtu = 1500", "rpf = strict", "vrf = red"]);
}

#[test]
fn a_route_with_several_gateways_is_told_in_one_line() {
    let text = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\naddress = \"192.0.2.1/24\"\n\
                [[router.nic]]\nname = \"lan\"\nattach = \"null\"\naddress = \"198.51.100.1/24\"\n[[router.route]]\n\
                to = \"0.0.0.0/0\"\nvia = [\"192.0.2.2\", \"198.51.100.2\", \"192.0.2.3\"]\nweights = [3, 1, 1]\n";
    let plan = config::parse(text, "x.toml").expect("a good file");
    let shown = routes(&plan.routers[0]);
    let via = Some("192.0.2.2 * 3, 198.51.100.2, 192.0.2.3".to_owned());
    assert_eq!(
        shown,
        [RouteShown { to: "0.0.0.0/0".to_owned(), via, nic: "wan, lan".to_owned(), vrf: None }]
    );
}

#[test]
fn routes_tell_their_vrf() {
    let text = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\naddress = \"192.0.2.1/24\"\n\
                [[router.nic]]\nname = \"red\"\nattach = \"null\"\naddress = \"192.0.2.1/24\"\nvrf = \"red\"\n\
                [[router.route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.2\"\n\
                [[router.route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.2\"\nvrf = \"red\"\n\
                [[router.route]]\nto = \"10.0.0.0/8\"\ntype = \"blackhole\"\nvrf = \"red\"\n";
    let plan = config::parse(text, "x.toml").expect("a good file");
    let shown = routes(&plan.routers[0]);
    let told: Vec<_> = shown.iter().map(|route| (route.nic.as_str(), route.vrf.as_deref())).collect();
    assert_eq!(told, [("wan", None), ("red", Some("red")), ("blackhole", Some("red"))]);
}
