//! Groups behind balancers that are virtual machines, with threads in the place of balancers and members: they do what firmware does.

mod asked;
mod elsewhere;
mod vlan;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use attach::{Attachment, Ports, ServiceContext};
use frame::ethernet;
use frame::order::{NOBODY, Order, Table};
use group::probe;
use nic_port::NicQueues;
use port::Source;
use ring::BURST;
use switch::{Config, SwitchPort};

use crate::ensemble::*;

const FILE: &str = "[switch.west]\n[switch.east]\n[[group]]\nname = 'core'\nkind = 'multistage'\nbalancer = 'vm'\nbalancers = 2\n\
                    backends = 2\nengine = 'process'\n\
                    [[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n\
                    [[group.nic]]\nname = 'e'\nattach = 'switch:east'\naddress = '198.51.100.1/24'\n";
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const STATION: frame::Mac = frame::Mac([2, 0, 0, 0, 0, 1]);
/// Octets of the longest frame here: an order.
const LONGEST: usize = frame::order::LONGEST;

struct Bench {
    plan: Plan,
    switches: Vec<Arc<Switch>>,
    counts: CounterRegistry,
    ensembles: Ensembles,
    tables: Tables,
}

/// A thread that carries frames until it is dropped, and what it is plugged into.
struct Plugged {
    seats: Vec<Arc<dyn Attachment>>,
    runs: Arc<AtomicBool>,
    /// Frames that it has passed on, but for orders and probes.
    passed: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Plugged {
    fn drop(&mut self) {
        self.runs.store(false, Ordering::Relaxed);
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
        self.seats.clear();
    }
}

/// What becomes of a frame: whether it leaves, and by which of the ports.
type Carry = dyn FnMut(usize, &mut [u8]) -> Option<usize> + Send;

fn bench() -> Bench {
    bench_of(FILE)
}

fn bench_of(file: &str) -> Bench {
    let plan = config::parse(file, "f.toml").expect("a good file");
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches = plan.switches.iter().map(switch).collect();
    let counts = CounterRegistry::default();
    let ensembles = Ensembles::new(counts.clone());
    ensembles.learn(&plan);
    Bench { plan, switches, counts, ensembles, tables: Tables::default() }
}

impl Bench {
    fn group(&self) -> &Group {
        &self.plan.groups[0]
    }

    fn ensemble(&self) -> Arc<Ensemble> {
        self.ensembles.running().remove(0)
    }

