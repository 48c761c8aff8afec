use api::{InterfaceShown, NeighbourShown, RouteShown, RouterStatus, State, Thread};
use support::schema::check_lines;

use super::*;

fn shown() -> RouterDetails {
    let settings = |settings: &[(&str, Value)]| -> BTreeMap<String, Value> {
        settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
    };
    let status = RouterStatus {
        name: "edge".to_owned(),
        engine: "process".to_owned(),
        state: State::Running,
        since_ms: 5000,
        restarts: 1,
        reason: Some("vCPU 0: no sign of life for 3 s".to_owned()),
        pid: Some(77),
        member: None,
        threads: vec![Thread { name: "edge/vhost".to_owned(), tid: 42 }],
    };
    let wan = NicDetails {
        name: "wan".to_owned(),
        attach: "tap:wan0".to_owned(),
        mac: "02:00:00:00:00:01".to_owned(),
        addresses: vec!["192.0.2.1/24".to_owned(), "192.0.2.9/32".to_owned()],
        settings: settings(&[("mtu", 1500.into()), ("queues", 1.into())]),
    };
    let lan = NicDetails { name: "lan".to_owned(), addresses: Vec::new(), ..wan.clone() };
    let route = |to: &str, via: Option<&str>| RouteShown {
        to: to.to_owned(),
        via: via.map(str::to_owned),
        nic: "wan".to_owned(),
        vrf: via.map(|_| "red".to_owned()),
    };
    RouterDetails {
        run: "lab".to_owned(),
        status,
        settings: settings(&[("restart", "always".into()), ("vcpus", 1.into())]),
        nics: vec![wan, lan],
        interfaces: vec![InterfaceShown {
            name: "guests".to_owned(),
            nic: "lan".to_owned(),
            vlan: "200.100".to_owned(),
            addresses: vec!["203.0.113.1/24".to_owned()],
            settings: settings(&[("mtu", 1500.into()), ("vrf", "red".into())]),
        }],
        routes: vec![route("0.0.0.0/0", Some("192.0.2.254")), route("198.51.100.0/24", None)],
        neighbours: vec![NeighbourShown {
            address: "192.0.2.254".to_owned(),
            mac: "02:00:00:00:00:fe".to_owned(),
            nic: "wan".to_owned(),
        }],
    }
}

#[test]
fn one_fact_a_line() {
    let wanted = "\
router     edge of run lab\n\
state      running for 5 s, restarted 1 times\n\
reason     vCPU 0: no sign of life for 3 s\n\
engine     process, pid 77\n\
settings   restart = always, vcpus = 1\n\
threads    edge/vhost 42\n\
nic        wan tap:wan0 02:00:00:00:00:01 192.0.2.1/24, 192.0.2.9/32; mtu = 1500, queues = 1\n\
nic        lan tap:wan0 02:00:00:00:00:01 no address; mtu = 1500, queues = 1\n\
interface  guests VLAN 200.100 of lan 203.0.113.1/24; mtu = 1500, vrf = red\n\
route      0.0.0.0/0 via 192.0.2.254 by wan in VRF red\n\
route      198.51.100.0/24 by wan\n\
neighbour  192.0.2.254 is 02:00:00:00:00:fe behind wan\n";
    assert_eq!(text(&shown()), wanted);
}

#[test]
fn one_object_with_numbers_as_numbers() {
    let text = line(&shown()).expect("JSON");
    assert_eq!(text.lines().count(), 1);
    check_lines("show", &text);
    assert!(text.contains(r#""settings":{"mtu":1500,"queues":1}"#), "{text}");
    let again: RouterDetails = serde_json::from_str(&text).expect("a router");
    assert_eq!(again, shown());
}
