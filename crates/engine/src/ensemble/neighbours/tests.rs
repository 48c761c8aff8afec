mod six;

use std::collections::BTreeSet;
use std::net::IpAddr;

use bootinfo::MAX_VCPUS;
use frame::ipv6;
use frame::nd::{Advert, Solicit};
use port::{Frame, Sink, Source, ingress};
use ring::{BURST as FRAMES, Bytes};
use router::neighbours::{PROBES, State};
use switch::{Config, Switch};

use super::*;
use crate::ensemble::{Ensemble, hosts, nodes, packet_of};
use crate::supplies::HostServices;
use crate::tables::tests::Made;

const FILE: &str = "[switch.lan]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 3\n[[group.nic]]\nname = 'lan'\n\
                    attach = 'switch:lan'\naddress = '192.0.2.1/24'\n";
const STATION: Mac = Mac([2, 0, 0, 0, 0, 7]);
const OWN: u32 = u32::from_be_bytes([192, 0, 2, 1]);
const HOST: u32 = u32::from_be_bytes([192, 0, 2, 7]);

/// A group of three members, whose desks are the test's, and all of which lead to what the test reads.
struct Bench {
    core: Arc<Core>,
    group: Group,
    members: Members,
    wire: Box<dyn Source>,
    out: Arc<dyn Sink>,
    /// Keeps the memory of the group.
    made: Made,
}

fn bench() -> Bench {
    bench_of(FILE)
}

fn bench_of(file: &str) -> Bench {
    let plan = config::parse(file, "group.toml").expect("a file");
    let made = Made::of(&plan.routers);
    let core = core(&plan.groups[0], &made);
    let (out, wire) = ingress(256).expect("a queue");
    let out: Arc<dyn Sink> = out;
    let member = |number: u16| {
        let member = Arc::new(Member::new(&format!("core_{number}"), number, vec![Mac::default()]));
        member.leads_to(0, &out);
        (number, member)
    };
    let members: Members = (0..3).map(member).collect();
    Bench { core, group: plan.groups[0].clone(), members, wire: Box::new(wire), out, made }
}

/// A group in a data plane that was handed this memory.
fn core(group: &Group, made: &Made) -> Arc<Core> {
    let lan = Arc::new(Switch::new("lan", Config::default()));
    let mut supplies = HostServices::default();
    supplies.tables.adopt(made.supplies("core")).expect("mapped");
    Ensemble::core(group, (&[lan], &mut supplies, None)).expect("a link")
}

const fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Bench {
    fn table(&self) -> Arc<NeighbourTable> {
        self.core.table().expect("there is one")
    }

    fn ask(&self, member: u16, question: Question) {
        self.core.tables.desk(&format!("core_{member}")).expect("a desk").ask(0, question);
    }

    /// Looks once; what comes to the wire of it: targets of ARP requests, and to whom they are sent.
    fn look(&mut self, now: Duration) -> Vec<(u32, Mac)> {
        assert_eq!(self.core.attend_neighbours(&self.members, now), Some(now + LOOK));
        let mut heard = Vec::new();
        let mut note = |frames: &[port::Frame<'_>]| {
            for frame in frames {
                let packet = packet_of(frame).expect("only ARP");
                assert_eq!((packet.operation, packet.sender_ip), (arp::Operation::Request, OWN));
                heard.push((packet.target_ip, Mac(frame.octets().read::<6>(0).expect("a frame"))));
            }
        };
        while self.wire.drain(FRAMES, &mut note) > 0 {}
        heard
    }

    /// The station answers.
    fn answer(&self, now: Duration) {
        let packet = arp::Packet {
            operation: arp::Operation::Reply,
            sender_mac: STATION,
            sender_ip: HOST,
            target_mac: Mac(self.group.pattern.nics[0].mac.0),
            target_ip: OWN,
        };
        let segment = &self.core.links[0].plain;
        let heard = segment.hosts().hear_network(&packet, now);
        assert!(!heard.goes_on);
        self.core.note_neighbour(segment, &packet, now);
    }

    fn find(&self) -> Option<Mac> {
        self.table().find(0, Ip::v4(HOST))
    }
}

const WANTED: Question = Question { nic: 0, ip: HOST };