    /// Plugs a router of the plan in, as an instance does, and has a thread do its work.
    fn start(&self, name: &str, mut carry: Box<Carry>) -> Plugged {
        let router = self.plan.routers.iter().find(|router| router.name == name).expect("it is there");
        let (confinement, tables) = (sandbox::Confinement::Off, self.tables.clone());
        let mut supplies = HostServices { confinement, tables, ..HostServices::default() };
        let mut seats: Vec<Arc<dyn Attachment>> = Vec::new();
        for nic in &router.nics {
            let shared = self.ensembles.seat((router, nic), &self.switches, &mut supplies).expect("a seat");
            seats.push(shared.unwrap_or_else(|| {
                let wanted = router.wanted(nic);
                let at = wanted.serve(None, &self.switches, supplies.confinement).expect("a port");
                let inside = self.ensembles.inside((router, nic), &at, (&self.switches, &mut supplies));
                inside.expect("a seat").expect("it is of the group")
            }));
        }
        let open = |(seat, nic): (&Arc<dyn Attachment>, &Nic)| {
            let (wanted, queues) = (router.wanted(nic), NicQueues::foreign(1).expect("descriptors"));
            let site =
                ServiceContext { wanted: &wanted, threads: 1, queues: &queues, entry: &|_, sink| sink };
            seat.ports(&site).expect("it is served")
        };
        let mut ports: Vec<Ports> = seats.iter().zip(&router.nics).map(open).collect();
        let (runs, passed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        let (go_on, count) = (runs.clone(), passed.clone());
        let thread = std::thread::spawn(move || {
            while go_on.load(Ordering::Relaxed) {
                for from in 0..ports.len() {
                    pass(&mut ports, from, &mut *carry, &count);
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            ports.iter().for_each(|ports| ports.outside.leave());
        });
        Plugged { seats, runs, passed, thread: Some(thread) }
    }

    /// A balancer of this number.
    fn balancer(&self, number: u32) -> Plugged {
        let own: Vec<frame::Mac> =
            self.group().pattern.nics.iter().map(|nic| frame::Mac(nic.mac.0)).collect();
        let mut tables = [Table::EMPTY, Table::EMPTY];
        let mut known = [0, 0];
        self.start(
            &self.group().balancer(number),
            Box::new(move |from, octets| {
                let (link, to) = (from % 2, (from + 2) % 4);
                let (table, known) = (&mut tables[link], &mut known[link]);
                if let Some(order) = Order::read(octets) {
                    if order.generation != *known && Order::read_table(octets, table) {
                        *known = order.generation;
                    }
                    Order::acknowledge(octets, *known);
                    return Some(to);
                }
                let stations = &table.stations[..table.members];
                if from >= 2 {
                    let is_its = stations.iter().any(|station| octets[6..12] == station.0);
                    octets[6..12].copy_from_slice(&own[link].0);
                    return is_its.then_some(to);
                }
                if octets[..6] == own[link].0 {
                    let choice = table.choices[usize::from(octets[35]) * 4];
                    let station = stations.get(usize::from(choice)).filter(|_| choice != NOBODY)?;
                    octets[..6].copy_from_slice(&station.0);
                }
                Some(to)
            }),
        )
    }

    /// A member of this number: frames to 192.0.0.k leave by NIC k - 1, and all others go back where they came from.
    fn member(&self, number: u32) -> Plugged {
        let own: Vec<frame::Mac> =
            self.group().stations(number).map(|station| frame::Mac(station.0)).collect();
        self.start(
            &self.group().member(number),
            Box::new(move |from, octets| {
                if octets[12..14] != [8, 0] || octets[..6] != own[from].0 {
                    return None;
                }
                let is_probe = octets[30..33] == [192, 0, 0];
                let to = if is_probe { usize::from(octets[33]) - 1 } else { from };
                let destination = if is_probe { probe::back(to as u8) } else { STATION };
                octets[..6].copy_from_slice(&destination.0);
                octets[6..12].copy_from_slice(&own[to].0);
                let words = octets[22..26].try_into().expect("four octets");
                octets[22..26].copy_from_slice(&frame::ipv4::age(words));
                Some(to)
            }),
        )
    }

    fn states(&self) -> Vec<String> {
        let core = self.ensemble().core.clone();
        let members = (0..2).filter_map(|number| core.state_of(number, 0));
        members.chain((0..2).filter_map(|number| core.state_of_machine(number))).collect()
    }

    #[track_caller]
    fn becomes(&self, states: &[&str]) {
        let end = Instant::now() + PATIENCE;
        while self.states() != states {
            assert!(Instant::now() < end, "{states:?}, but {:?}", self.states());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn counted(&self, name: &str) -> u64 {
        self.counts.read().counters.get(name).copied().unwrap_or(0)
    }

    /// A station on a switch sends a frame of each of 64 flows to the group.
    fn send_64_flows(&self, station: &SwitchPort) {
        for flow in 0..64_u8 {
            let mut octets = [0; ethernet::SHORTEST];
            octets[..6].copy_from_slice(&self.group().pattern.nics[0].mac.0);
            octets[6..12].copy_from_slice(&STATION.0);
            octets[12..15].copy_from_slice(&[8, 0, 0x45]);
            (octets[22], octets[23], octets[35]) = (64, 17, flow);
            station.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
        }
    }
}

/// Passes what has come by one port on.
fn pass(ports: &mut [Ports], from: usize, carry: &mut Carry, count: &AtomicU64) {
    let mut left: Vec<(usize, Vec<u8>)> = Vec::new();
    for source in ports.get_mut(from).into_iter().flat_map(|ports| &mut ports.sources) {
        source.drain(BURST, &mut |frames| {
            for frame in frames {
                let mut octets = [0; LONGEST];
                let len = frame.octets().copy_to_slice(&mut octets);
                let is_own = is_of_host(&octets[..len]);
                if let Some(to) = carry(from, &mut octets[..len]) {
                    count.fetch_add(u64::from(!is_own), Ordering::Relaxed);
                    left.push((to, octets[..len].to_vec()));
                }
            }
        });
    }
    for (to, mut octets) in left {
        ports[to].sinks[0].deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
    }
}

/// Whether a frame is an order or a probe.
fn is_of_host(octets: &[u8]) -> bool {
    Order::is_one(octets) || octets.get(30..33) == Some(&[192, 0, 0][..])
}

/// Balancers and members, all of which serve.
fn all(bench: &Bench) -> ([Plugged; 2], [Plugged; 2]) {
    let balancers = [0, 1].map(|number| bench.balancer(number));
    let members = [0, 1].map(|number| bench.member(number));
    bench.becomes(&SERVING);
    let (core, end) = (bench.ensemble().core.clone(), Instant::now() + PATIENCE);
    let machines = core.machines.as_ref().expect("there are some");
    let knows = |number: u16, nic: usize| {
        let front = core.front(nic).expect("a link");
        machines.get(number).is_some_and(|machine| machine.known(nic) == front.generation())
    };
    while !(0..2).all(|number| (0..2).all(|nic| knows(number, nic))) {
        assert!(Instant::now() < end, "they do not know their tables");
        std::thread::sleep(Duration::from_millis(1));
    }
    (balancers, members)
}

const SERVING: [&str; 4] = [
    "serving, 128 of 256 buckets",
    "serving, 128 of 256 buckets",
    "serving, 1 of 2 links",
    "serving, 1 of 2 links",
];

#[test]
fn frames_pass_a_balancer_a_member_and_a_balancer() {
    let end = Instant::now() + PATIENCE;
    while !frames_pass_undisturbed() {
        assert!(Instant::now() < end, "somebody is suspect each time");
    }
}

/// Sends frames through a balancer, members and the balancer. Returns false if somebody was suspect meanwhile, because a busy
/// host kept its thread from a CPU: then frames take other ways.
fn frames_pass_undisturbed() -> bool {
    let bench = bench();
    let (balancers, members) = all(&bench);
    let disturbed = || bench.counted("core.group.suspected") + bench.counted("core.group.links_moved");
    let before = disturbed();
    let (back, came) = port::ingress(1000).expect("a queue");
    let station = bench.switches[0].add_port("station", back.clone()).expect("a port");
    let _waiting = came;
    bench.send_64_flows(&station);
    let end = Instant::now() + PATIENCE;
    let passed = |at: &Plugged| at.passed.load(Ordering::Relaxed);
    while back.waiting() < 64 && disturbed() == before {
        assert!(Instant::now() < end, "{} came back", back.waiting());
        std::thread::sleep(Duration::from_millis(1));
    }
    if disturbed() != before {
        return false;
    }
    assert_eq!(passed(&members[0]) + passed(&members[1]), 64);
    assert_eq!(
        (passed(&balancers[0]), passed(&balancers[1])),
        (128, 0),
        "there and back by the first link's"
    );
    assert_eq!(bench.counted("core_0.w.group.passed") + bench.counted("core_1.w.group.passed"), 64);
    drop((members, balancers));
    true
}

#[test]
fn links_of_a_balancer_that_is_gone_go_to_the_other_one() {
    let bench = bench();
    let ([first, second], members) = all(&bench);
    let moved = || bench.counted("core.group.links_moved");
    let (seats, before) = (second.seats.clone(), moved());
    drop(second);
    let end = Instant::now() + PATIENCE;
    let core = bench.ensemble().core.clone();
    while core.state_of_machine(0).as_deref() != Some("serving, 2 of 2 links") {
        assert!(Instant::now() < end, "{:?}", bench.states());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(moved() > before);
    let members_are = || (0..2).filter_map(|number| core.state_of(number, 0)).collect::<Vec<_>>();
    while members_are() != SERVING[..2] {
        assert!(Instant::now() < end, "{:?}", bench.states());
        std::thread::sleep(Duration::from_millis(1));
    }
    let told: Vec<(String, News)> = core.take_news();
    let of_balancer = |(name, news): &(String, News)| {
        name == "core_lb1"
            && matches!(news, News::Told(line) if line.ends_with("its links go to other balancers"))
    };
    assert!(told.iter().any(of_balancer), "{told:?}");
    drop((seats, first, members));
}

#[test]
fn the_balancer_that_carried_a_link_before_sends_what_it_has_for_a_while_however_many_rounds_end() {
    let bench = bench();
    let balancer = bench.balancer(0);
    let core = bench.ensemble().core.clone();
    let known = core.front(0).expect("a link");
    let front = front::Front::new(known.link.clone(), known.wanted.clone(), config::Spread::Flow);
    let at = Duration::from_millis;
    assert_eq!(front.carry(Some(0), true, at(0)), None);
    assert_eq!(front.carry(Some(1), true, at(10)), Some(0));
    (0..100).for_each(|_| assert_eq!(front.carry(Some(1), true, at(90)), Some(1)));
    assert!(front.lets_out(0) && front.lets_out(1) && !front.lets_out(2));
    front.carry(Some(1), true, at(110));
    assert!(!front.lets_out(0) && front.lets_out(1));
    drop(balancer);
}

#[test]
fn a_member_that_is_gone_leaves_its_buckets_to_the_other_one() {
    let bench = bench();
    let (balancers, [first, second]) = all(&bench);
    drop(second);
    let (core, end) = (bench.ensemble().core.clone(), Instant::now() + PATIENCE);
    while core.state_of(0, 0).as_deref() != Some("serving, 256 of 256 buckets") {
        assert!(Instant::now() < end, "{:?}", bench.states());
        std::thread::sleep(Duration::from_millis(1));
    }
    let second = bench.member(1);
    bench.becomes(&SERVING);
    drop((balancers, first, second));
}

#[test]
fn a_balancer_without_frames_by_the_plan_has_no_link() {
    let bench = bench();
    let (balancers, members) = all(&bench);
    let core = bench.ensemble().core.clone();
    assert!(core.cut(|name| name == "core_lb0"));
    assert!(!core.cut(|name| name == "core_lb0"), "it was cut already");
    assert_eq!(core.state_of_machine(0).as_deref(), Some("leaving, 0 of 2 links"));
    assert_eq!(core.state_of_machine(1).as_deref(), Some("serving, 2 of 2 links"));
    core.mend(|_| true);
    bench.becomes(&SERVING);
    drop((balancers, members));
}

#[test]
fn a_group_whose_balancers_are_gone_keeps_nothing() {
    let bench = bench();
    let parts = all(&bench);
    let core = Arc::downgrade(&bench.ensemble().core);
    drop(parts);
    assert!(core.upgrade().is_none(), "what is heard before balancers goes with them");
}

#[test]
fn what_looks_like_an_order_and_comes_from_outside_is_dropped() {
    let bench = bench();
    let (balancers, members) = all(&bench);
    let station = bench.switches[0].add_port("station", Arc::new(port::Null::new())).expect("a port");
    let mut octets = [0; LONGEST];
    let len = Order { generation: 7, number: 1, known: 0 }.write(Some(&Table::EMPTY), &mut octets);
    // With its own source the switch would send it back to where it came from, which is nowhere.
    octets[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    station.deliver(&[Frame::new(Bytes::from_slice(&mut octets[..len]))]);
    let end = Instant::now() + PATIENCE;
    while bench.counted("core.w.group.drop_forged") == 0 {
        assert!(Instant::now() < end, "it was not seen");
        std::thread::sleep(Duration::from_millis(1));
    }
    bench.becomes(&SERVING);
    drop((balancers, members));
}
