//! Objective: SIGKILL, a hundred times at a random moment, to the command, its data plane and a router that is a
//! process: nothing is left behind, links stay in place, traffic continues, and the next start works at once.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process};
use support::{Flow, Namespace, Need, Process, RandomTimes, Running, Stage, Traces, alone, children_of};

/// Timeout of a start, an end or a repair, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for leftovers to disappear: the kernel removes links and namespaces some time after the process has ended.
const GONE: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Rounds of all tests of this file together; `RINGROAD_ROUNDS` may override it.
const ROUNDS: u32 = 100;
/// Rounds of each run: after each death the pause before the next start doubles, and a new run keeps it short.
const ROUNDS_A_RUN: u32 = 3;
/// Datagrams a second through a router.
const RATE: u32 = 2000;

/// Number of rounds that is this percentage of all rounds.
fn rounds(percent: u32) -> u32 {
    let all = env::var("RINGROAD_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    (all * percent).div_ceil(100)
}

/// KVM if available.
fn engine() -> &'static str {
    if support::missing(&[Need::Kvm]).is_none() { "kvm" } else { "process" }
}

/// One router of each kind, joined by a switch, and with sockets for machines of other programs.
fn both_kinds() -> String {
    let engine = engine();
    format!(
        "[switch.lan]\n\
         [[router]]\nname = \"t12-a\"\nengine = \"{engine}\"\nvhost = \"split\"\n\
         [[router.nic]]\nname = \"out\"\nattach = \"tap:t12-a\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"203.0.113.1/24\"\n\
         [[router.nic]]\nname = \"vm\"\nattach = \"vhost-user-backend:t12-a.sock\"\naddress = \"10.12.1.1/24\"\n\
         [[router]]\nname = \"t12-b\"\nengine = \"process\"\n\
         [[router.nic]]\nname = \"out\"\nattach = \"tap:t12-b\"\naddress = \"198.51.100.1/24\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"203.0.113.2/24\"\n\
         [[router.nic]]\nname = \"vm\"\nattach = \"vhost-user-frontend:t12-b.sock\"\nsocket = \"listen\"\naddress = \"10.12.2.1/24\"\n"
    )
}

fn start(folder: &Path) -> Running {
    let mut command = Command::new(BINARY);
    Running::start(command.current_dir(folder).args(["run", "--log", "text", "file.toml"]))
        .expect("it starts")
}

fn is_up(run: &mut Running) {
    run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
}

fn kill(process: u32) {
    let id = Pid::from_raw(process.cast_signed()).expect("an id");
    // It may have ended by itself.
    let _ = kill_process(id, Signal::KILL);
}

fn kill_command(run: &mut Running, moment: Duration) {
    assert!(!run.ended().expect("it can be asked"), "it had ended before {moment:?}");
    run.signal(Signal::KILL).expect("killed");
    assert_eq!(run.wait(PATIENCE).expect("it ends").status.code(), None);
}

/// Waits until only the file is left in the run's folder.
fn folder_is_clean(folder: &Path) {
    wait_for(|| {
        let names = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.file_name());
        names.eq(["file.toml"]).then_some(())
    });
}

/// Two routers, each between two TAPs of its own.
fn two_ways(first: &str, second: &str) -> String {
    let router = |number: u32, engine: &str| {
        format!(
            "[[router]]\nname = \"t12-r{number}\"\nengine = \"{engine}\"\n\
             [[router.nic]]\nname = \"in\"\nattach = \"tap:t12-in{number}\"\naddress = \"10.{number}.1.1/24\"\nqueue_len = 4096\n\
             [[router.nic]]\nname = \"out\"\nattach = \"tap:t12-out{number}\"\naddress = \"10.{number}.2.1/24\"\n"
        )
    };
    router(1, first) + &router(2, second)
}

/// Host at each end of a router, and datagrams from one to the other.
struct Way {
    hosts: [Namespace; 2],
    flow: Flow,
}

