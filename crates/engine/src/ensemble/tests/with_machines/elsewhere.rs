//! IPv6 of members that run elsewhere: kernel routers, and back ends on other hosts.

use frame::ipv6;
use frame::nd::{Advert, AdvertOptions, RouterAdvert, Solicit};

use super::*;

/// The group's address at its first NIC, and a host there.
const OWN: u128 = 0x2001_0db8_u128 << 96 | 1;
const HOST: u128 = OWN + 6;
/// A back end on another host.
const FAR: u32 = 63;
const TUNNELS: &str = "tunnels = 'udp:10.0.0.1:4800-10.0.0.2:4800'\n";

fn file(more: &str) -> String {
    let file = FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']");
    file.replace("backends = 2\n", &format!("backends = 2\n{more}"))
}

fn kernel_routers() -> Bench {
    bench_of(&file("").replace("'process'", "'kernel'"))
}

impl Bench {
    /// The switch between balancers and the first NICs of members.
    fn inner(&self) -> &Arc<Switch> {
        self.switches.iter().find(|switch| switch.name() == "core_w").expect("between the stages")
    }

    /// The Ethernet addresses of the group and of a member at the first NIC.
    fn stations(&self, member: u32) -> [frame::Mac; 2] {
        let own = self.group().stations(member).next().expect("a NIC");
        [self.group().pattern.nics[0].mac, own].map(|mac| frame::Mac(mac.0))
    }
}

/// A solicitation of a station; from 0: it tries the address.
fn solicitation(by: frame::Mac, source: u128, target: u128) -> nodes::Spoken {
    let (to, source_mac) = (ipv6::solicited_node(target), (source != 0).then_some(by));
    let solicit = Solicit { target, source_mac };
    nodes::spoken((by, ipv6::group_mac(to)), (source, to), |payload| solicit.write(payload))
}

fn send(port: &SwitchPort, octets: &mut [u8]) {
    port.deliver(&[Frame::new(Bytes::from_slice(octets))]);
}

/// All messages that have come to a port, with their frames.
fn messages(wire: &mut dyn Source) -> Vec<(nodes::Message, Vec<u8>)> {
    let mut all = Vec::new();
    let mut read = |frames: &[Frame<'_>]| {
        for frame in frames {
            let mut octets = [0; nodes::LONGEST];
            let len = frame.octets().copy_to_slice(&mut octets);
            let message = nodes::Message::read(&octets[..len]);
            all.extend(message.map(|message| (message, octets[..len].to_vec())));
        }
    };
    while wire.drain(BURST, &mut read) > 0 {}
    all
}

fn is_advert(message: &nodes::Message) -> bool {
    matches!(message.said, nodes::Said::Advert(_))
}

/// Does something again and again until a message comes that is wanted.
#[track_caller]
fn wait_for(
    wire: &mut dyn Source,
    again: &dyn Fn(),
    wanted: impl Fn(&nodes::Message) -> bool,
) -> (nodes::Message, Vec<u8>) {
    let end = Instant::now() + PATIENCE;
    loop {
        again();
        std::thread::sleep(Duration::from_millis(1));
        if let Some(found) = messages(wire).into_iter().find(|(message, _)| wanted(message)) {
            return found;
        }
        assert!(Instant::now() < end, "it does not come");
    }
}

