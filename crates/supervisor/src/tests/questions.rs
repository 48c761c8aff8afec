//! Requests of clients, which the data plane answers in any order or never.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Answer, Counters, Fate, Packet, Request};
use config::learned::LearnedGateway;
use link::{ToPlane, ToSupervisor};

use super::stage::{ONE, Scripted, Stage};
use crate::group_tables::{GroupTables, OpenTables};
use crate::reply_deadlines::PART;

const SECOND: Duration = Duration::from_secs(1);

fn set(value: &str) -> Request {
    Request::Set { router: "edge".to_owned(), key: "spin".to_owned(), value: value.to_owned() }
}

fn done(message: &str) -> api::Outcome {
    Ok(Answer::Done { message: message.to_owned() })
}

fn restart() -> Request {
    Request::Restart { router: "edge".to_owned() }
}

#[test]
fn answers_out_of_order_find_who_asked() {
    let mut stage = Stage::up(ONE);
    let router = || "edge".to_owned();
    let requests = [restart(), Request::Start { router: router() }, Request::Show { router: router() }];
    let mut clients: Vec<_> = requests.iter().map(|request| stage.client(request)).collect();
    let plane = stage.plane();
    let asked = |wanted: &Request| plane.asked(|request| request == wanted).expect("it is asked");
    let ids: Vec<u64> = requests.iter().map(asked).collect();
    for number in [2, 0, 1] {
        plane.answer(ids[number], done(&format!("number {number}")));
    }
    stage.turn().expect("it goes on");
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.next_answer().expect("an answer");
        assert!(matches!(answer, Answer::Done { message } if message == format!("number {number}")));
    }
}

#[test]
fn an_answer_that_nobody_waits_for_is_nothing() {
    let mut stage = Stage::up(ONE);
    let mut client = stage.client(&restart());
    let plane = stage.plane();
    let id = plane.asked(|request| *request == restart()).expect("it is asked");
    plane.answer(id + 1000, done("to nobody"));
    plane.answer(id, done("once"));
    plane.answer(id, done("twice"));
    stage.turn().expect("it goes on");
    assert!(matches!(client.next_answer(), Ok(Answer::Done { message }) if message == "once"));
    client.send(&Request::Events { since: None }).expect("sent");
    stage.turn().expect("it goes on");
    assert!(matches!(client.next_answer(), Ok(Answer::Events { .. })), "the second was nobody's");
}

#[test]
fn members_of_a_group_are_asked_about_again_after_an_answer_of_another_kind() {
    let mut stage = Stage::up(
        "[switch.lan]\n[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\nengine = \"process\"\n\
         [[group.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"198.51.100.1/24\"\n",
    );
    let _client = stage.client(&Request::Restart { router: "core".to_owned() });
    stage.turn().expect("it goes on");
    let plane = stage.plane();
    let is_ps = |request: &Request| matches!(request, Request::Ps {});
    for _ in 0..3 {
        let id = plane.asked(is_ps).expect("it is asked how they are");
        plane.answer(id, done("something else"));
        stage.turn().expect("it goes on");
        stage.after(SECOND / 10).expect("it goes on");
    }
}

#[test]
fn what_is_asked_while_there_is_no_data_plane_is_answered_at_once() {
    let mut stage = Stage::up(ONE);
    stage.plane().die();
    stage.turn().expect("it goes on");
    let mut client = stage.client(&set("1us"));
    let error = client.next_answer().expect_err("there is none").to_string();
    assert!(error.contains("the data plane is down and will be started again soon"), "{error}");
}

#[test]
fn what_is_asked_while_the_data_plane_comes_up_is_answered_at_once() {
    let mut stage = Stage::start(ONE);
    let mut client = stage.client(&set("1us"));
    let error = client.next_answer().expect_err("it is not up yet").to_string();
    assert!(error.contains("the data plane is coming up: ask again"), "{error}");
}

