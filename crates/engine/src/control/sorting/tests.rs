use std::sync::atomic::{AtomicBool, Ordering};

use config::learned::{LearnedMac, Lesson};
use ring::Bytes;

use super::*;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ALL: [u8; 6] = [0xff; 6];
const OWN: [u8; 4] = [192, 0, 2, 1];
const LOOPBACK: [u8; 4] = [10, 0, 0, 1];
const OTHER: [u8; 4] = [198, 51, 100, 9];

/// A source of these frames, once.
struct Once(Vec<Vec<u8>>);

impl Source for Once {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        let mut octets: Vec<Vec<u8>> = self.0.drain(..budget.min(self.0.len())).collect();
        let frames: Frames<'_> =
            octets.iter_mut().map(|frame| Frame::new(Bytes::from_slice(frame))).collect();
        if !frames.is_empty() {
            take(&frames);
        }
        frames.len()
    }
}

/// A sink that remembers.
#[derive(Default)]
struct Heard(Mutex<Vec<Vec<u8>>>);

impl Sink for Heard {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.lock().expect("nobody panicked").extend(frames.iter().map(octets));
        frames.len()
    }
}

impl Heard {
    fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().expect("nobody panicked"))
    }
}

fn octets(frame: &Frame<'_>) -> Vec<u8> {
    let mut octets = vec![0; frame.len()];
    frame.octets().copy_to_slice(&mut octets);
    octets
}

fn frame(to: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 9], &ethertype.to_be_bytes(), payload, &[0; 20]].concat()
}

fn packet(to: [u8; 4], protocol: u8) -> Vec<u8> {
    let mut header = [0; 20];
    (header[0], header[8], header[9]) = (0x45, 255, protocol);
    header[16..20].copy_from_slice(&to);
    frame(if to[0] < 224 { OURS } else { ALL }, 0x0800, &header)
}

/// An ARP reply.
fn reply() -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, 2];
    frame(OURS, 0x0806, &[&head[..], &[0; 6], &OTHER, &[0; 6], &OWN].concat())
}

struct Bench {
    source: PuntSource,
    counts: Arc<PuntGate>,
    shadow: Arc<Heard>,
    copies: Arc<Heard>,
    learned: Arc<Learned>,
    unplugged: Arc<AtomicBool>,
}

impl Bench {
    fn new(frames: Vec<Vec<u8>>) -> Self {
        let (shadow, copies) = <(Arc<Heard>, Arc<Heard>)>::default();
        let (learned, unplugged) = <(Arc<Learned>, Arc<AtomicBool>)>::default();
        let cable = unplugged.clone();
        let punter = Punter {
            mac: OURS,
            virtual_nic: Some(1),
            is_unplugged: Arc::new(move || cable.load(Ordering::Relaxed)),
            own: Arc::new(vec![OWN.into()]),
            learned: learned.clone(),
            shadow: shadow.clone(),
            copies: copies.clone(),
        };
        let counts = Arc::<PuntGate>::default();
        let source = PuntSource::new(Box::new(Once(frames)), punter, counts.clone());
        Self { source, counts, shadow, copies, learned, unplugged }
    }

    /// What the router gets of the next burst.
    fn shown(&mut self) -> Vec<Vec<u8>> {
        let mut shown = Vec::new();
        self.source.drain(50, &mut |frames| shown.extend(frames.iter().map(octets)));
        shown
    }
}

#[test]
fn an_address_that_ends_like_an_own_one_is_another() {
    let transit = packet([198, 51, 100, OWN[3]], 6);
    let mut bench = Bench::new(vec![transit.clone(), packet(OWN, 6)]);
    assert_eq!(bench.shown(), [transit]);
    assert_eq!(bench.shadow.take(), [packet(OWN, 6)]);
}

#[test]
fn each_frame_goes_where_it_belongs_and_the_most_urgent_first() {
    let (transit, bgp, ospf) = (packet(OTHER, 6), packet(OWN, 6), packet([224, 0, 0, 5], 89));
    let mut bench = Bench::new(vec![transit.clone(), bgp.clone(), ospf.clone(), reply()]);
    assert_eq!(bench.shown(), [transit, reply()]);
    // Routing is more urgent than the rest, to which TCP without these ports belongs.
    assert_eq!(bench.shadow.take(), [ospf, bgp]);
    assert_eq!(bench.copies.take(), [reply()]);
    let counts = bench.counts.clone();
    let sorted = &counts.sorted;
    assert_eq!((sorted.frames.get(), sorted.for_router.get()), (4, 1));
    assert_eq!((sorted.for_control.get(), sorted.for_both.get()), (2, 1));
    assert_eq!((counts.classes.routing.get(), counts.classes.rest.get()), (1, 1));
}

