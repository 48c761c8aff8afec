//! Objective: what Debian's zebra tells a data path of VRFs by FPM. Where they are devices of the kernel, each route names the table of its
//! VRF. Where they are network namespaces (`zebra -n`) the routes of all of them name one table: if two VRFs have a route to one network,
//! the data path knows one route, and not whose it is.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fpm::{Found, Paths, Session, Zebra};
use frr::{CommandLine, Daemon, Layout, Options, Owner, Programs};
use support::{Namespace, Running, run};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(5);
const DAEMONS: [Daemon; 2] = [Daemon::Zebra, Daemon::Static];
const OPTIONS: Options = Options { fpm: true, bfd: false };
/// Network to which both VRFs have a route, by the first of these next hops in one VRF and by the second in the other.
const NETWORK: &str = "10.9.0.0/16";
const FIRST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
/// Network to which the second VRF gets a route later.
const LATER: &str = "10.10.0.0/16";
/// Main table of a network namespace.
const MAIN: u32 = 254;

/// zebra and staticd in a network namespace, and the data path to which zebra connects.
struct Frr<'n> {
    namespace: &'n Namespace,
    programs: Programs,
    layout: Layout,
    owner: Option<Owner>,
    daemons: Vec<Running>,
    zebra: Zebra,
    session: Session,
}

impl<'n> Frr<'n> {
    /// Starts them with this configuration, zebra with these words in its command line.
    fn start(namespace: &'n Namespace, words: &[&str], configuration: &str) -> Self {
        let root = Path::new("/");
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, fpm::PORT));
        let listener = namespace.inside(listen).expect("inside").expect("a port");
        let mut frr = Self {
            namespace,
            programs: Programs::find(root, DAEMONS).expect("FRR"),
            layout: Layout::new(root, namespace.name()).expect("a name"),
            owner: Owner::find(&fs::read_to_string("/etc/passwd").expect("users")),
            daemons: Vec::new(),
            zebra: Zebra::new(listener).expect("sockets"),
            session: Session::default(),
        };
        // It makes the folders in which the daemons have their sockets.
        frr.layout.write("", frr.owner).expect("written");
        for daemon in DAEMONS {
            frr.start_daemon(daemon, if daemon == Daemon::Zebra { words } else { &[] });
        }
        frr.load(&(OPTIONS.preamble() + configuration));
        frr
    }

    fn start_daemon(&mut self, daemon: Daemon, words: &[&str]) {
        let line = self.programs.start(daemon, &self.layout, OPTIONS);
        let mut running = Running::start(self.command(&line).args(words)).expect("started");
        let (vty, end) = (self.layout.vty(daemon), Instant::now() + PATIENCE);
        while !vty.exists() {
            let goes_on = !running.ended().expect("a child") && Instant::now() < end;
            assert!(goes_on, "{daemon}: {:?} {:?}", running.lines(0), running.stderr_lines(0));
            sleep(LOOK);
        }
        self.daemons.push(running);
    }

    /// Has both daemons add these lines to what they have.
    fn load(&self, configuration: &str) {
        self.layout.write(configuration, self.owner).expect("written");
        let line = self.programs.load(&self.layout, None);
        let done = run(&mut self.command(&line), PATIENCE).expect("it ends");
        assert!(done.status.success(), "{done:?}");
    }

    fn command(&self, line: &CommandLine) -> Command {
        let mut command = self.namespace.command(line.program.to_str().expect("a path"));
        command.args(&line.words);
        command
    }

    /// Tables that routes to this network name, each with the next hop.
    fn told(&self, network: &str) -> Vec<(u32, Option<IpAddr>)> {
        let via = |found: &Found<'_>| match found.paths {
            Some(Paths::Hops([hop])) => hop.via,
            _ => None,
        };
        let all = self.session.rib().iter().filter(|found| found.key.to.to_string() == network);
        all.map(|found| (found.key.table, via(&found))).collect()
    }

    /// Hears zebra until this is true.
    fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < end, "found {:?}", self.told(NETWORK));
            self.zebra.turn(&mut self.session).expect("a turn");
            self.session.changes(&mut |_| {});
            sleep(LOOK);
        }
    }
}

/// Configuration of a VRF with a route.
fn vrf(name: &str, network: &str, via: Ipv4Addr) -> String {
    format!("vrf {name}\n ip route {network} {via}\nexit-vrf\n")
}

fn ip(host: &Namespace, words: &str) {
    host.ip(&words.split(' ').collect::<Vec<_>>()).expect("it is done");
}

/// Adds a link on which the next hops are.
fn add_link(host: &Namespace, name: &str) {
    ip(host, &format!("link add {name} type dummy"));
    ip(host, &format!("address add 192.0.2.1/24 dev {name}"));
}

#[test]
fn routes_of_vrfs_that_are_devices_name_their_tables() {
    support::needs!(Root, Program("ip"), Program("vtysh"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has VRFs");
        return;
    }
    let namespace = Namespace::add("zv").expect("a namespace");
    for (name, table) in [("red", 1001), ("blue", 1002)] {
        let link = format!("{name}0");
        add_link(&namespace, &link);
        ip(&namespace, &format!("link add {name} type vrf table {table}"));
        ip(&namespace, &format!("link set {name} up"));
        ip(&namespace, &format!("link set {link} master {name} up"));
    }
    let both = vrf("red", NETWORK, FIRST) + &vrf("blue", NETWORK, SECOND);
    let mut frr = Frr::start(&namespace, &[], &both);
    frr.until(|frr| frr.told(NETWORK) == [(1001, Some(FIRST.into())), (1002, Some(SECOND.into()))]);
}

#[test]
fn routes_of_vrfs_that_are_namespaces_name_one_table() {
    support::needs!(Root, Program("ip"), Program("vtysh"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose kernel has dummy links");
        return;
    }
    let [home, red, blue] =
        ["zn", "zn-red", "zn-blue"].map(|name| Namespace::add(name).expect("a namespace"));
    for host in [&red, &blue] {
        add_link(host, "lan");
        ip(host, "link set lan up");
    }
    let mut frr = Frr::start(&home, &["-n"], &vrf(red.name(), NETWORK, FIRST));
    let tables =
        |frr: &Frr<'_>, network| frr.told(network).into_iter().map(|(table, _)| table).collect::<Vec<_>>();
    frr.until(|frr| tables(frr, NETWORK) == [MAIN]);
    let has = |host: &Namespace, via: Ipv4Addr| {
        host.ip(&["route", "show", NETWORK]).expect("routes").contains(&format!("via {via} "))
    };
    frr.load(&vrf(blue.name(), NETWORK, SECOND));
    frr.until(|_| has(&blue, SECOND));
    // Zebra tells of routes in order: after this one it has told of the one before.
    frr.load(&vrf(blue.name(), LATER, SECOND));
    frr.until(|frr| tables(frr, LATER) == [MAIN]);
    assert_eq!(tables(&frr, NETWORK), [MAIN], "two routes are one");
    assert!(has(&red, FIRST), "both VRFs have their routes: what is lost is which of them a route is of");
}
