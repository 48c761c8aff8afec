//! Debian's FRR, as it is installed: it accepts the command lines, connects by FPM, and hands its BFD sessions over.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bfd::dplane::{self, Order, Orders};
use bfd::{Config, Packet, Session, State};
use fpm::{Paths, Stage, Target, Zebra};
use frr::{Content, Daemon, FOLDERS, Health, Layout, Options, Owner, Programs, Protocol, Setup, ask};
use support::{Namespace, Running, run};

/// Bounds each wait.
const LIMIT: Duration = Duration::from_secs(60);
const MAIN: u32 = 254;

/// Daemons in a namespace with an interface `lan0`, 192.0.2.1/24.
struct Plane {
    daemons: Vec<(Daemon, Running)>,
    namespace: Namespace,
    programs: Programs,
    layout: Layout,
}

impl Plane {
    fn new(name: &str, configuration: &str, daemons: &[Daemon]) -> Self {
        let namespace = Namespace::add(name).expect("a namespace");
        for words in [
            "link add lan0 type veth peer name lan1",
            "address add 192.0.2.1/24 dev lan0",
            "link set lan0 up",
            "link set lan1 up",
        ] {
            namespace.ip(&words.split(' ').collect::<Vec<_>>()).expect("ip");
        }
        let root = Path::new("/");
        let programs = Programs::find(root, daemons.iter().copied()).expect("FRR");
        let layout = Layout::new(root, namespace.name()).expect("a name");
        let owner = Owner::find(&fs::read_to_string("/etc/passwd").expect("users")).expect("the user frr");
        let options = Options { fpm: true, bfd: true };
        let text = options.preamble() + configuration;
        layout.write(&text, Some(owner)).expect("written");
        let mut plane = Self { daemons: Vec::new(), namespace, programs, layout };
        daemons.iter().for_each(|daemon| plane.start(*daemon));
        plane.load(None);
        plane
    }

    fn start(&mut self, daemon: Daemon) {
        self.layout.forget(daemon).expect("no old socket");
        let line = self.programs.start(daemon, &self.layout, Options { fpm: true, bfd: true });
        let mut running = Running::start(self.inside(&line).args(&line.words)).expect("started");
        let vty = self.layout.vty(daemon);
        until(&format!("{daemon} answers"), || {
            assert!(
                !running.ended().expect("a child"),
                "{daemon}: {:?} {:?}",
                running.lines(0),
                running.stderr_lines(0)
            );
            vty.exists().then_some(())
        });
        self.daemons.push((daemon, running));
    }

    fn kill(&mut self, daemon: Daemon) {
        let at = self.daemons.iter().position(|(running, _)| *running == daemon).expect("it runs");
        let (_, mut running) = self.daemons.swap_remove(at);
        running.signal(support::Signal::KILL).expect("killed");
        running.wait(LIMIT).expect("ended");
    }

    fn load(&self, only: Option<Daemon>) {
        let line = self.programs.load(&self.layout, only);
        let finished = run(self.inside(&line).args(&line.words), LIMIT).expect("vtysh");
        assert!(finished.status.success(), "{finished:?}");
    }

    fn ask(&self, question: &str) -> String {
        let line = self.programs.ask(&self.layout, question);
        run(self.inside(&line).args(&line.words), LIMIT).expect("vtysh").stdout
    }