#[test]
fn addresses_of_the_control_plane_are_heard_of() {
    let ping = packet(LOOPBACK, 1);
    let mut bench = Bench::new(vec![ping.clone(), ping.clone()]);
    let mut first = Vec::new();
    bench.source.drain(1, &mut |frames| first.extend(frames.iter().map(octets)));
    assert_eq!(first, std::slice::from_ref(&ping), "nobody has it yet");
    bench.learned.take(&Lesson { addresses: Some(vec![LOOPBACK.into()]), ..Lesson::default() });
    assert!(bench.shown().is_empty());
    assert_eq!(bench.shadow.take(), [ping]);
}

#[test]
fn a_flood_of_one_class_is_cut_and_counted() {
    let flood = vec![frame(ALL, 0x88cc, &[0; 46]); 5000];
    let mut bench = Bench::new(flood);
    for _ in 0..5000 / 50 {
        assert!(bench.shown().is_empty());
    }
    let counts = bench.counts.clone();
    let (passed, lost) = (counts.classes.rest.get(), counts.classes.drop_rest.get());
    assert_eq!((passed + lost, bench.shadow.take().len() as u64), (5000, passed));
    assert!(lost > 0, "{passed} passed");
}

#[test]
fn nothing_is_sorted_out_while_the_cable_is_unplugged() {
    let bgp = packet(OWN, 6);
    let mut bench = Bench::new(vec![bgp.clone()]);
    bench.unplugged.store(true, Ordering::Relaxed);
    assert_eq!(bench.shown(), [bgp]);
    assert!(bench.shadow.take().is_empty());
}

#[test]
fn frames_for_a_virtual_router_are_the_routers_while_it_is_the_master() {
    const VIRTUAL: [u8; 6] = [0, 0, 0x5e, 0, 1, 5];
    let to = |mac: [u8; 6], mut frame: Vec<u8>| {
        frame[..6].copy_from_slice(&mac);
        frame
    };
    let (transit, asked) = (packet(OTHER, 6), packet(LOOPBACK, 1));
    let frames = [to(VIRTUAL, transit.clone()), to(VIRTUAL, asked.clone()), transit.clone()];
    let mut bench = Bench::new(frames.iter().chain(&frames).chain(&frames).cloned().collect());
    let next = |bench: &mut Bench| {
        let mut shown = Vec::new();
        bench.source.drain(frames.len(), &mut |frames| shown.extend(frames.iter().map(octets)));
        shown
    };
    assert_eq!(next(&mut bench), frames, "another one is the master: the router drops what is not for it");
    let (addresses, nic) = (Some(vec![LOOPBACK.into()]), 1);
    let at = |nic, mac| LearnedMac { nic, mac, ips: Vec::new() };
    let mine = vec![at(2, [9; 6]), at(nic, VIRTUAL)];
    bench.learned.take(&Lesson { addresses, macs: Some(mine), ..Lesson::default() });
    assert_eq!(next(&mut bench), [transit.clone(), transit.clone()], "with the address of the NIC");
    assert_eq!(
        bench.shadow.take(),
        [to(VIRTUAL, asked)],
        "the control plane is asked by the address of VRRP"
    );
    let counts = bench.counts.clone();
    assert_eq!((counts.sorted.for_virtual.get(), counts.sorted.for_control.get()), (1, 1));
    bench.learned.take(&Lesson { macs: Some(Vec::new()), ..Lesson::default() });
    assert_eq!(next(&mut bench)[0], frames[0], "the other one is the master again");
}

#[test]
fn answers_to_a_virtual_router_reach_the_nic_that_has_asked() {
    const VIRTUAL: [u8; 6] = [0, 0, 0x5e, 0, 1, 5];
    let mut answer = reply();
    answer[..6].copy_from_slice(&VIRTUAL);
    let mut bench = Bench::new(vec![answer]);
    let macs = vec![LearnedMac { nic: 1, mac: VIRTUAL, ips: vec![OWN.into()] }];
    bench.learned.take(&Lesson { macs: Some(macs), ..Lesson::default() });
    assert_eq!(bench.shown(), [reply()], "the router has asked by its NIC");
    assert_eq!(bench.copies.take(), [reply()], "and so has the kernel");
    assert_eq!(bench.counts.sorted.for_virtual.get(), 1);
}
