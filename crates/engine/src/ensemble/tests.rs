mod asked;
mod by_hand;
mod changed;
mod set_aside;
mod with_balancers;
mod with_machines;

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use attach::{Ports, ServiceContext};
use frame::ethernet;
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

fn plan(text: &str) -> Plan {
    config::parse(text, "f.toml").expect("a good file")
}

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