    fn inside(&self, line: &frr::CommandLine) -> Command {
        self.namespace.command(line.program.to_str().expect("a path"))
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.daemons.clear();
        for folder in self.layout.folders() {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

/// Waits until `found` returns something.
fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn zebra_of_debian_12_tells_its_version_and_reads_no_answers() {
    support::needs!(Root, Program("vtysh"));
    let programs = Programs::find(Path::new("/"), [Daemon::Zebra]).expect("FRR");
    assert_eq!((programs.version(), programs.reads_answers()), (Some((8, 4)), false));
}

#[test]
fn zebra_sends_its_routes_and_sends_them_again_after_a_restart() {
    support::needs!(Root, Program("vtysh"));
    let configuration = "ip route 198.51.100.0/24 blackhole\nip route 203.0.113.0/24 192.0.2.2\n";
    let mut plane = Plane::new("frr-fpm", configuration, &[Daemon::Zebra, Daemon::Static]);
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, fpm::PORT));
    let listener = plane.namespace.inside(listen).expect("inside").expect("a port");
    let (mut zebra, mut session) = (Zebra::new(listener).expect("sockets"), fpm::Session::default());
    let take = |zebra: &mut Zebra, session: &mut fpm::Session, holds: &dyn Fn(&fpm::Session) -> bool| {
        until("routes", || {
            zebra.turn(session).expect("a turn");
            session.changes(&mut |_| {});
            holds(session).then_some(())
        });
    };
    let target =
        |session: &fpm::Session, ip: [u8; 4]| session.rib().find(MAIN, ip.into()).map(|found| found.target);
    take(&mut zebra, &mut session, &|session| {
        target(session, [203, 0, 113, 1]).is_some() && target(session, [198, 51, 100, 1]).is_some()
    });
    let via = session.rib().find(MAIN, [203, 0, 113, 1].into()).and_then(|found| found.paths);
    let gateway = Some(IpAddr::from([192, 0, 2, 2]));
    assert!(matches!(via, Some(Paths::Hops([hop])) if hop.via == gateway && hop.index != 0), "{via:?}");
    let dropped = session.rib().find(MAIN, [198, 51, 100, 1].into()).expect("found");
    assert!(dropped.target == Target::Blackhole || dropped.paths == Some(Paths::Blackhole), "{dropped:?}");
    let counters = session.counters();
    assert_eq!((counters.refused_malformed.get(), counters.group_unknown.get()), (0, 0));

    plane.kill(Daemon::Zebra);
    take(&mut zebra, &mut session, &|session| session.stage() == Stage::Away);
    assert_eq!(session.rib().len(), 2, "forwarding goes on");
    plane.start(Daemon::Zebra);
    plane.load(Some(Daemon::Zebra));
    take(&mut zebra, &mut session, &|session| session.stage() == Stage::Whole);
    assert_eq!(session.rib().len(), 2);
}

#[test]
fn bfdd_hands_its_sessions_over_and_believes_what_it_is_told() {
    support::needs!(Root, Program("vtysh"));
    let configuration =
        "bfd\n peer 192.0.2.2 interface lan0\n  receive-interval 60\n  transmit-interval 70\n";
    let plane = Plane::new("frr-bfd", configuration, &[Daemon::Zebra, Daemon::Bfd]);
    let help = run(Command::new(plane.programs.daemon(Daemon::Bfd)).arg("--help"), LIMIT).expect("help");
    assert!(help.stdout.split_whitespace().any(|word| word == "--dplaneaddr"), "{}", help.stdout);
    let mut stream = UnixStream::connect(plane.layout.data_plane_of_bfd()).expect("bfdd listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let wanted = first_session(&mut stream);
    assert_eq!(wanted.watch.path.remote, IpAddr::from([192, 0, 2, 2]));
    assert_eq!(
        (wanted.watch.config.min_rx, wanted.watch.config.min_tx, wanted.watch.config.multiplier),
        (60_000, 70_000, 3)
    );
    assert!(
        wanted.watch.path.index != 0 && wanted.interface == "lan0" && !wanted.watch.path.is_multihop,
        "{wanted:?}"
    );
    let mut octets = Vec::new();
    dplane::put_state(&mut octets, &came_up(wanted.watch.config));
    stream.write_all(&octets).expect("told");
    until("bfdd takes the session to be up", || {
        let peers = ask::read(Protocol::Bfd, &plane.ask(Protocol::Bfd.question()))?;
        peers.iter().any(|peer| peer.is_up && peer.peer == "192.0.2.2").then_some(())
    });
}

#[test]
fn a_whole_control_plane_outlives_zebra_and_leaves_nothing() {
    support::needs!(Root, Program("vtysh"), Program("setpriv"));
    let namespace = Namespace::add("frr-run").expect("a namespace");
    for words in
        ["link add lan0 type veth peer name lan1", "address add 192.0.2.1/24 dev lan0", "link set lan0 up"]
    {
        namespace.ip(&words.split(' ').collect::<Vec<_>>()).expect("ip");
    }
    namespace.ip(&["link", "set", "lan1", "up"]).expect("ip");
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, fpm::PORT));
    let listener = namespace.inside(listen).expect("inside").expect("a port");
    let mut plane = Whole::new(&namespace, listener);
    plane.until(|plane| plane.running.health() == Health::Settling && plane.session.rib().len() == 1);
    assert!(plane.heard.iter().any(|news| news == "Loaded(true)"), "{:?}", plane.heard);
    let zebra = plane.running.process(Daemon::Zebra).expect("it runs");
    let killed = run(Command::new("kill").args(["-9", &zebra.to_string()]), LIMIT).expect("kill");
    assert!(killed.status.success());
    plane.until(|plane| plane.running.restarts(Daemon::Zebra) == 1 && plane.session.stage() == Stage::Whole);
    assert_eq!(plane.session.rib().len(), 1);
    let processes =
        [Daemon::Zebra, Daemon::Static].map(|daemon| plane.running.process(daemon).expect("it runs"));
    drop(plane);
    until("all have ended", || {
        processes.iter().all(|id| support::Process::look(*id).is_none()).then_some(())
    });
    let layout = Layout::new(Path::new("/"), namespace.name()).expect("a name");
    assert!(layout.folders().iter().all(|folder| !folder.exists()));
}