impl Way {
    fn open(stage: &mut Stage, number: u32) -> Self {
        let mut host = |end: &str, net: u32| {
            let (address, gateway) = (format!("10.{number}.{net}.2/24"), format!("10.{number}.{net}.1"));
            stage.host(&format!("t12-{end}{number}"), &address, &gateway).expect("a host")
        };
        let (from, to) = (host("in", 1), host("out", 2));
        let address: SocketAddr = format!("10.{number}.2.2:7012").parse().expect("an address");
        let flow = Flow::start(&from, &to, address, RATE).expect("a way through the router");
        Self { hosts: [from, to], flow }
    }

    /// Lists the interfaces with their indices, which change if one is recreated.
    fn links(&self) -> Vec<String> {
        let list = |host: &Namespace| host.ip(&["-o", "link", "show"]).expect("links");
        let number = |line: &str| line.split(':').take(2).collect::<String>();
        self.hosts.iter().flat_map(|host| list(host).lines().map(number).collect::<Vec<_>>()).collect()
    }

    fn resumes(&self) -> Duration {
        self.flow.resumes(PATIENCE).expect("traffic goes on")
    }
}

fn stage(text: &str) -> Stage {
    let mut stage = Stage::start_with(BINARY, text, &["--log", "text"]).expect("it starts");
    is_up(stage.run());
    stage
}

/// Waits for a data plane of the run that is not among `known`.
fn plane(command: u32, known: &BTreeSet<u32>) -> u32 {
    wait_for(|| {
        let is_new = |child: &Process| {
            child.words.get(1).is_some_and(|verb| verb == "data-plane") && !known.contains(&child.id)
        };
        children_of(command).into_iter().find(is_new).map(|child| child.id)
    })
}

fn wait_for<T>(found: impl FnMut() -> Option<T>) -> T {
    support::until_some(PATIENCE, Duration::from_millis(1), "what has to come", found)
}

/// Returns the process of router `name`.
fn firmware(command: u32, name: &str, known: &BTreeSet<u32>) -> u32 {
    let is_it = |child: &Process| {
        child.program().starts_with("/memfd:ringroad-firmware (deleted)")
            && child.name.starts_with(name)
            && !known.contains(&child.id)
    };
    wait_for(|| children_of(command).into_iter().find(is_it).map(|child| child.id))
}

#[test]
fn the_one_that_cleans_up() {
    support::needs!(Root, Tun);
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file.toml"), both_kinds()).expect("written");
    let before = Traces::now();
    let mut run = start(folder.path());
    is_up(&mut run);
    let is_cleaner = |child: &Process| child.words.get(1).is_some_and(|verb| verb == "cleaner");
    let cleaner = wait_for(|| children_of(run.id()).into_iter().find(is_cleaner));
    kill(cleaner.id);
    // It is reported, leaves no zombie, and is replaced by another one.
    let told = format!("the process that cleans up after this one (pid {}) has ended (signal: 9", cleaner.id);
    run.wait_for_line(PATIENCE, |line| line.contains(&told)).expect("it is told");
    assert!(!Path::new(&format!("/proc/{}", cleaner.id)).exists(), "a zombie stays");
    let is_next = |child: &Process| is_cleaner(child) && child.id != cleaner.id;
    wait_for(|| children_of(run.id()).into_iter().find(is_next));
    // A cleaner that answers has processed all earlier messages.
    let shown = Command::new(BINARY).args(["show", "t12-a"]).output().expect("it can be asked");
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    kill_command(&mut run, Duration::ZERO);
    assert_eq!(Traces::left(&before, GONE), [""; 0]);
    folder_is_clean(folder.path());
    // If both are killed, the next start takes over what they left.
    let mut run = start(folder.path());
    is_up(&mut run);
    let cleaner = wait_for(|| children_of(run.id()).into_iter().find(is_cleaner));
    kill(cleaner.id);
    kill_command(&mut run, Duration::ZERO);
    let mut next = start(folder.path());
    is_up(&mut next);
    next.signal(Signal::TERM).expect("signalled");
    assert!(next.wait(PATIENCE).expect("it ends").status.success());
    assert_eq!(Traces::left(&before, GONE), [""; 0]);
    folder_is_clean(folder.path());
}

mod long {
    use super::*;