/// A VLAN of the NIC: interface 1 of members.
const VLAN: &str = "[[group.interface]]\nname = 'v'\nnic = 'lan'\nvlan = 100\naddress = '10.50.0.1/24'\n";
const TAG: [u8; 4] = [0x81, 0, 0, 100];
const IN_VLAN: u32 = u32::from_be_bytes([10, 50, 0, 7]);

/// Looks once; what comes to the wire of it: whether each frame has the tag of the VLAN, and the target of the ARP request in it.
fn asked_with_tags(bench: &mut Bench, now: Duration) -> Vec<(bool, u32)> {
    bench.core.attend_neighbours(&bench.members, now);
    let mut heard = Vec::new();
    let mut note = |frames: &[Frame<'_>]| {
        for frame in frames {
            let mut octets = [0; nodes::LONGEST];
            let len = frame.octets().copy_to_slice(&mut octets);
            let is_tagged = octets[12..16] == TAG;
            let packet = &octets[if is_tagged { 18 } else { 14 }..len];
            heard.push((is_tagged, arp::Packet::parse(packet).expect("only ARP").target_ip));
        }
    };
    while bench.wire.drain(FRAMES, &mut note) > 0 {}
    heard
}

#[test]
fn what_all_members_ask_for_is_asked_once_and_known_to_all() {
    let mut bench = bench();
    (0..3).for_each(|member| bench.ask(member, WANTED));
    assert_eq!(bench.look(at(10)), [(HOST, Mac::BROADCAST)], "once on the wire");
    assert_eq!(bench.find(), None);
    bench.ask(1, WANTED);
    assert_eq!(bench.look(at(20)), [], "it was asked just now");
    bench.answer(at(30));
    assert_eq!(bench.find(), Some(STATION));
    bench.ask(2, WANTED);
    assert_eq!(bench.look(at(200)), [], "it is known");
    assert_eq!(bench.core.counters.questions.get(), 5);
    assert_eq!(bench.core.links[0].counters.arp_asked.get(), 1);
}

#[test]
fn a_table_without_room_is_counted_and_told() {
    let bench = bench();
    let (table, start) = (bench.table(), Instant::now());
    let replaced = || bench.core.counters.neighbours_replaced.get();
    let mut last = 0;
    while replaced() == 0 {
        assert_eq!(bench.core.shortage(start, 64), None);
        last += 1;
        assert!(last < 10_000, "it has room for more than it is to have");
        let neighbour = Neighbour { nic: 0, ip: Ip::v4(0x0a00_0000 + last), mac: STATION };
        bench.core.learn_neighbour(&table, neighbour, at(u64::from(last)));
    }
    let line = bench.core.shortage(start, 64).expect("it is told");
    assert!(
        line.starts_with("the neighbour table has no room: 1 neighbours") && line.contains("64"),
        "{line}"
    );
    assert_eq!(bench.core.shortage(start, 64), None, "nothing has changed");
}

#[test]
fn a_gateway_is_asked_for_in_any_case_and_avoided_while_it_does_not_answer() {
    let silent = u32::from_be_bytes([192, 0, 2, 8]);
    let route = "[[group.route]]\nto = '10.0.0.0/8'\nvia = ['192.0.2.7', '192.0.2.8']\n";
    let mut bench = bench_of(&FILE.replace("[[group.nic]]", &format!("{route}[[group.nic]]")));
    let news = |bench: &Bench| -> Option<Vec<(usize, u32)>> {
        let gateways = bench.core.take_gateways()?;
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_bits(),
            IpAddr::V6(ip) => panic!("{ip}"),
        };
        Some(gateways.into_iter().map(|(nic, ip)| (nic, bits(ip))).collect())
    };
    assert_eq!(bench.look(at(0)), [(HOST, Mac::BROADCAST), (silent, Mac::BROADCAST)]);
    assert_eq!(news(&bench), None, "those that were avoided before still are");
    bench.answer(at(1));
    assert_eq!(bench.look(at(990)), [], "one is known, and the other one was asked for just now");
    for second in [1, 2] {
        assert_eq!(bench.look(at(1000 * second)), [(silent, Mac::BROADCAST)]);
        assert_eq!(news(&bench), None);
    }
    assert_eq!(bench.look(at(3000)), [(silent, Mac::BROADCAST)], "it may come back");
    assert_eq!((news(&bench), news(&bench)), (Some(vec![(0, silent)]), None));
    bench.table().learn(Neighbour { nic: 0, ip: Ip::v4(silent), mac: STATION }, true, 3500);
    assert_eq!((bench.look(at(4000)), news(&bench)), (vec![], Some(vec![])));
    bench.core.forget_told_gateways();
    assert_eq!((news(&bench), news(&bench)), (Some(vec![]), None), "it is told again, as it is known");
    // Without a cable none is reached, whatever is known.
    bench.core.links[0].set_pulled(true);
    assert_eq!(bench.look(at(4010)), []);
    assert_eq!(news(&bench), Some(vec![(0, HOST), (0, silent)]));
}

