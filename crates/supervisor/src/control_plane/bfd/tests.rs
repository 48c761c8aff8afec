//! With Debian's bfdd on both sides: one hands its session over, the other keeps its own.

use std::fs::{self, File};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use frr::{Content, FOLDERS, Health, Layout, Options, Owner, Programs, Setup};
use rustix::process::{Pid, Signal, kill_process};
use support::needs;

use super::*;

/// Bounds each wait.
const LIMIT: Duration = Duration::from_secs(60);
const THEM: [u8; 4] = [192, 0, 2, 2];

fn started(namespace: &support::Namespace, text: &str, bfd: bool) -> Running {
    let content = Content::read(text).expect("a good configuration");
    let root = Path::new("/");
    let setup = Setup {
        programs: Programs::find(root, content.daemons()).expect("FRR"),
        layout: Layout::new(root, namespace.name()).expect("a name"),
        folders: &FOLDERS,
        options: Options { fpm: false, bfd },
        owner: Owner::find(&fs::read_to_string("/etc/passwd").expect("users")),
    };
    let network = File::open(format!("/run/netns/{}", namespace.name())).expect("a namespace");
    Running::new(setup, network.into(), &content, text).expect("a house")
}

/// Two FRRs and the sessions of one of them.
struct World {
    us: Running,
    them: Option<Running>,
    bfd: Bfd,
    news: Vec<News>,
    start: Instant,
}

impl World {
    /// Milliseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).expect("a short test")
    }

    fn turn(&mut self) {
        let now = self.now();
        self.us.turn(now, &mut |heard| println!("us: {heard:?}"));
        if let Some(them) = &mut self.them {
            them.turn(now, &mut |heard| println!("them: {heard:?}"));
        }
        self.bfd.follow(Some(&self.us), now).expect("sockets and a thread");
        self.news.extend(self.bfd.news());
    }

    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            assert!(Instant::now() < end, "{what}: not within {LIMIT:?}; news: {:?}", self.news);
            self.turn();
            sleep(Duration::from_millis(5));
        }
    }

    /// Verdicts so far.
    fn verdicts(&self) -> Vec<bool> {
        let of = |news: &News| match news {
            News::Verdict { remote, is_alive, .. } if *remote == IpAddr::from(THEM) => Some(*is_alive),
            _ => None,
        };
        self.news.iter().filter_map(of).collect()
    }
}

#[test]
fn sessions_of_a_bfdd_that_is_reached_once_more_are_settled_later() {
    let namespace = Namespace::current().expect("a namespace");
    let mut bfd = Bfd::new("edge".to_owned(), namespace, Arc::default());
    let followed = |bfd: &mut Bfd, now| {
        bfd.follow(None, now).expect("no bfdd is there");
        bfd.due(None)
    };
    bfd.note_reached(Some(7), 1_000);
    assert_eq!(followed(&mut bfd, 1_000), None, "they are settled with the daemons");
    bfd.note_reached(Some(7), 2_000);
    assert_eq!(followed(&mut bfd, 2_000), Some(2_000 + ASKING));
    assert_eq!(followed(&mut bfd, 1_999 + ASKING), Some(2_000 + ASKING));
    assert_eq!(followed(&mut bfd, 2_000 + ASKING), None, "they were settled");
    bfd.note_reached(Some(7), 100_000);
    bfd.note_reached(Some(8), 100_001);
    assert_eq!(followed(&mut bfd, 100_001), None, "another one is settled with the daemons");
    bfd.note_reached(Some(8), 200_000);
    assert!(!bfd.end());
    assert_eq!(followed(&mut bfd, 200_000), None);
}

#[test]
fn a_session_is_kept_for_bfdd_outlives_it_and_ends_with_silence() {
    needs!(Root, Program("ip"), Program("vtysh"));
    let [us, them] = ["bfd-us", "bfd-them"].map(|name| support::Namespace::add(name).expect("a namespace"));
    let veth = ["link", "add", "a0", "type", "veth", "peer", "name", "b0", "netns", them.name()];
    us.ip(&veth).expect("a link");
    for (namespace, link, address) in [(&us, "a0", "192.0.2.1/24"), (&them, "b0", "192.0.2.2/24")] {
        namespace.ip(&["address", "add", address, "dev", link]).expect("an address");
        namespace.ip(&["link", "set", link, "up"]).expect("up");
    }
    // Silence is what lasts ten seconds: a busy host keeps both sides from their CPU for more than one.
    let peer = |ip: &str, link: &str| {
        format!(
            "bfd\n peer {ip} interface {link}\n  detect-multiplier 10\n  receive-interval 1000\n  \
             transmit-interval 1000\n"
        )
    };
    let inside = Namespace::open_named(us.name()).expect("a namespace");
    let counters = Arc::<BfdCounters>::default();
    let mut world = World {
        us: started(&us, &peer("192.0.2.2", "a0"), true),
        them: Some(started(&them, &peer("192.0.2.1", "b0"), false)),
        bfd: Bfd::new("bfd-us".to_owned(), inside, counters.clone()),
        news: Vec::new(),
        start: Instant::now(),
    };
    world.until("the session is up", |world| world.verdicts() == [true]);
    assert!(world.bfd.next <= world.now() + PAUSE, "a bfdd that ends now would be reached late");
    let first = world.us.process(Daemon::Bfd).expect("bfdd runs");
    let pid = i32::try_from(first).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::KILL).expect("killed");
    world.until("bfdd is another", |world| {
        world.news.contains(&News::Closed)
            && world.bfd.is_connected
            && world.us.restarts(Daemon::Bfd) == 1
            && world.us.health() == Health::Settling
    });
    assert!(!world.verdicts().contains(&false), "the session has outlived bfdd: {:?}", world.news);
    world.them = None;
    world.until("silence is noticed", |world| world.verdicts().last() == Some(&false));
    assert!(counters.taken.get() > 0 && counters.sent.get() > 0);
    assert_eq!(counters.expired.get(), 1);
    assert!(world.bfd.end(), "it has run");
}