    #[test]
    fn the_command() {
        support::needs!(Root, Tun);
        let _turn = alone();
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("file.toml"), both_kinds()).expect("written");
        let (before, mut moments) = (Traces::now(), RandomTimes::new());
        for round in 0..rounds(40) {
            // In the middle of the start, or after it.
            let moment = moments.within(Duration::from_millis(if round % 4 == 0 { 400 } else { 60 }));
            let mut run = start(folder.path());
            thread::sleep(moment);
            kill_command(&mut run, moment);
            if round % 2 == 0 {
                assert_eq!(Traces::left(&before, GONE), [""; 0], "killed after {moment:?}");
                folder_is_clean(folder.path());
            } else {
                // Use the same names at once, without a pause.
                let mut next = start(folder.path());
                is_up(&mut next);
                next.signal(Signal::TERM).expect("signalled");
                let done = next.wait(PATIENCE).expect("it ends");
                assert!(done.status.success(), "after {moment:?}: {}", done.stderr);
            }
        }
        assert_eq!(Traces::left(&before, GONE), [""; 0]);
        folder_is_clean(folder.path());
    }

    #[test]
    fn the_data_plane() {
        support::needs!(Root, Tun, Program("ip"));
        let (mut moments, mut worst) = (RandomTimes::new(), Duration::ZERO);
        for _ in 0..rounds(30).div_ceil(ROUNDS_A_RUN) {
            let mut stage = stage(&two_ways(engine(), "process"));
            let ways = [1, 2].map(|number| Way::open(&mut stage, number));
            let links = ways.each_ref().map(Way::links);
            let (command, mut known) = (stage.run().id(), BTreeSet::new());
            for round in 0..ROUNDS_A_RUN {
                let victim = plane(command, &known);
                known.insert(victim);
                // Kill it while it is coming up, too.
                if round % 2 == 0 {
                    for way in &ways {
                        way.resumes();
                    }
                }
                thread::sleep(moments.within(Duration::from_millis(60)));
                kill(victim);
            }
            for way in &ways {
                worst = worst.max(way.resumes());
            }
            assert_eq!(ways.each_ref().map(Way::links), links, "the links are others");
            assert!(!stage.run().ended().expect("it can be asked"));
            let hosts = ways.into_iter().flat_map(|way| way.hosts).collect();
            let done = stage.finish_troubled(hosts).expect("nothing is left");
            let told = done.stderr.lines().filter(|line| line.contains("was killed by SIGKILL")).count();
            assert!(told >= ROUNDS_A_RUN as usize, "{told} deaths told:\n{}", done.stderr);
        }
        println!("the longest wait for traffic after the last of {ROUNDS_A_RUN} deaths: {worst:?}");
    }

    #[test]
    fn a_router_that_is_a_process() {
        support::needs!(Root, Tun, Program("ip"));
        let (mut moments, mut worst) = (RandomTimes::new(), Duration::ZERO);
        for _ in 0..rounds(30).div_ceil(ROUNDS_A_RUN) {
            let mut stage = stage(&two_ways(engine(), "process"));
            let ways = [1, 2].map(|number| Way::open(&mut stage, number));
            let links = ways.each_ref().map(Way::links);
            let (command, mut known) = (stage.run().id(), BTreeSet::new());
            let plane_before = plane(command, &known);
            for _ in 0..ROUNDS_A_RUN {
                let victim = firmware(command, "t12-r2", &known);
                known.insert(victim);
                thread::sleep(moments.within(Duration::from_millis(60)));
                kill(victim);
                worst = worst.max(ways[1].resumes());
            }
            assert_eq!(plane(command, &BTreeSet::new()), plane_before, "it is another data plane");
            assert_eq!(ways.each_ref().map(Way::links), links, "the links are others");
            let [other, killed] = ways.map(|way| (way.hosts, way.flow.stop().expect("it stops")));
            assert!(
                other.1.sent > 0 && other.1.lost() == 0,
                "the other router lost something: {:?}",
                other.1
            );
            assert!(killed.1.received > 0, "{:?}", killed.1);
            let hosts = [other.0, killed.0].into_iter().flatten().collect();
            stage.finish_troubled(hosts).expect("nothing is left");
        }
        println!("the longest wait for traffic: {worst:?}");
    }
}