#[test]
fn many_gateways_are_asked_for_in_one_burst_after_the_other() {
    let route = |(net, first): (u8, u8)| {
        let via: Vec<String> = (first..first + 64).map(|last| format!("'192.0.2.{last}'")).collect();
        format!("[[group.route]]\nto = '{net}.0.0.0/8'\nvia = [{}]\n", via.join(", "))
    };
    let routes: String = [(10, 2), (11, 66)].map(route).concat();
    let mut bench = bench_of(&FILE.replace("[[group.nic]]", &format!("{routes}[[group.nic]]")));
    let mut asked = bench.look(at(0));
    assert_eq!(asked.len(), 64);
    asked.extend(bench.look(at(10)));
    asked.sort_unstable_by_key(|(ip, _)| *ip);
    asked.dedup();
    assert_eq!(asked.len(), 128, "each once");
    assert_eq!(bench.look(at(20)), []);
}

#[test]
fn gateways_that_no_member_can_ask_for_are_not_blamed_and_those_of_a_plan_before_are_forgotten() {
    let route = "[[group.route]]\nto = '10.0.0.0/8'\nvia = ['192.0.2.7', '192.0.2.8']\n";
    let mut bench = bench_of(&FILE.replace("[[group.nic]]", &format!("{route}[[group.nic]]")));
    bench.members.clear();
    for second in 0..9 {
        assert_eq!(bench.look(at(1000 * second)), []);
    }
    assert_eq!(bench.core.take_gateways(), None);
    bench.core.links[0].set_pulled(true);
    bench.look(at(10_000));
    assert!(bench.core.take_gateways().is_some_and(|gateways| gateways.len() == 2));
    let plan = config::parse(FILE, "group.toml").expect("a file");
    bench.core.set_gateways(&plan.groups[0]);
    bench.look(at(10_010));
    assert_eq!((bench.core.take_gateways(), bench.core.take_gateways()), (Some([].into()), None));
}

#[test]
fn gateways_of_learned_routes_are_watched_beside_those_of_the_plan() {
    let route = "[[group.route]]\nto = '10.0.0.0/8'\nvia = ['192.0.2.8', '192.0.2.9']\n";
    let mut bench = bench_of(&FILE.replace("[[group.nic]]", &format!("{route}[[group.nic]]")));
    let host = |last: u8| (0_usize, IpAddr::from([192, 0, 2, last]));
    bench.core.watch_gateways([host(7), host(8), (9, host(7).1)].into());
    let asked: Vec<u8> = bench.look(at(0)).into_iter().map(|(ip, _)| ip as u8).collect();
    assert_eq!(asked, [7, 8, 9], "of links that are there");
    bench.answer(at(5));
    (1..=4).for_each(|second| _ = bench.look(at(1000 * second)));
    assert_eq!(bench.core.take_gateways(), Some([host(8), host(9)].into()));
    // Another plan leaves them as they are, and other routes the plan's.
    bench.core.set_gateways(&config::parse(FILE, "group.toml").expect("a file").groups[0]);
    bench.look(at(4010));
    assert_eq!(bench.core.take_gateways(), Some([host(8)].into()));
    bench.core.watch_gateways(BTreeSet::new());
    bench.look(at(4020));
    assert_eq!(bench.core.take_gateways(), Some(BTreeSet::new()));
}