/// A control plane with a static route, and what is heard of it.
struct Whole {
    running: frr::Running,
    zebra: Zebra,
    session: fpm::Session,
    heard: Vec<String>,
    start: Instant,
}

impl Whole {
    fn new(namespace: &Namespace, listener: TcpListener) -> Self {
        let text = "ip route 203.0.113.0/24 192.0.2.2\n";
        let content = Content::read(text).expect("a good file");
        let root = Path::new("/");
        let setup = Setup {
            programs: Programs::find(root, content.daemons()).expect("FRR"),
            layout: Layout::new(root, namespace.name()).expect("a name"),
            folders: &FOLDERS,
            options: Options { fpm: true, bfd: false },
            owner: Owner::find(&fs::read_to_string("/etc/passwd").expect("users")),
        };
        let network = fs::File::open(format!("/run/netns/{}", namespace.name())).expect("a namespace");
        let running = frr::Running::new(setup, network.into(), &content, text).expect("a house");
        let zebra = Zebra::new(listener).expect("sockets");
        Self { running, zebra, session: fpm::Session::default(), heard: Vec::new(), start: Instant::now() }
    }

    fn until(&mut self, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            let now = self.start.elapsed().as_millis() as u64;
            self.running.turn(now, &mut |news| self.heard.push(format!("{news:?}")));
            self.zebra.turn(&mut self.session).expect("a turn");
            self.session.changes(&mut |_| {});
            assert!(Instant::now() < end, "{:?}; heard {:?}", self.running.health(), self.heard);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The first session that bfdd asks for.
fn first_session(stream: &mut UnixStream) -> dplane::Wanted {
    let (mut orders, mut octets) = (Orders::default(), [0; 4096]);
    loop {
        let count = stream.read(&mut octets).expect("orders of bfdd");
        assert!(count > 0, "bfdd has closed the connection");
        for order in orders.take(&octets[..count]).expect("a sound stream") {
            if let Order::Add(wanted) = order {
                return wanted;
            }
        }
    }
}

/// A session that has come up, as the other side has 9 for its number.
fn came_up(config: Config) -> Session {
    let mut session = Session::new(config, 0, 0, 1);
    for (state, yours) in [(State::Down, 0), (State::Init, config.number)] {
        let packet = Packet {
            state,
            multiplier: 3,
            mine: 9,
            yours,
            desired_tx: 1_000_000,
            required_rx: 1,
            ..Packet::default()
        };
        session.take(&packet, 0);
    }
    assert_eq!(session.state(), State::Up);
    session
}