#[test]
fn counters_of_a_router_that_is_not_there_are_refused_with_those_that_are() {
    let mut stage = Stage::up(ONE);
    let mut client = stage.client(&Request::Counters { router: Some("core".to_owned()) });
    let error = client.next_answer().expect_err("there is none").to_string();
    assert!(error.contains("there is no router \"core\"; routers: edge"), "{error}");
}

/// A router in a process of its own beside one that is not.
pub(super) const ISOLATED: &str = "[switch.lan]\n[[router]]\nname = \"edge\"\nengine = \"kvm\"\nisolate = \"process\"\n\
                     [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"192.0.2.1/24\"\n\
                     [[router]]\nname = \"core\"\nengine = \"process\"\n\
                     [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"192.0.2.2/24\"\n";

/// A run with both, both up.
pub(super) fn isolated() -> (Stage, Scripted, Scripted) {
    isolated_in(ISOLATED)
}

/// Run of a file with one isolated router: its data plane and that router's process are up.
pub(super) fn isolated_in(text: &str) -> (Stage, Scripted, Scripted) {
    let mut stage = Stage::start(text);
    let main = stage.plane();
    main.say(&ToSupervisor::Started { at_ns: 0 });
    stage.turn().expect("it goes on");
    assert_eq!(stage.started(), 2, "the process of the router is started when that is up");
    stage.comes_up();
    let own = stage.plane();
    (stage, main, own)
}

