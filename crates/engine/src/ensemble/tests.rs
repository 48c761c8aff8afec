mod with_balancers;

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use attach::{Ports, ServiceContext};
use frame::nd::{AdvertOptions, RouterAdvert, Solicit};
use frame::{ethernet, ipv6};
use group::probe;
use nic_port::NicQueues;
use port::Source;
use ring::BURST;
use switch::{Config, SwitchPort};

use super::*;

const FILE: &str = "[switch.west]\n[switch.east]\n[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\n\
                    [[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n\
                    [[group.nic]]\nname = 'e'\nattach = 'switch:east'\naddress = '198.51.100.1/24'\n";
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const STATION: frame::Mac = frame::Mac([2, 0, 0, 0, 0, 1]);

/// A group between two switches, and a station on the first.
struct Bench {
    switches: Vec<Arc<Switch>>,
    group: Group,
    counts: CounterRegistry,
    ensemble: Arc<Ensemble>,
    station: OnceCell<SwitchPort>,
}

fn bench() -> Bench {
    bench_of(FILE)
}

/// Creates a bench with a balancer in front of the members, which spreads frames in this way.
fn multistage(spread: &str) -> Bench {
    let stages = format!("kind = 'multistage'\nbackends = 2\nspread = '{spread}'\n");
    bench_of(&FILE.replace("kind = 'parallel'\nmembers = 2\n", &stages))
}

fn bench_of(file: &str) -> Bench {
    let plan = plan(file);
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = plan.switches.iter().map(switch).collect();
    let (group, counts, mut supplies) =
        (plan.groups[0].clone(), CounterRegistry::default(), HostServices::default());
    let ensemble = Ensemble::start(&group, (&switches, &mut supplies, None), &counts).expect("it starts");
    Bench { switches, group, counts, ensemble, station: OnceCell::new() }
}