#[test]
fn of_very_many_learned_gateways_some_are_watched_and_the_others_used_whether_they_answer_or_not() {
    let route = "[[group.route]]\nto = '10.0.0.0/8'\nvia = ['192.0.255.1', '192.0.255.2']\n";
    let file = FILE.replace("192.0.2.1/24", "192.0.2.1/16");
    let mut bench = bench_of(&file.replace("[[group.nic]]", &format!("{route}[[group.nic]]")));
    let four = |number: u32| u32::from_be_bytes([192, 0, 4, 0]) + number;
    let gateway = |ip: u32| (0_usize, IpAddr::from(ip.to_be_bytes()));
    let of_plan = [1, 2].map(|last| u32::from_be_bytes([192, 0, 255, last]));
    // Two of the plan, and as many learned ones as are watched beside them, by their addresses; then 100 more.
    let watched: BTreeSet<u32> = (1..=1022).map(four).chain(of_plan).collect();
    bench.core.watch_gateways((1..=1122).map(four).map(gateway).collect());
    for second in 0..=3 {
        let asked = asked_in_rounds(&mut bench, second * 1000, 18);
        assert_eq!(asked, watched, "in second {second}");
    }
    // All are silent, and no others are avoided.
    assert_eq!(bench.core.take_gateways(), Some(watched.into_iter().map(gateway).collect()));
    // Those that were not watched are when others are gone.
    bench.core.watch_gateways((1023..=1122).map(four).map(gateway).collect());
    let watched: BTreeSet<u32> = (1023..=1122).map(four).chain(of_plan).collect();
    assert_eq!(asked_in_rounds(&mut bench, 4000, 18), watched);
}

/// Looks so often from a time on; the addresses that are asked for, in each look as many as it may and each once.
fn asked_in_rounds(bench: &mut Bench, begin: u64, looks: u64) -> BTreeSet<u32> {
    let mut asked = BTreeSet::new();
    for look in 0..looks {
        let heard = bench.look(at(begin + 10 * look));
        assert!(heard.len() <= 64, "{} at once", heard.len());
        assert!(heard.into_iter().all(|(ip, to)| to == Mac::BROADCAST && asked.insert(ip)), "each once");
    }
    asked
}

#[test]
fn ipv6_gateways_of_the_plan_are_asked_for_by_discovery_and_avoided_while_they_do_not_answer() {
    let route = "[[group.route]]\nto = '2001:db8:9::/48'\nvia = ['2001:db8::7', '2001:db8::8']\n";
    let file = FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']");
    let bench = bench_of(&(file + route));
    let of = |last: u16| (0_usize, IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]));
    let known = Ip::v6(0x2001_0db8_u128 << 96 | 7);
    bench.table().learn(Neighbour { nic: 0, ip: known, mac: STATION }, true, 0);
    for second in 0..=3 {
        bench.core.attend_neighbours(&bench.members, at(1000 * second));
    }
    assert_eq!(bench.core.take_gateways(), Some([of(8)].into()));
}

#[test]
fn an_ipv6_gateway_of_a_learned_route_is_asked_for_by_discovery() {
    let bench = bench_of(&FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']"));
    let gateway = (0_usize, "2001:db8::7".parse::<IpAddr>().expect("an address"));
    bench.core.watch_gateways([gateway].into());
    for second in 0..=4 {
        bench.core.attend_neighbours(&bench.members, at(1000 * second));
    }
    let counters = &bench.core.links[0].counters;
    assert_eq!((counters.nd_asked.get() > 2, counters.arp_asked.get()), (true, 0));
    assert_eq!(bench.core.take_gateways(), Some([gateway].into()));
    // Without an IPv6 address nobody can ask: it is avoided without a question.
    let mute = bench_of(FILE);
    mute.core.watch_gateways([gateway].into());
    mute.core.attend_neighbours(&mute.members, at(0));
    assert_eq!(mute.core.links[0].counters.nd_asked.get(), 0);
    assert_eq!(mute.core.take_gateways(), Some([gateway].into()));
}

#[test]
fn a_neighbour_in_a_vlan_is_asked_for_there_and_known_by_the_number_of_its_interface() {
    let mut bench = bench_of(&format!("{FILE}{VLAN}"));
    let wanted = Question { nic: 1, ip: IN_VLAN };
    (0..3).for_each(|member| bench.ask(member, wanted));
    bench.ask(0, Question { nic: 2, ip: IN_VLAN });
    assert_eq!(asked_with_tags(&mut bench, at(10)), [(true, IN_VLAN)], "once on the wire");
    assert_eq!(bench.core.counters.questions_refused.get(), 1, "there is no such interface");
    let group = Mac(bench.group.pattern.nics[0].mac.0);
    let answer = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: STATION,
        sender_ip: IN_VLAN,
        target_mac: group,
        target_ip: u32::from_be_bytes([10, 50, 0, 1]),
    };
    let plain = hosts::spoken(group, &answer);
    let mut octets = [&plain[..12], &TAG, &plain[12..]].concat();
    assert!(bench.core.hears_network(0, &Frame::new(Bytes::from_slice(&mut octets)), &*bench.out));
    let (ip, table) = (Ip::v4(IN_VLAN), bench.table());
    assert_eq!((table.find(1, ip), table.find(0, ip)), (Some(STATION), None));
    bench.ask(1, wanted);
    assert_eq!(asked_with_tags(&mut bench, at(200)), [], "it is known");
    // The cable is that of its NIC.
    bench.core.doubt_neighbours(|nic| nic == 1);
    assert_eq!(table.state(1, ip), State::Reachable);
    bench.core.doubt_neighbours(|nic| nic == 0);
    assert_eq!(table.state(1, ip), State::Doubted);
    assert_eq!(asked_with_tags(&mut bench, LATE), [(true, IN_VLAN)]);
}