fn counted(client: &mut api::Client) -> BTreeMap<String, u64> {
    match client.next_answer() {
        Ok(Answer::Counters(counters)) => counters.counters,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_process_of_a_router_that_is_silent_holds_nobody_up_and_its_counters_do_not_go_back() {
    let (mut stage, main, own) = isolated();
    let all = Request::Counters { router: None };
    let mut client = stage.client(&all);
    main.serve(&[("core.lan.rx.frames".to_owned(), 7), ("edge.lan.rx.frames".to_owned(), 1)].into());
    own.serve(&[("edge.vcpu0.forwarded".to_owned(), 5), ("edge.lan.rx.frames".to_owned(), 0)].into());
    stage.turn().expect("it goes on");
    let first = counted(&mut client);
    assert_eq!((first["core.lan.rx.frames"], first["edge.vcpu0.forwarded"]), (7, 5));
    // Counters of one router: what is known of the other stays.
    client.send(&Request::Counters { router: Some("core".to_owned()) }).expect("sent");
    stage.turn().expect("it goes on");
    main.serve(&[("core.lan.rx.frames".to_owned(), 7)].into());
    own.serve(&BTreeMap::new());
    stage.turn().expect("it goes on");
    assert_eq!(counted(&mut client).keys().collect::<Vec<_>>(), ["core.lan.rx.frames"]);
    // From now on the process of edge is silent. It is waited for, but not for long.
    client.send(&all).expect("sent");
    stage.turn().expect("it goes on");
    main.serve(&[("core.lan.rx.frames".to_owned(), 8), ("edge.lan.rx.frames".to_owned(), 2)].into());
    stage.turn().expect("it goes on");
    stage.after(PART).expect("it goes on");
    stage.after(SECOND / 10).expect("it goes on");
    let second = counted(&mut client);
    assert_eq!((second["core.lan.rx.frames"], second["edge.vcpu0.forwarded"]), (8, 5));
    assert_eq!(second["edge.lan.rx.frames"], 2);
    // It is known to be silent by now, and not asked any more.
    stage.after(Duration::from_millis(1)).expect("it goes on");
    client.send(&all).expect("sent");
    stage.turn().expect("it goes on");
    main.serve(&[("core.lan.rx.frames".to_owned(), 9)].into());
    stage.turn().expect("it goes on");
    assert_eq!(counted(&mut client)["core.lan.rx.frames"], 9);
}

#[test]
fn a_process_that_had_no_cpu_because_nobody_had_one_is_waited_for() {
    let (mut stage, main, own) = isolated();
    let mut client = stage.client(&Request::Counters { router: None });
    main.serve(&[("core.lan.rx.frames".to_owned(), 7)].into());
    stage.turn().expect("it goes on");
    // The whole host pauses for a while; then all run again, this process first.
    stage.after(PART + 2 * SECOND).expect("it goes on");
    own.serve(&[("edge.vcpu0.forwarded".to_owned(), 5)].into());
    stage.turn().expect("it goes on");
    assert_eq!(counted(&mut client)["edge.vcpu0.forwarded"], 5);
}

#[test]
fn what_a_process_says_of_who_serves_its_nics_is_not_told() {
    let (mut stage, _main, own) = isolated();
    let event = |of_peer, message: &str| ToSupervisor::Event {
        kind: "notice".to_owned(),
        router: Some("edge".to_owned()),
        of_peer,
        process: None,
        message: message.to_owned(),
    };
    own.say(&event(true, "NIC lan: a peer of another kind"));
    own.say(&event(false, "NIC lan: handed to nobody yet"));
    stage.turn().expect("it goes on");
    assert_eq!(stage.lines("NIC lan"), ["NIC lan: handed to nobody yet"]);
}

#[test]
fn gateways_of_a_group_are_told_of_when_they_are_lost_and_when_they_are_back() {
    let text = "[switch.lan]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\nengine = 'process'\n\
                route = [{ to = '10.0.0.0/8', via = ['192.0.2.2', '192.0.2.3'] }]\n\
                [[group.nic]]\nname = 'lan'\nattach = 'switch:lan'\naddress = '192.0.2.1/24'\n";
    let mut stage = Stage::up(text);
    let plan = stage.plan().clone();
    stage.supervisor().resources.tables = GroupTables::open(&plan, &OpenTables::default()).expect("memory");
    let gateway = |last: u8| LearnedGateway { link: 0, ip: [192, 0, 2, last].into() };
    // Of 192.0.2.9, which is no gateway of the group, nothing is told.
    let all = [
        ("core", None),
        ("core", Some(3)),
        ("core", Some(3)),
        ("other", Some(2)),
        ("core", Some(9)),
        ("core", None),
    ];
    for (group, last) in all {
        let gateways = last.into_iter().map(gateway).collect();
        stage.plane().say(&ToSupervisor::SilentGateways { group: group.to_owned(), gateways });
    }
    stage.turn().expect("it goes on");
    let lines = [
        "is not reached: its flows take the others of their routes",
        "is reached again and has its flows back",
    ];
    let lines = lines.map(|line| format!("group core: next hop 192.0.2.3 behind lan {line}"));
    assert_eq!(stage.lines("next hop"), lines);
}

/// The data plane, in a user namespace of its own, knows at most a process number.
#[test]
fn a_peer_that_has_come_is_told_of_by_process_and_user() {
    use std::os::unix::fs::MetadataExt;
    let mut stage = Stage::up(ONE);
    let mut own = std::process::Command::new("sleep").arg("600").spawn().expect("it starts");
    let event = |process, message: &str| ToSupervisor::Event {
        kind: "notice".to_owned(),
        router: Some("edge".to_owned()),
        of_peer: true,
        process,
        message: message.to_owned(),
    };
    let number = i32::try_from(own.id()).expect("a number");
    stage.plane().say(&event(Some(number), "NIC vm: a peer is served"));
    stage.turn().expect("it goes on");
    let user = std::fs::metadata("/proc/self").expect("facts").uid();
    let wanted = format!("NIC vm: a peer is served (process {number} of user {user})");
    assert_eq!(stage.lines("NIC vm"), std::slice::from_ref(&wanted));
    own.kill().and_then(|()| own.wait()).expect("it ends");
    stage.plane().say(&event(Some(number), "NIC vm: a peer is served"));
    stage.plane().say(&event(None, "NIC vm: the peer is gone"));
    stage.turn().expect("it goes on");
    let ended = format!("NIC vm: a peer is served (process {number}, which has ended)");
    assert_eq!(stage.lines("NIC vm"), [wanted, ended, "NIC vm: the peer is gone".to_owned()]);
}

#[test]
fn the_process_of_a_router_hears_of_no_neighbour() {
    let (mut stage, main, own) = isolated();
    let mut told: Vec<ToPlane> = Vec::new();
    let mut client = stage.client(&Request::Counters { router: Some("core".to_owned()) });
    main.serve(&[("core.lan.rx.frames".to_owned(), 7)].into());
    stage.turn().expect("it goes on");
    assert_eq!(counted(&mut client)["core.lan.rx.frames"], 7, "nobody waits for the other one");
    client.send(&Request::Counters { router: Some("edge".to_owned()) }).expect("sent");
    stage.turn().expect("it goes on");
    told.extend(std::iter::from_fn(|| own.told()));
    let Some(ToPlane::Ask { id, .. }) = told.last() else { panic!("{told:?}") };
    own.answer(*id, Ok(Answer::Counters(Counters::default())));
    main.serve(&BTreeMap::new());
    stage.turn().expect("it goes on");
    assert!(counted(&mut client).is_empty());
    let next = ISOLATED.replacen("192.0.2.1/24", "192.0.2.3/24", 1);
    client.send(&Request::Apply { file: "next.toml".to_owned(), text: next, dry_run: false }).expect("sent");
    stage.turn().expect("it goes on");
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    main.follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    told.extend(std::iter::from_fn(|| own.told()));
    assert!(matches!(told.as_slice(), [ToPlane::Start(_), .., ToPlane::Apply { .. }]), "{told:#?}");
    let text: Vec<String> =
        told.iter().map(|message| serde_json::to_string(message).expect("text")).collect();
    for (own, neighbours) in [("edge", "core"), ("192.0.2.1", "192.0.2.2"), ("192.0.2.3", "192.0.2.2")] {
        assert!(text.iter().any(|line| line.contains(own)), "{own}: {text:#?}");
        assert!(!text.iter().any(|line| line.contains(neighbours)), "{neighbours}: {text:#?}");
    }
}

/// A router's process answers for its own router alone, and once.
#[test]
fn a_process_that_answers_with_packets_ends_no_answer_of_others() {
    let (mut stage, main, own) = isolated();
    let mut client = stage.client(&Request::Counters { router: None });
    let id = own.asked(|request| matches!(request, Request::Counters { .. })).expect("it is asked");
    for number in 0..2 {
        let packet = Packet {
            number,
            at_ns: 0,
            len: 60,
            headers: String::new(),
            hops: Vec::new(),
            fate: Fate::Kept { after_ns: None },
        };
        own.answer(id, Ok(Answer::Packet(Box::new(packet))));
    }
    stage.turn().expect("it goes on");
    main.serve(&[("core.lan.rx.frames".to_owned(), 7)].into());
    stage.turn().expect("it goes on");
    assert_eq!(counted(&mut client)["core.lan.rx.frames"], 7);
}

/// A change that gives a router a process of its own may be made after the loop has looked after processes, and
/// before it looks after clients.
#[test]
fn who_asks_for_a_router_whose_process_was_not_looked_after_yet_is_answered() {
    let (mut stage, _main, _own) = isolated();
    let mut client = stage.client(&Request::Events { since: None });
    client.next_answer().expect("events");
    client.send(&Request::Start { router: "edge".to_owned() }).expect("sent");
    let now = stage.now;
    let supervisor = stage.supervisor();
    supervisor.isolated.clear();
    supervisor.attend_clients(now);
    let answer = client.next_answer().expect("an answer");
    assert!(matches!(answer, Answer::Done { message } if message == "the process of router edge is started"));
}