#[test]
fn what_a_back_end_elsewhere_asks_is_asked_at_the_link_and_answered_to_it_alone() {
    let bench = bench_of(&file(TUNNELS));
    let (balancers, members) = all(&bench);
    let queue = || port::ingress(1000).expect("a queue");
    let [(of_far, mut to_far), (of_other, mut to_other), (of_station, mut wire)] =
        [queue(), queue(), queue()];
    let far = bench.inner().add_port("core_63.w", of_far).expect("a port");
    let _other = bench.inner().add_port("other", of_other).expect("a port");
    let station = bench.switches[0].add_port("station", of_station).expect("a port");
    let [group, mac] = bench.stations(FAR);
    let ask = || send(&far, &mut solicitation(mac, OWN, HOST));
    let is_question = |message: &nodes::Message| matches!(message.said, nodes::Said::Solicit(_));
    let (question, _) = wait_for(&mut wire, &ask, is_question);
    assert_eq!((question.by, question.source), (group, OWN), "in the group's name");
    let nodes::Said::Solicit(asked) = question.said else { panic!("{question:?}") };
    assert_eq!((asked.target, asked.source_mac), (HOST, Some(group)));
    let advert =
        Advert { target: HOST, target_mac: Some(STATION), router: false, solicited: true, overrides: true };
    let answer = || {
        let mut octets = nodes::spoken((STATION, group), (HOST, OWN), |payload| advert.write(payload));
        send(&station, &mut octets);
        // Who is told while no balancer carries the link asks again.
        ask();
    };
    let (_, told) = wait_for(&mut to_far, &answer, is_advert);
    assert_eq!((&told[..6], &told[6..12]), (&mac.0[..], &STATION.0[..]), "it alone, by the neighbour");
    // What is known is answered without asking.
    let asked = || bench.counted("core.w.group.nd_asked");
    let before = asked();
    wait_for(&mut to_far, &ask, is_advert);
    assert_eq!(asked(), before);
    assert!(!messages(&mut to_other).iter().any(|(message, _)| is_advert(message)), "nobody else is told");
    assert!(bench.counted("core.w.group.nd_kept") > 0);
    // The other balancer, and both members that are served here.
    let end = Instant::now() + PATIENCE;
    while bench.counted("core.w.group.nd_ignored") < 3 {
        assert!(Instant::now() < end, "{}", bench.counted("core.w.group.nd_ignored"));
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((members, balancers));
}

#[test]
fn discovery_of_a_stranger_behind_balancers_leaves_by_no_link() {
    let bench = bench_of(&file(TUNNELS));
    let (balancers, members) = all(&bench);
    let stranger = bench.inner().add_port("stranger", Arc::new(port::Null::new())).expect("a port");
    send(&stranger, &mut solicitation(STATION, HOST, HOST + 1));
    let end = Instant::now() + PATIENCE;
    // Two balancers and two members.
    while bench.counted("core.w.group.nd_ignored") < 4 {
        assert!(Instant::now() < end, "{}", bench.counted("core.w.group.nd_ignored"));
        std::thread::sleep(Duration::from_millis(1));
    }
    let passed = balancers.iter().map(|balancer| balancer.passed.load(Ordering::Relaxed));
    assert_eq!((passed.sum::<u64>(), bench.counted("core.w.group.nd_asked")), (0, 0));
    drop((members, balancers));
}

#[test]
fn the_last_advertisement_of_a_back_end_elsewhere_stays_behind_balancers() {
    for (ra, is_kept) in [("", false), ("[group.nic.ra]\n", true), ("[group.nic.ra]\nlifetime = 0\n", false)]
    {
        let bench =
            bench_of(&file(TUNNELS).replace("'2001:db8::1/64']\n", &format!("'2001:db8::1/64']\n{ra}")));
        let balancers = [0, 1].map(|number| bench.balancer(number));
        let core = bench.ensemble().core.clone();
        let [group, mac] = bench.stations(FAR);
        let options = AdvertOptions { mac, mtu: None, prefixes: &[], dns: (&[], 0) };
        let stations = (mac, ipv6::group_mac(ipv6::ALL_NODES));
        let ends = (ipv6::link_local(group), ipv6::ALL_NODES);
        let keeps = |lifetime: u16| {
            let advert = RouterAdvert { lifetime, ..RouterAdvert::default() };
            let mut octets = nodes::spoken(stations, ends, |payload| advert.write(&options, payload));
            core.keeps_last_advert(0, &Frame::new(Bytes::from_slice(&mut octets)))
        };
        let counted = || bench.counted("core.w.group.nd_kept");
        let before = counted();
        assert_eq!(
            (keeps(1800), keeps(0), counted() - before),
            (false, is_kept, u64::from(is_kept)),
            "{ra:?}"
        );
        let mut solicit = solicitation(mac, OWN, HOST);
        assert!(!core.keeps_last_advert(0, &Frame::new(Bytes::from_slice(&mut solicit))));
        drop(balancers);
    }
}

#[test]
fn a_member_that_is_served_here_hears_nothing_of_neighbours_from_others() {
    let bench = bench_of(&file(TUNNELS));
    let heard: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let noted = heard.clone();
    let member = bench.start(
        "core_0",
        Box::new(move |_, octets| {
            noted.lock().expect("nobody panicked").push(octets.to_vec());
            None
        }),
    );
    let far = bench.inner().add_port("core_63.w", Arc::new(port::Null::new())).expect("a port");
    let [_, mac] = bench.stations(FAR);
    let request = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: mac,
        sender_ip: u32::from_be_bytes([192, 0, 2, 1]),
        target_mac: frame::Mac::default(),
        target_ip: u32::from_be_bytes([192, 0, 2, 7]),
    };
    // It tries an address that the member has as well, and asks by one.
    send(&far, &mut solicitation(mac, 0, OWN));
    send(&far, &mut hosts::spoken(frame::Mac::BROADCAST, &request));
    let mut other = [0; ethernet::SHORTEST];
    other[..6].copy_from_slice(&frame::Mac::BROADCAST.0);
    other[6..12].copy_from_slice(&mac.0);
    other[12..14].copy_from_slice(&[8, 0]);
    send(&far, &mut other);
    let end = Instant::now() + PATIENCE;
    while heard.lock().expect("nobody panicked").is_empty() {
        assert!(Instant::now() < end, "nothing comes");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*heard.lock().expect("nobody panicked"), [other.to_vec()]);
    let counted = ["arp_ignored", "nd_ignored"].map(|name| bench.counted(&format!("core.w.group.{name}")));
    assert_eq!(counted, [1, 1]);
    drop(member);
}