#[test]
fn gateways_in_a_vlan_are_asked_for_there_and_told_by_the_number_of_its_interface() {
    let route = "[[group.route]]\nto = '10.0.0.0/8'\nvia = ['192.0.2.7', '10.50.0.7']\n";
    let mut bench = bench_of(&format!("{FILE}{VLAN}{route}"));
    let learned = (1_usize, IpAddr::from([10, 50, 0, 8]));
    bench.core.watch_gateways([learned, (2, learned.1)].into());
    let asked = asked_with_tags(&mut bench, at(0));
    assert_eq!(asked, [(false, HOST), (true, IN_VLAN), (true, IN_VLAN + 1)]);
    for second in 1..=3 {
        asked_with_tags(&mut bench, at(1000 * second));
    }
    let of_plan = [(0, IpAddr::from([192, 0, 2, 7])), (1, IpAddr::from([10, 50, 0, 7]))];
    let silent: BTreeSet<(usize, IpAddr)> = of_plan.into_iter().chain([learned]).collect();
    assert_eq!(bench.core.take_gateways(), Some(silent));
}

#[test]
fn a_station_that_nobody_asked_for_is_learned_only_if_it_speaks_to_the_group() {
    let bench = bench();
    let packet = |target_ip| arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: STATION,
        sender_ip: HOST,
        target_mac: Mac::default(),
        target_ip,
    };
    let hear = |target_ip| {
        let segment = &bench.core.links[0].plain;
        segment.hosts().hear_network(&packet(target_ip), at(1));
        bench.core.note_neighbour(segment, &packet(target_ip), at(1));
        bench.find()
    };
    assert_eq!((hear(HOST + 1), hear(OWN)), (None, Some(STATION)));
}

#[test]
fn neighbours_are_kept_fresh_for_all_members_and_forgotten_when_they_do_not_answer() {
    let mut bench = bench();
    bench.ask(0, WANTED);
    assert_eq!(bench.look(at(0)).len(), 1);
    bench.answer(at(5));
    assert_eq!(bench.look(at(10)), [], "its time begins");
    assert_eq!(bench.look(at(REACHABLE + 20)), [(HOST, STATION)], "it is asked by itself");
    bench.answer(at(REACHABLE + 25));
    let later = 2 * REACHABLE + 30;
    let asked: Vec<_> = (0..=u64::from(PROBES)).map(|n| bench.look(at(later + 1000 * n)).len()).collect();
    assert_eq!((asked.iter().sum::<usize>(), bench.find()), (PROBES as usize, None), "{asked:?}");
    bench.ask(0, WANTED);
    assert_eq!(bench.look(at(later + 60_000)), [(HOST, Mac::BROADCAST)], "it is asked for anew");
}