/// A member that forwards: what comes in by one NIC leaves by the other one.
struct Forwarder {
    seats: Vec<Arc<dyn Attachment>>,
    runs: Arc<AtomicBool>,
    /// Whether it only asks for neighbours any more, and forwards nothing.
    talks: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bench {
    fn seats(&self, number: u16) -> Vec<Arc<dyn Attachment>> {
        let seat =
            |nic| self.ensemble.seat((&format!("core_{number}"), number), nic, None).expect("two NICs");
        [0, 1].map(seat).into()
    }

    fn member(&self, number: u16) -> Forwarder {
        let seats = self.seats(number);
        let ports = [0, 1].map(|nic: usize| {
            let wanted = self.group.wanted(&self.group.pattern.nics[nic]);
            let queues = NicQueues::foreign(1).expect("descriptors");
            let site =
                ServiceContext { wanted: &wanted, threads: 1, queues: &queues, entry: &|_, sink| sink };
            seats[nic].ports(&site).expect("it is served")
        });
        let (runs, talks) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (go_on, only_talk) = (runs.clone(), talks.clone());
        let thread = std::thread::spawn(move || forward(ports, &go_on, &only_talk));
        Forwarder { seats, runs, talks, thread: Some(thread) }
    }

    fn state(&self, member: u16) -> String {
        self.ensemble.core.state_of(member, 0).unwrap_or_default()
    }

    #[track_caller]
    fn becomes(&self, states: &[&str]) {
        let end = Instant::now() + PATIENCE;
        let is = || (0..).zip(states).all(|(member, state)| self.state(member) == *state);
        while !is() {
            assert!(Instant::now() < end, "{states:?} {:?}", [self.state(0), self.state(1)]);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A station on the first switch sends a frame of each of 64 flows.
    fn send_64_flows(&self) {
        let station = self.station.get_or_init(|| {
            self.switches[0].add_port("station", Arc::new(port::Null::new())).expect("a port")
        });
        for flow in 0..64_u8 {
            let mut octets = [0; 60];
            octets[..6].copy_from_slice(&self.group.pattern.nics[0].mac.0);
            octets[6..12].copy_from_slice(&STATION.0);
            octets[12..15].copy_from_slice(&[8, 0, 0x45]);
            (octets[22], octets[23], octets[35]) = (64, 17, flow);
            station.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
        }
    }

    /// Members forward a frame of each of 64 flows, some from each queue: what came by it before is answered by now, if it ever is.
    #[track_caller]
    fn forwards_64_flows(&self) {
        let forwarded = || self.counted("core.e.group.probes_foreign");
        let (end, before) = (Instant::now() + PATIENCE, forwarded());
        self.send_64_flows();
        while forwarded() < before + 64 {
            assert!(Instant::now() < end, "{} of 64 frames are forwarded", forwarded() - before);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn counted(&self, name: &str) -> u64 {
        self.counts.read().counters.get(name).copied().unwrap_or(0)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.runs.store(false, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

fn forward(mut ports: [Ports; 2], runs: &AtomicBool, talks: &AtomicBool) {
    while runs.load(Ordering::Relaxed) {
        let [west, east] = &mut ports;
        if talks.load(Ordering::Relaxed) {
            talk(&mut west.sources, &*west.sinks[0]);
            talk(&mut east.sources, &*east.sinks[0]);
        } else {
            across(&mut west.sources, &*east.sinks[0]);
            across(&mut east.sources, &*west.sinks[0]);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Takes what comes, and asks for a neighbour.
fn talk(sources: &mut [Box<dyn Source>], to: &dyn Sink) {
    for source in sources {
        source.drain(BURST, &mut |_| {});
    }
    let mut request = arp(arp::Operation::Request, (STATION, [192, 0, 2, 1]), [192, 0, 2, 7]);
    to.deliver(&[Frame::new(Bytes::from_slice(&mut request))]);
}

fn across(sources: &mut [Box<dyn Source>], to: &dyn Sink) {
    for source in sources {
        source.drain(BURST, &mut |frames| {
            for frame in frames {
                let mut octets = [0; 60];
                frame.octets().copy_to_slice(&mut octets);
                if octets[12..14] == [8, 0] {
                    route(&mut octets);
                    to.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
                }
            }
        });
    }
}

/// What a router does with a probe.
fn route(octets: &mut [u8; 60]) {
    octets[..6].copy_from_slice(&probe::BACK.0);
    octets[22] -= 1;
    octets[24..26].fill(0);
    let words = octets[14..34].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    octets[24..26].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn who_forwards_has_queues_and_who_does_not_has_none() {
    let bench = bench();
    let first = bench.member(0);
    bench.becomes(&["serving, 8 of 8 queues"]);
    let second = bench.member(1);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let seats = second.seats.clone();
    // It is there and forwards nothing.
    drop(second);
    let end = Instant::now() + PATIENCE;
    while bench.state(0) != "serving, 8 of 8 queues" {
        assert!(Instant::now() < end, "{}", bench.state(1));
        std::thread::sleep(Duration::from_millis(1));
    }
    let second = bench.member(1);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let told: Vec<String> = bench.ensemble.core.take_news().into_iter().map(|(name, _)| name).collect();
    assert!(told.contains(&"core_1".to_owned()), "{told:?}");
    assert!(bench.counted("core.group.suspected") > 0 && bench.counted("core.w.group.probes_back") > 0);
    drop((seats, second));
    bench.becomes(&["serving, 8 of 8 queues", ""]);
    drop(first);
}

#[test]
fn a_member_that_talks_and_forwards_nothing_has_no_queues() {
    let bench = bench();
    let (first, second) = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let talked = || -> u64 {
        ["arp_kept", "arp_asked"].iter().map(|name| bench.counted(&format!("core.w.group.{name}"))).sum()
    };
    let before = talked();
    second.talks.store(true, Ordering::Relaxed);
    let end = Instant::now() + PATIENCE;
    while bench.state(0) != "serving, 8 of 8 queues" {
        assert!(Instant::now() < end, "{}", bench.state(1));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(talked() > before, "it lives, as far as the network sees");
    second.talks.store(false, Ordering::Relaxed);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop((first, second));
}

/// A sink that takes so many frames of each burst, and counts them.
struct Narrow(usize, AtomicUsize);

impl Sink for Narrow {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        let taken = frames.len().min(self.0);
        self.1.fetch_add(taken, Ordering::Relaxed);
        taken
    }
}

#[test]
fn frames_count_up_to_the_first_that_is_lost_whatever_is_kept_of_them() {
    let mut octets: Vec<[u8; 60]> = (0..70).map(|number| [number; 60]).collect();
    let frames: Vec<Frame<'_>> =
        octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    let deliver = |room: usize, is_kept: fn(u8) -> bool| {
        let sink = Narrow(room, AtomicUsize::new(0));
        let keeps = |frame: &Frame<'_>| frame.octets().read::<1>(0).is_some_and(|[number]| is_kept(number));
        let taken = seat::deliver_left(&sink, &frames, keeps, |_| {});
        (taken, sink.1.load(Ordering::Relaxed))
    };
    let is_odd = |number: u8| number % 2 == 1;
    assert_eq!(deliver(BURST, is_odd), (70, 35));
    assert_eq!(deliver(3, is_odd), (6, 6), "the next burst is passed on all the same");
    assert_eq!(deliver(0, |number| number < 65), (65, 0));
    assert_eq!(deliver(0, |_| true), (70, 0));
}

#[test]
fn one_whose_process_has_ended_is_not_probed_for_long() {
    let bench = bench();
    let (first, second) = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let is_there = Arc::new(AtomicBool::new(true));
    let asked = is_there.clone();
    let member = bench.ensemble.core.live().remove(&1).expect("it is there");
    member.watch(Box::new(move || asked.load(Ordering::Relaxed)));
    assert!(!member.is_gone());
    is_there.store(false, Ordering::Relaxed);
    let ended = |(name, news): &(String, News)| {
        name == "core_1" && matches!(news, News::Told(line) if line.starts_with("nobody is at its NICs"))
    };
    // A busy host may make a member suspect before.
    let (end, mut told) = (Instant::now() + PATIENCE, Vec::new());
    while !told.iter().any(ended) {
        assert!(Instant::now() < end, "{}: {told:?}", bench.state(1));
        told.extend(bench.ensemble.core.take_news());
        std::thread::sleep(Duration::from_millis(1));
    }
    is_there.store(true, Ordering::Relaxed);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop((first, second));
}

#[test]
fn a_member_that_leaves_gives_its_queues_to_others_at_once() {
    let bench = bench();
    let (first, second) = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    assert!(bench.ensemble.core.leave(Aside::Planned, |name| name == "core_1"));
    assert!(!bench.ensemble.core.leave(Aside::Planned, |name| name == "core_1"), "it leaves already");
    assert_eq!([bench.state(0), bench.state(1)], ["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
    bench.ensemble.core.stay(Aside::Planned, |name| name == "core_0");
    assert_eq!(bench.state(1), "leaving, 0 of 8 queues");
    bench.ensemble.core.stay(Aside::Planned, |_| true);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop((first, second));
}

#[test]
fn who_has_two_reasons_to_be_without_frames_waits_until_both_are_over() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let core = &bench.ensemble.core;
    core.leave(Aside::Drained, |name| name == "core_1");
    core.stay(Aside::Planned, |_| true);
    assert_eq!(bench.state(1), "leaving, 0 of 8 queues", "another change of the plan is made meanwhile");
    core.leave(Aside::Planned, |name| name == "core_1");
    core.stay(Aside::Drained, |_| true);
    assert_eq!(bench.state(1), "leaving, 0 of 8 queues");
    core.stay(Aside::Planned, |_| true);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop(members);
}

#[test]
fn a_member_gets_no_frames_until_it_knows_the_routes_of_its_control_plane() {
    let bench = bench();
    let first = bench.member(0);
    // It is set aside before it runs.
    let core = &bench.ensemble.core;
    let seats = bench.seats(1);
    core.leave(Aside::Learning, |name| name == "core_1");
    let second = bench.member(1);
    bench.becomes(&["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
    core.stay(Aside::Learning, |name| name == "core_1");
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop((first, second, seats));
}

#[test]
fn a_member_with_a_cable_of_its_own_out_gets_no_frames_and_is_not_blamed() {
    let group = plan(FILE).groups.remove(0);
    let with = |of_all: bool, own: bool| {
        let mut plan = plan(FILE);
        let down = |nic: &mut Nic, is_out: bool| nic.link = is_out.then_some(config::LinkState::Down);
        plan.routers.iter_mut().for_each(|router| down(&mut router.nics[0], of_all));
        down(&mut plan.routers[1].nics[0], of_all || own);
        let mut group = group.clone();
        down(&mut group.pattern.nics[0], of_all);
        ["core_0", "core_1", "core_2"].map(|name| has_serving(&plan, &group, name))
    };
    assert_eq!(with(false, false), [true, true, false]);
    assert_eq!(with(false, true), [true, false, false]);
    assert_eq!(with(true, true), [true, true, false], "nobody can serve by it, and all can by the others");
}

#[test]
fn a_parked_member_has_no_queues_and_stands_in_for_one_that_is_away() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let core = &bench.ensemble.core;
    let with_parked = |parked: u32| Group { parked, ..bench.group.clone() };
    core.follow(&with_parked(1));
    bench.becomes(&["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    core.leave(Aside::Planned, |name| name == "core_0");
    bench.becomes(&["leaving, 0 of 8 queues", "serving, 8 of 8 queues"]);
    core.stay(Aside::Planned, |_| true);
    bench.becomes(&["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    core.follow(&with_parked(0));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    assert!(core.counters.parked.get() >= 2 && core.counters.woken.get() >= 2);
    drop(members);
}

#[test]
fn a_parked_member_that_does_not_wake_is_no_reason_for_the_next_one_to_sleep() {
    let bench = bench_of(&FILE.replace("members = 2", "members = 3"));
    let members = [0, 1, 2].map(|number| bench.member(number));
    let core = &bench.ensemble.core;
    core.follow(&Group { parked: 2, ..bench.group.clone() });
    bench.becomes(&["serving, 16 of 16 queues", "parked, 0 of 16 queues", "parked, 0 of 16 queues"]);
    let [first, second, third] = members;
    let seats = second.seats.clone();
    // It is there and forwards nothing.
    drop(second);
    core.leave(Aside::Planned, |name| name == "core_0");
    let end = Instant::now() + PATIENCE;
    while bench.state(2) != "serving, 16 of 16 queues" {
        assert!(Instant::now() < end, "{:?}", [0, 1, 2].map(|number| bench.state(number)));
        std::thread::sleep(Duration::from_millis(1));
    }
    core.stay(Aside::Planned, |_| true);
    let second = bench.member(1);
    bench.becomes(&["serving, 16 of 16 queues", "parked, 0 of 16 queues", "parked, 0 of 16 queues"]);
    drop((first, second, third, seats));
}

/// Takes the probes out of a queue that leads into a member, as it forwards them.
fn forwarded(told: &mut dyn Source) -> Vec<[u8; 60]> {
    let mut probes = Vec::new();
    told.drain(BURST, &mut |frames| {
        for frame in frames {
            let mut octets = [0; 60];
            frame.octets().copy_to_slice(&mut octets);
            route(&mut octets);
            probes.push(octets);
        }
    });
    probes
}

/// A member, and the queues into its NICs.
type MemberByHand = (Arc<Member>, [port::IngressSource; 2]);

/// A group whose rounds the test keeps itself, all of them at the same time, and this many members, each with the queues into its NICs.
fn by_hand(group: &Group, members: u16) -> (Arc<Core>, Vec<MemberByHand>) {
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = plan(FILE).switches.iter().map(switch).collect();
    let mut supplies = HostServices::default();
    let core = Ensemble::core(group, (&switches, &mut supplies, None)).expect("it can be had");
    let member = |number: u16| {
        let member = core.add_member(group, (&group.member(number.into()), number)).expect("a member");
        let nics = [0, 1].map(|nic| {
            let (inlet, told) = port::ingress(seat::INLET).expect("a queue");
            member.open(nic, (inlet, None));
            told
        });
        (member, nics)
    };
    let members = (0..members).map(member).collect();
    (core, members)
}

/// A member forwards all probes that wait for it. Returns how often the bell has rung.
fn answers(core: &Core, number: u16, nics: &mut [port::IngressSource; 2]) -> usize {
    let mut rings = 0;
    for (nic, told) in nics.iter_mut().enumerate() {
        for mut octets in forwarded(told) {
            core.note_probe(1 - nic, Some(number), &Frame::new(Bytes::from_slice(&mut octets)));
            rings += usize::from(core.bell.has_rung());
        }
    }
    rings
}

#[test]
fn a_member_that_comes_up_gets_frames_when_its_probes_are_back_and_not_when_the_round_ends() {
    let group = plan(FILE).groups.remove(0);
    let (core, mut members) = by_hand(&group, 1);
    let state = || core.state_of(0, 0).unwrap_or_default();
    core.round(Duration::ZERO);
    assert_eq!(state(), "starting, 0 of 8 queues");
    let mut probes: Vec<[u8; 60]> = members[0].1.iter_mut().flat_map(|told| forwarded(told)).collect();
    assert_eq!(probes.len(), 2, "one into each NIC");
    let mut is_back = |nic: usize| {
        let frame = Frame::new(Bytes::from_slice(&mut probes[nic]));
        core.note_probe(1 - nic, Some(0), &frame);
        core.bell.has_rung()
    };
    assert!(!is_back(0) && !is_back(0), "the other one is missing");
    assert!(is_back(1));
    assert!(!is_back(0) && !is_back(1), "a member cannot ring as often as it likes");
    core.round(Duration::ZERO);
    assert_eq!(state(), "serving, 8 of 8 queues");
    core.follow(&group);
    assert!(core.bell.has_rung(), "who is to wake by another plan need not wait, either");
}

#[test]
fn a_member_whose_probes_come_back_late_is_not_given_up_where_its_rounds_are_late_as_well() {
    let group = plan(FILE).groups.remove(0);
    let (core, mut members) = by_hand(&group, 1);
    let nics = &mut members[0].1;
    core.round(Duration::ZERO);
    assert_eq!(answers(&core, 0, nics), 1);
    let mut on_the_way: Vec<(usize, [u8; 60])> = Vec::new();
    // Each probe comes back after the next one was sent, and each round 10 ms after it was due.
    for round in 1..=300 {
        core.round(Duration::from_millis(20) * round);
        for (nic, octets) in &mut on_the_way {
            core.note_probe(1 - *nic, Some(0), &Frame::new(Bytes::from_slice(octets)));
        }
        let sent = |(nic, told): (usize, &mut port::IngressSource)| {
            forwarded(told).into_iter().map(move |octets| (nic, octets)).collect::<Vec<_>>()
        };
        on_the_way = nics.iter_mut().enumerate().flat_map(sent).collect();
        assert_eq!(on_the_way.len(), 2, "it is probed in each round");
    }
    assert_eq!(core.state_of(0, 0).as_deref(), Some("serving, 8 of 8 queues"));
    assert_eq!(core.counters.suspected.get(), 0);
}

#[test]
fn a_group_in_which_nobody_serves_tells_so_and_when_members_serve_again() {
    let group = plan(FILE).groups.remove(0);
    let (core, mut members) = by_hand(&group, 2);
    let mut now = Duration::ZERO;
    let mut rounds = |count: u32, answers_come: bool| {
        for _ in 0..count {
            if answers_come {
                for (number, (_, nics)) in (0..).zip(&mut members) {
                    answers(&core, number, nics);
                }
            }
            core.round(now);
            now += Duration::from_millis(10);
        }
    };
    let told = || -> Vec<(String, News)> {
        let is_of_group = |(_, news): &(String, News)| match news {
            News::Told(line) => line.contains("serves:") || line.ends_with("serve again"),
            News::Silent(_) => false,
        };
        core.take_news().into_iter().filter(is_of_group).collect()
    };
    rounds(1, false);
    rounds(3, true);
    assert_eq!(core.state_of(1, 0).as_deref(), Some("serving, 4 of 8 queues"));
    assert_eq!(told(), []);
    rounds(4, false);
    assert_eq!(core.state_of(1, 0).as_deref(), Some("suspect, 4 of 8 queues"));
    let suspect = "no member of the group serves: suspect ones keep their flows";
    assert_eq!(told(), [("core_0".to_owned(), News::Told(suspect.to_owned()))]);
    rounds(4, true);
    assert_eq!(core.state_of(1, 0).as_deref(), Some("serving, 4 of 8 queues"));
    assert_eq!(told(), [("core_0".to_owned(), News::Told("2 members serve again".to_owned()))]);
    // Whoever ends them knows.
    core.leave(Aside::Planned, |_| true);
    rounds(1, false);
    assert_eq!(told(), []);
}

#[test]
fn a_spare_member_moves_no_queue_when_it_comes_up_and_wakes_at_once() {
    let group = Group { parked: 1, ..plan(FILE).groups.remove(0) };
    let (core, mut members) = by_hand(&group, 2);
    let states = || [0, 1].map(|number| core.state_of(number, 0).unwrap_or_default());
    let mut answer = |number: u16| answers(&core, number, &mut members[usize::from(number)].1);
    core.round(Duration::ZERO);
    assert_eq!(answer(0), 1);
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 8 of 8 queues", "starting, 0 of 8 queues"]);
    let moved = core.counters.places_moved.get();
    assert_eq!(answer(1), 1);
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    assert_eq!(core.counters.places_moved.get(), moved);
    let is_up = |(name, news): &(String, News)| {
        name == "core_1" && matches!(news, News::Told(line) if line == "it is up, and parked")
    };
    assert!(core.take_news().iter().any(is_up));
    core.follow(&Group { parked: 0, ..group.clone() });
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 8 of 8 queues", "starting, 0 of 8 queues"]);
    core.bell.has_rung();
    assert_eq!(answer(1), 1);
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
}

#[test]
fn nothing_is_asked_of_a_cable_that_is_out() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let mut group = bench.group.clone();
    group.pattern.nics[1].link = Some(config::LinkState::Down);
    bench.ensemble.core.follow(&group);
    let told = |nic: &str| bench.counted(&format!("core.{nic}.group.told"));
    let goes_on = |nic: &str| {
        let (before, end) = (told(nic), Instant::now() + PATIENCE);
        while told(nic) < before + 10 {
            assert!(Instant::now() < end, "no probes at {nic}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // The round that was under way is over then.
    goes_on("w");
    let before = told("e");
    goes_on("w");
    assert_eq!(told("e"), before);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    bench.ensemble.core.follow(&bench.group);
    goes_on("e");
    drop(members);
}

#[test]
fn a_port_deals_frames_out_one_by_one_over_the_queues_of_members() {
    let bench = bench_of(&FILE.replace("members = 2", "members = 2\nspread = 'round-robin'"));
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    bench.send_64_flows();
    let loads = || bench.ensemble.core.links[0].way.loads();
    let end = Instant::now() + PATIENCE;
    while loads().iter().sum::<u64>() < 64 {
        assert!(Instant::now() < end, "{:?}", loads());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(loads(), [8; 8]);
    drop(members);
}

fn plan(text: &str) -> Plan {
    config::parse(text, "f.toml").expect("a good file")
}

#[test]
fn members_of_a_changed_group_are_plugged_into_a_new_one() {
    let (first, other) = (plan(FILE), plan(&FILE.replace("192.0.2.1/", "192.0.2.9/")));
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = first.switches.iter().map(switch).collect();
    let ensembles = Ensembles::new(CounterRegistry::default());
    let seat = |plan: &Plan| {
        ensembles.learn(plan);
        let router = &plan.routers[0];
        let seat = ensembles.seat((router, &router.nics[0]), &switches, &mut HostServices::default());
        seat.expect("it can be had").expect("it is a member's")
    };
    let four = first.with_members("core", 4).expect("so many may be");
    let held = (seat(&first), seat(&four));
    assert_eq!(ensembles.running().len(), 1, "members come and go");
    assert_eq!(ensembles.owners("core", 0), [None; 8], "nobody serves yet");
    assert!(ensembles.owners("core", 9).is_empty() && ensembles.owners("edge", 0).is_empty());
    let new = seat(&other);
    let began: Vec<Instant> = ensembles.running().iter().map(|ensemble| ensemble.core.began).collect();
    assert!(began.len() == 2 && began[0] == began[1], "both age neighbours of the same table");
    ensembles.watch("core_0", || false);
    let is_gone = |ensemble: &Arc<Ensemble>| ensemble.core.live()[&0].is_gone();
    let gone: Vec<bool> = ensembles.running().iter().map(is_gone).collect();
    assert_eq!(gone, [false, true], "its process is at the NICs of the new one");
    drop(held);
    assert_eq!(ensembles.running().len(), 1);
    drop(new);
    assert!(ensembles.running().is_empty());
}

#[test]
fn a_change_that_members_cannot_make_one_by_one_is_refused() {
    let ensembles = Ensembles::new(CounterRegistry::default());
    let before = plan(&FILE.replace("members = 2", "members = 2\nengine = 'process'"));
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = before.switches.iter().map(switch).collect();
    ensembles.learn(&before);
    let router = &before.routers[0];
    let seat = ensembles.seat((router, &router.nics[0]), &switches, &mut HostServices::default());
    let told = |text: &str| {
        let mut plan = plan(text);
        plan.choose_engines(&config::HostFacts::default());
        ensembles.check(&plan).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(told(&FILE.replace("members = 2", "members = 3")), "");
    let other = FILE.replace("192.0.2.1/", "192.0.2.9/");
    assert_eq!(told(&other), "", "virtual machines are plugged in anew");
    let processes = other.replace("members = 2", "members = 2\nengine = 'process'");
    assert!(told(&processes).starts_with("group core: its NICs stay as long as it runs"));
    let stages = FILE.replace("kind = 'parallel'\nmembers", "kind = 'multistage'\nbackends");
    assert!(told(&stages).starts_with("group core: its kind stays"));
    let in_turn = FILE.replace("members = 2", "members = 2\nspread = 'round-robin'");
    assert!(told(&in_turn).starts_with("group core: its spread stays"));
    drop(seat);
}

fn arp(operation: arp::Operation, sender: (frame::Mac, [u8; 4]), target: [u8; 4]) -> [u8; 60] {
    let mut octets = [0; 60];
    let header =
        ethernet::Header { destination: frame::Mac::BROADCAST, source: sender.0, ethertype: ethernet::ARP };
    header.write(&mut octets).expect("it fits");
    let packet = arp::Packet {
        operation,
        sender_mac: sender.0,
        sender_ip: u32::from_be_bytes(sender.1),
        target_mac: frame::Mac::default(),
        target_ip: u32::from_be_bytes(target),
    };
    packet.write(&mut octets[ethernet::HEADER..]).expect("it fits");
    octets
}

#[test]
fn what_the_network_asks_is_answered_once_by_whoever_owns_the_queue() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let (inbox, mut came) = port::ingress(16).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let station = bench.station.get_or_init(|| station);
    let mut request = arp(arp::Operation::Request, (STATION, [192, 0, 2, 7]), [192, 0, 2, 1]);
    station.deliver(&[Frame::new(Bytes::from_slice(&mut request))]);
    let (end, mut answers) = (Instant::now() + PATIENCE, Vec::new());
    while bench.counted("core.w.group.arp_answered") == 0 || answers.is_empty() {
        assert!(Instant::now() < end, "nobody answers");
        came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(packet_of)));
    }
    bench.forwards_64_flows();
    came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(packet_of)));
    let mac = frame::Mac(bench.group.pattern.nics[0].mac.0);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].sender_mac, answers[0].target_mac), (mac, STATION));
    let counted = ["arp_heard", "arp_answered"].map(|name| bench.counted(&format!("core.w.group.{name}")));
    assert_eq!(counted, [1, 1]);
    drop(members);
}

/// A bench whose group has an IPv6 address at the first switch.
fn with_six() -> Bench {
    bench_of(&FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']"))
}

#[test]
fn what_the_network_solicits_is_answered_once_by_whoever_owns_the_queue() {
    let bench = with_six();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let (inbox, mut came) = port::ingress(16).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let station = bench.station.get_or_init(|| station);
    let own = 0x2001_0db8_u128 << 96 | 1;
    let (ask, group) = (Solicit { target: own, source_mac: Some(STATION) }, ipv6::solicited_node(own));
    let mut solicit =
        nodes::spoken((STATION, ipv6::group_mac(group)), (own + 6, group), |payload| ask.write(payload));
    station.deliver(&[Frame::new(Bytes::from_slice(&mut solicit))]);
    let read = |frame: &Frame<'_>| {
        let mut octets = [0; nodes::LONGEST];
        let len = frame.octets().copy_to_slice(&mut octets);
        nodes::Message::read(&octets[..len])
    };
    let (end, mut answers) = (Instant::now() + PATIENCE, Vec::new());
    while bench.counted("core.w.group.nd_answered") == 0 || answers.is_empty() {
        assert!(Instant::now() < end, "no answer");
        came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(read)));
    }
    bench.forwards_64_flows();
    came.drain(BURST, &mut |frames| answers.extend(frames.iter().filter_map(read)));
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].by, answers[0].source), (frame::Mac(bench.group.pattern.nics[0].mac.0), own));
    assert_eq!(bench.counted("core.w.group.nd_heard"), 1);
    drop(members);
}

#[test]
fn one_member_advertises_the_group_as_a_router() {
    let bench = with_six();
    let members = (bench.member(0), bench.member(1));
    let mac = frame::Mac(bench.group.pattern.nics[0].mac.0);
    let options = AdvertOptions { mac, mtu: None, prefixes: &[], dns: (&[], 0) };
    let (to, ends) = (ipv6::group_mac(ipv6::ALL_NODES), (ipv6::link_local(mac), ipv6::ALL_NODES));
    let mut advert =
        nodes::spoken((mac, to), ends, |payload| RouterAdvert::default().write(&options, payload));
    let advert = Frame::new(Bytes::from_slice(&mut advert));
    let core = &bench.ensemble.core;
    let stays = || [0, 1].map(|member| core.hears_discovery_of((member, 0), &advert));
    core.leave(Aside::Planned, |name| name == "core_1");
    bench.becomes(&["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
    assert_eq!(stays(), [false, true]);
    core.stay(Aside::Planned, |_| true);
    core.leave(Aside::Planned, |name| name == "core_0");
    bench.becomes(&["leaving, 0 of 8 queues", "serving, 8 of 8 queues"]);
    assert_eq!(stays(), [true, false]);
    let counted = ["nd_advertised", "nd_kept"].map(|name| bench.counted(&format!("core.w.group.{name}")));
    assert_eq!(counted, [2, 2]);
    // A thread that moves frames does not wait for a round.
    let round = core.board.lock().expect("no panic");
    assert_eq!(stays(), [true, false]);
    drop(round);
    // At the other switch it has no IPv6, and there is nothing to speak of.
    assert!(!core.hears_discovery_of((1, 1), &advert));
    drop(members);
}

#[test]
fn in_a_vlan_the_group_has_other_addresses_and_answers_with_the_tag() {
    let vlan = "[[group.interface]]\nname = 'guests'\nnic = 'w'\nvlan = 7\naddress = '203.0.113.1/24'\n";
    let bench = bench_of(&format!("{FILE}{vlan}"));
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let (inbox, mut came) = port::ingress(16).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let station = bench.station.get_or_init(|| station);
    let ask = |tags: &[u8]| {
        let plain = arp(arp::Operation::Request, (STATION, [203, 0, 113, 9]), [203, 0, 113, 1]);
        let mut octets = [&plain[..12], tags, &plain[12..]].concat();
        station.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
    };
    ask(&[]);
    ask(&[0x81, 0, 0, 8]);
    ask(&[0x81, 0, 0, 7]);
    let (end, mut answers) = (Instant::now() + PATIENCE, Vec::new());
    let read = |frame: &Frame<'_>| {
        let mut octets = [0; 64];
        frame.octets().copy_to_slice(&mut octets);
        octets
    };
    while bench.counted("core.w.group.arp_heard") < 2 || answers.is_empty() {
        assert!(Instant::now() < end, "no answer");
        came.drain(BURST, &mut |frames| answers.extend(frames.iter().map(read)));
    }
    bench.forwards_64_flows();
    came.drain(BURST, &mut |frames| answers.extend(frames.iter().map(read)));
    assert_eq!(answers.len(), 1, "{answers:?}");
    let mac = bench.group.pattern.nics[0].mac.0;
    let due = [&STATION.0[..], &mac, &[0x81, 0, 0, 7, 8, 6]].concat();
    assert_eq!(answers[0][..18], due[..]);
    assert_eq!(bench.counted("core.w.group.arp_answered"), 1);
    drop(members);
}