#[test]
fn the_group_tries_its_addresses_once_for_kernel_routers() {
    let bench = kernel_routers();
    let (inbox, mut wire) = port::ingress(1000).expect("a queue");
    let _station = bench.switches[0].add_port("station", inbox).expect("a port");
    let balancers = [0, 1].map(|number| bench.balancer(number));
    let [group, _] = bench.stations(0);
    let (mut tried, end) = (Vec::new(), Instant::now() + PATIENCE);
    while tried.len() < 2 {
        assert!(Instant::now() < end, "{tried:?}");
        for (message, _) in messages(&mut wire) {
            let nodes::Said::Solicit(solicit) = message.said else { panic!("{message:?}") };
            tried.push((message.by, message.source, solicit.target));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(tried, [(group, 0, ipv6::link_local(group)), (group, 0, OWN)]);
    // Not again when another balancer carries the link.
    let core = bench.ensemble().core.clone();
    let front = core.front(0).expect("a link");
    let carrier = front.carrier().expect("there is one");
    assert!(core.cut(|name| name == format!("core_lb{carrier}")));
    let rounds = || bench.counted("core.group.rounds");
    let mut before = rounds();
    while rounds() < before + 10 {
        assert!(Instant::now() < end, "nobody carries the link");
        if front.carrier() == Some(carrier) || !front.is_carried() {
            before = rounds();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.counted("core.w.group.nd_asked"), 2);
    assert!(messages(&mut wire).is_empty());
    drop(balancers);
}

#[test]
fn the_first_kernel_router_tells_of_an_address_that_another_station_has() {
    let bench = kernel_routers();
    let router = bench.plan.routers.iter().find(|router| router.name == "core_lb0").expect("it is there");
    let (confinement, tables) = (sandbox::Confinement::Off, bench.tables.clone());
    let mut supplies = HostServices { confinement, tables, ..HostServices::default() };
    // No balancer passes anything yet, so that nothing was tried.
    let seat = bench.ensembles.seat((router, &router.nics[0]), &bench.switches, &mut supplies);
    let seat = seat.expect("a seat").expect("it is of the group");
    let core = bench.ensemble().core.clone();
    // However busy the host is, the trial is not over when the other station speaks.
    let tried = core.links[0].plain.nodes().tried_by_member(OWN, core.now() + PATIENCE);
    assert_eq!(tried.fate, nodes::Fate::GoesOn);
    let advert =
        Advert { target: OWN, target_mac: Some(STATION), router: false, solicited: false, overrides: true };
    let stations = (STATION, ipv6::group_mac(ipv6::ALL_NODES));
    let mut octets = nodes::spoken(stations, (OWN, ipv6::ALL_NODES), |payload| advert.write(payload));
    assert!(core.hears_discovery(0, &Frame::new(Bytes::from_slice(&mut octets)), &port::Null::new()));
    let line = "NIC w: another station has 2001:db8::1, an address of the group".to_owned();
    let (mut told, end) = (Vec::new(), Instant::now() + PATIENCE);
    let is_meant = |(_, news): &(String, News)| matches!(news, News::Told(line) if line.contains("NIC w"));
    while told.is_empty() {
        assert!(Instant::now() < end, "nobody tells");
        told.extend(core.take_news().into_iter().filter(is_meant));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(told, [("core_0".to_owned(), News::Told(line))]);
    drop(seat);
}