#[test]
fn a_member_that_asks_without_end_is_heard_at_its_pace_and_makes_no_other_one_wait() {
    let mut bench = bench();
    let flood = |bench: &Bench, number: u32| {
        let desk = bench.core.tables.desk("core_0").expect("a desk");
        for vcpu in 0..MAX_VCPUS {
            (0..200).for_each(|ip| desk.ask(vcpu, Question { nic: 0, ip: HOST + 1 + (ip + number) % 200 }));
        }
    };
    flood(&bench, 0);
    bench.ask(1, WANTED);
    let asked = bench.look(at(10));
    assert!(asked.contains(&(HOST, Mac::BROADCAST)), "the other one is heard in the same round");
    assert!(asked.len() <= BURST as usize + 1, "{}", asked.len());
    for round in 1..=100 {
        flood(&bench, round);
        bench.look(at(10 + 10 * u64::from(round)));
    }
    let heard = bench.core.counters.questions.get();
    assert!(heard <= u64::from(BURST + RATE) + 1 + 1, "{heard} in a second");
    assert!(bench.core.counters.questions_lost.get() > 10 * heard, "the rest is counted");
}

#[test]
fn nobody_is_asked_for_what_no_station_can_have() {
    let mut bench = bench();
    let foreign =
        [[192, 0, 2, 0], [192, 0, 2, 255], [192, 0, 2, 1], [224, 0, 0, 1], [127, 0, 0, 1], [0; 4], [255; 4]];
    for ip in foreign {
        bench.ask(0, Question { nic: 0, ip: u32::from_be_bytes(ip) });
    }
    bench.ask(0, Question { nic: 1, ip: HOST });
    bench.ask(0, Question { nic: 255, ip: HOST });
    assert_eq!(bench.look(at(10)), []);
    assert_eq!(bench.core.counters.questions_refused.get(), 9);
}

#[test]
fn without_a_way_out_a_question_is_lost_and_counted() {
    let mut bench = bench();
    bench
        .members
        .values()
        .for_each(|member| member.leads_to(0, &(Arc::new(port::Null::new()) as Arc<dyn Sink>)));
    bench.ask(0, WANTED);
    assert_eq!(bench.look(at(10)), []);
    assert_eq!(bench.core.links[0].counters.drop_asked.get(), 1);
}

#[test]
fn the_next_data_plane_finds_the_neighbours_and_asks_whether_they_are_still_there() {
    let mut first = bench();
    first.ask(0, WANTED);
    first.look(at(0));
    first.answer(at(5));
    let mut next = Bench { core: core(&first.group, &first.made), ..bench() };
    assert_eq!((next.find(), next.table().state(0, Ip::v4(HOST))), (Some(STATION), State::Doubted));
    let asked = next.look(LATE);
    assert_eq!(asked, [(HOST, Mac::BROADCAST); 2], "by the question that is still at the desk, and by doubt");
    next.answer(LATE + at(5));
    assert_eq!(next.table().state(0, Ip::v4(HOST)), State::Reachable);
}

#[test]
fn static_neighbours_are_there_for_all_those_of_probes_among_them() {
    let bench = bench();
    let probe = Ip::v4(group::probe::destination(0));
    assert_eq!(bench.table().find(0, probe), Some(group::probe::BACK));
    let mut group = bench.group.clone();
    let address = std::net::Ipv4Addr::new(192, 0, 2, 9);
    group.pattern.neighbours.push(config::Neighbour { address, mac: config::Mac(STATION.0), nic: 0 });
    bench.core.follow(&group);
    assert_eq!(bench.table().state(0, Ip::v4(address.to_bits())), State::Static);
    bench.core.follow(&bench.group);
    assert_eq!(bench.table().find(0, Ip::v4(address.to_bits())), None);
}

#[test]
fn a_cable_that_is_plugged_in_again_leads_to_doubt_at_its_nic() {
    let mut bench = bench();
    bench.ask(0, WANTED);
    bench.look(at(0));
    bench.answer(at(5));
    bench.core.doubt_neighbours(|nic| nic == 1);
    assert_eq!(bench.table().state(0, Ip::v4(HOST)), State::Reachable, "that is another one");
    bench.core.doubt_neighbours(|nic| nic == 0);
    assert_eq!((bench.find(), bench.look(LATE)), (Some(STATION), vec![(HOST, Mac::BROADCAST)]));
}

/// After everything that happens in a test, whose own clock is that of its group.
const LATE: Duration = Duration::from_secs(3600);
