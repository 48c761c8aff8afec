//! Texts of errors and steps, and serialized records.

use std::io;

use crate::error::Refusal;
use crate::leftover::pair_alias;
use crate::{
    Error, Leftover, MAIN, MovedInterface, NewInterface, Object, Origin, OtherEnd, PeerNamespace, Queue,
    QueueKind, Route, Setting, Step,
};

fn kept() -> MovedInterface {
    let (interface, link) = ("abcdefghijklmno".to_owned(), "ponmlkjihgfedcb".to_owned());
    let (mac, former_alias) = (Some([255; 6]), String::new());
    MovedInterface { interface, link, mac, mtu: u32::MAX, up: false, threaded: true, former_alias }
}

#[test]
fn an_interface_carries_how_it_was() {
    let alias = kept().alias();
    assert!(alias.starts_with("ringroad {") && alias.len() < 256, "{} octets: {alias}", alias.len());
    let had = |alias: &str| MovedInterface { former_alias: alias.to_owned(), ..kept() }.alias();
    assert!(had("rack 7").contains("rack 7") && had("rack 7").len() < 256, "{}", had("rack 7"));
    assert_eq!(had(&"x".repeat(255)), alias, "there is no room for both");
    let pairs = vec![OtherEnd { at: None, index: 7 }, OtherEnd { at: Some("lab".to_owned()), index: 8 }];
    let left = Leftover { published: Some("edge".to_owned()), id: None, kept: vec![kept()], pairs };
    let text = serde_json::to_string(&left).expect("JSON");
    assert_eq!(serde_json::from_str::<Leftover>(&text).expect("a leftover"), left);
    assert!(Leftover::default().is_empty() && !left.is_empty());
}

#[test]
fn the_other_end_of_a_pair_carries_the_name_of_its_router() {
    assert_eq!(pair_alias(Some("edge")), "ringroad edge");
    assert_eq!(pair_alias(None), "ringroad");
    let longest = "x".repeat(255 - "ringroad ".len());
    assert_eq!(pair_alias(Some(&longest)).len(), 255);
    assert_eq!(pair_alias(Some(&format!("{longest}x"))), "ringroad", "there is no room for it");
}

#[test]
fn an_error_is_one_line_that_says_what_to_do() {
    let interface = "wan".to_owned();
    let origin = Origin::Veth { peer: "x".to_owned(), at: PeerNamespace::Home, bridge: None };
    let made = NewInterface { interface: interface.clone(), origin, mac: None, mtu: None };
    let step = Step::Add(Object::Interface(made));
    let of = |step: &Step, errno: rustix::io::Errno| {
        Error::of_step("edge", step, Refusal::Kernel(io::Error::from(errno)))
    };
    let error = of(&step, rustix::io::Errno::EXIST);
    assert!(error.is_in_use());
    let expected = "router `edge`: wan: add a pair with `x` on the host: there is an interface `x` on the host already: \
                    delete it, or choose another name";
    assert_eq!(error.to_string(), expected);
    let to = netlink::Prefix::new([10, 0, 0, 0], 8).expect("a prefix");
    let via = Some([203, 0, 113, 1].into());
    let step = Step::Add(Object::Route(Route { to, via, interface, metric: 0, table: MAIN }));
    let error = of(&step, rustix::io::Errno::NETUNREACH);
    assert!(!error.is_in_use());
    assert!(
        error.to_string().contains("203.0.113.1 lies in no network that is connected to `wan`"),
        "{error}"
    );
    let error = of(&step, rustix::io::Errno::PERM).to_string();
    assert!(error.ends_with("run as root (CAP_NET_ADMIN and CAP_SYS_ADMIN)"), "{error}");
}

#[test]
fn a_step_says_what_was_and_what_is_to_be() {
    let set = |from, to| Step::Set { interface: "wan".to_owned(), from, to };
    let mac = Setting::Mac([2, 0, 0, 0, 0, 0x0a]);
    let told = set(mac, Setting::Mac([2, 0, 0, 0, 0, 0xb])).to_string();
    assert_eq!(told, "wan: 02:00:00:00:00:0a becomes 02:00:00:00:00:0b");
    assert_eq!(set(Setting::Mtu(1500), Setting::Mtu(9000)).to_string(), "wan: MTU 1500 becomes MTU 9000");
    let queue = Setting::Queue(Some(Queue { kind: QueueKind::Pfifo, limit: 300 }));
    let told = set(Setting::Queue(None), queue);
    assert_eq!(
        told.to_string(),
        "wan: no queue at the other end becomes a pfifo of 300 frames at the other end"
    );
    let error = Error::of_step("edge", &told, Refusal::Kernel(rustix::io::Errno::NOENT.into())).to_string();
    assert!(error.ends_with("this kernel has no queueing discipline pfifo: choose another"), "{error}");
    let back = set(Setting::Up(true), Setting::Up(false)).inverse();
    assert_eq!(back, Some(set(Setting::Up(false), Setting::Up(true))));
    let parameter = |from: Option<&str>| Step::Parameter {
        key: "net/ipv4/ip_forward".to_owned(),
        from: from.map(str::to_owned),
        to: "1".to_owned(),
    };
    assert_eq!(parameter(None).inverse(), None);
    assert_eq!(parameter(Some("0")).to_string(), "net/ipv4/ip_forward: 0 becomes 1");
}

#[test]
fn an_interface_that_another_run_has_taken_meanwhile_is_one_line() {
    let (interface, origin) = ("wan".to_owned(), Origin::Moved { link: "eth5".to_owned() });
    let step = Step::Add(Object::Interface(NewInterface { interface, origin, mac: None, mtu: None }));
    let refusal = Refusal::Kernel(rustix::io::Errno::NODEV.into());
    let line = Error::of_step("edge", &step, refusal).to_string();
    let why = "the host has no interface `eth5`, or another router has taken it";
    assert_eq!(line, format!("router `edge`: {step}: {why}"));
}

#[test]
fn a_kernel_without_vrfs_is_one_line() {
    let (interface, origin) = ("red".to_owned(), Origin::Vrf { table: 7 });
    let vrf = Step::Add(Object::Interface(NewInterface { interface, origin, mac: None, mtu: None }));
    let rule = Step::Add(Object::LocalRule { is_ipv4: true });
    let why = "this kernel has no VRFs: load them (`modprobe vrf`), or write another engine";
    for (step, what) in [
        (vrf, "red: add a VRF of table 7"),
        (rule, "add the rule of table local for IPv4 behind those of VRFs"),
    ] {
        let refusal = Refusal::Kernel(rustix::io::Errno::OPNOTSUPP.into());
        let line = Error::of_step("edge", &step, refusal).to_string();
        assert_eq!(line, format!("router `edge`: {what}: {why}"));
    }
    let (from, to) = (Setting::Vrf(Some(7)), Setting::Vrf(None));
    let step = Step::Set { interface: "wan".to_owned(), from, to };
    assert_eq!(step.to_string(), "wan: a port of the VRF of table 7 becomes in no VRF");
}
