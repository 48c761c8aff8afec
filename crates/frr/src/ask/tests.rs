use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

fn one(protocol: Protocol, answer: &str) -> Adjacency {
    let found = read(protocol, answer).expect("JSON");
    let [adjacency] = &found[..] else { panic!("{found:?}") };
    adjacency.clone()
}

fn adjacency(
    peer: &str,
    detail: &str,
    interface: &str,
    state: &str,
    (is_up, since): (bool, Option<u64>),
) -> Adjacency {
    let [peer, detail, interface, state] = [peer, detail, interface, state].map(str::to_owned);
    Adjacency { peer, detail, interface, state, is_up, since }
}

#[test]
fn neighbours_of_bgp() {
    let answer = r#"{"ipv4Unicast":{"routerId":"10.0.0.1","as":65001,"peers":{"192.0.2.2":{"remoteAs":65002,
        "peerUptimeMsec":61000,"pfxRcd":7,"state":"Established","peerState":"OK"},"wan":{"remoteAs":0,"state":"Active",
        "peerUptimeMsec":0}},"totalPeers":2}}"#;
    let found = read(Protocol::Bgp, answer).expect("JSON");
    assert_eq!(
        found,
        [
            adjacency("192.0.2.2", "AS 65002, ipv4Unicast, 7 prefixes", "", "Established", (true, Some(61))),
            adjacency("wan", "AS 0, ipv4Unicast, 0 prefixes", "wan", "Active", (false, None)),
        ]
    );
}

#[test]
fn neighbours_of_ospf_in_both_forms() {
    let expected = adjacency("192.0.2.2", "router 10.0.0.2", "wan", "Full/DR", (true, Some(9)));
    let fields = r#"{"ifaceName":"wan:192.0.2.1","ifaceAddress":"192.0.2.2","nbrState":"Full/DR","upTimeInMsec":9100}"#;
    assert_eq!(one(Protocol::Ospf, &format!(r#"{{"neighbors":{{"10.0.0.2":[{fields}]}}}}"#)), expected);
    let older = fields.replace("nbrState", "state").replace("ifaceAddress", "address");
    assert_eq!(one(Protocol::Ospf, &format!(r#"{{"10.0.0.2":[{older}]}}"#)), expected);
    let waits = one(Protocol::Ospf, r#"{"neighbors":{"10.0.0.2":[{"nbrState":"2-Way/DROther"}]}}"#);
    assert_eq!((waits.is_up, &waits.peer[..]), (false, "10.0.0.2"));
}

#[test]
fn neighbours_of_ospf6_isis_bfd_and_virtual_routers() {
    let answer = r#"{"neighbors":[{"neighborId":"10.0.0.2","state":"Full","interfaceName":"wan","duration":"01:01:02"}]}"#;
    assert_eq!(
        one(Protocol::Ospf6, answer),
        adjacency("10.0.0.2", "router 10.0.0.2", "wan", "Full", (true, Some(3662)))
    );
    let answer = r#"{"areas":[{"area":"1","circuits":[{"circuit":0,"adj":"edge2","interface":{"name":"wan","state":"Up",
        "level":2}},{"circuit":1}]}]}"#;
    assert_eq!(one(Protocol::Isis, answer), adjacency("edge2", "level 2", "wan", "Up", (true, None)));
    let answer = r#"[{"multihop":false,"peer":"192.0.2.2","interface":"wan","status":"down","downtime":3,"diagnostic":"ok"}]"#;
    assert_eq!(one(Protocol::Bfd, answer), adjacency("192.0.2.2", "ok", "wan", "down", (false, Some(3))));
    let answer = r#"[{"vrid":5,"interface":"wan","v4":{"status":"Backup","addresses":["192.0.2.9"]},
        "v6":{"status":"Initialize","addresses":[]}}]"#;
    assert_eq!(
        one(Protocol::Vrrp, answer),
        adjacency("vrid 5", "v4, 192.0.2.9", "wan", "Backup", (true, None))
    );
}

#[test]
fn a_sentence_is_no_answer_and_an_empty_one_is() {
    assert_eq!(read(Protocol::Bgp, "% BGP instance not found\n"), None);
    for protocol in Protocol::ALL {
        assert_eq!(read(protocol, "{}\n"), Some(vec![]), "{protocol:?}");
        assert_eq!(read(protocol, "[]"), Some(vec![]), "{protocol:?}");
        assert!(protocol.question().ends_with(" json") && !protocol.name().is_empty());
        assert_ne!(protocol.daemon(), Daemon::Zebra);
    }
}

#[test]
fn an_answer_that_is_too_long_is_not_read() {
    let of = |len: usize| format!("{{}}{}", " ".repeat(len - 2));
    assert_eq!(read(Protocol::Bgp, &of(LONGEST)), Some(vec![]));
    assert_eq!(read(Protocol::Bgp, &of(LONGEST + 1)), None);
}

#[test]
fn a_program_that_answers_without_end_is_not_heard_to_the_end() {
    let heard = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let started = command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        hear(started.expect("it starts"))
    };
    assert_eq!(heard("echo", &["{}"]).as_deref(), Some("{}\n"));
    assert_eq!(heard("yes", &[]), None);
}

fn json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "neighbors",
        "peers",
        "v4",
        "state",
        "adj",
        "areas",
        "circuits",
        "addresses",
        "x",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<u64>().prop_map(Value::from),
        "[a-z:0-9]{0,9}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_is_read(answer in json()) {
        let answer = answer.to_string();
        for protocol in Protocol::ALL {
            prop_assert!(read(protocol, &answer).is_some());
        }
    }

    #[test]
    fn any_text_is_read_or_not(text in "\\PC{0,80}") {
        for protocol in Protocol::ALL { let _ = read(protocol, &text); }
    }
}
