//! Interfaces of the host: those that a router takes come home, and what it made goes.

use rustix::process::{Pid, kill_process};
use support::{Process, Running, Signal, Traces, alone, children_of};

use super::*;

/// A host with an interface that a router takes, one that carries a macvlan, and a bridge.
struct Home {
    home: Namespace,
    folder: tempfile::TempDir,
}

const EVERYTHING: &str = "[[router]]\nname = \"t39\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"own\"\nattach = \"veth:t39v\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"stands\"\nattach = \"macvlan:t39m\"\naddress = \"198.51.100.1/24\"\nmtu = 1400\n\
    [[router.nic]]\nname = \"moved\"\nattach = \"link:t39l\"\naddress = \"203.0.113.1/24\"\nmtu = 1300\n\
    [[router.nic]]\nname = \"bridged\"\nattach = \"bridge:t39b\"\naddress = \"10.39.0.1/24\"\n\
    [[router.nic]]\nname = \"inner\"\nattach = \"switch:lan\"\naddress = \"10.39.1.1/24\"\n\
    [switch.lan]\n";

impl Home {
    fn new() -> Self {
        let home = host("t39-home");
        for (name, peer) in [("t39m", "t39m-peer"), ("t39l", "t39l-peer")] {
            home.ip(&["link", "add", name, "type", "veth", "peer", "name", peer]).expect("a pair");
            home.ip(&["link", "set", name, "up"]).expect("up");
        }
        home.ip(&["link", "add", "t39b", "type", "bridge"]).expect("a bridge");
        home.ip(&["link", "set", "t39b", "up"]).expect("up");
        Self { home, folder: tempfile::tempdir().expect("a folder") }
    }

    fn launch(&self, text: &str) -> Running {
        self.launch_by(self.home.command(RINGROAD), ("file.toml", text))
    }

    /// Starts a run of a file with this name and text.
    fn launch_by(&self, mut command: Command, (file, text): (&str, &str)) -> Running {
        std::fs::write(self.folder.path().join(file), text).expect("written");
        command.current_dir(self.folder.path()).args(["run", "--log", "text", file]);
        Running::start(&mut command).expect("it starts")
    }

    fn start(&self, text: &str) -> Running {
        Self::up(self.launch(text))
    }

    /// Starts a run whose network namespaces `ip netns` shows here.
    fn start_with_names(&self, text: &str) -> Running {
        Self::up(self.launch_by(self.home.command_with_names(RINGROAD), ("file.toml", text)))
    }

    fn up(mut run: Running) -> Running {
        run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
        run
    }

    /// The host's interfaces without their indices.
    fn interfaces(&self) -> Vec<String> {
        let text = self.home.ip(&["-o", "link", "show"]).expect("links");
        let mut lines: Vec<String> =
            text.lines().filter_map(|line| Some(line.split_once(": ")?.1.to_owned())).collect();
        lines.sort();
        lines
    }

    fn is_as_it_was(&self, before: &[String]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.interfaces();
            // Carriers of pairs may change with a delay.
            if names(&now) == names(before) && mtu_of(&now, "t39l") == mtu_of(before, "t39l") {
                return;
            }
            assert!(Instant::now() < end, "{now:#?} instead of {before:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Checks at the end that it is as it was, and that nothing is left that was not there at the beginning.
    fn has_nothing_left(self, before: &[String], traces: &Traces) {
        self.is_as_it_was(before);
        drop(self);
        assert_eq!(Traces::left(traces, PATIENCE), [""; 0]);
    }
}

/// Ends a run as it should end.
fn end(mut run: Running) {
    run.signal(Signal::TERM).expect("signalled");
    let done = run.wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
}

fn names(lines: &[String]) -> Vec<&str> {
    lines.iter().filter_map(|line| line.split([':', '@']).next()).collect()
}

fn mtu_of<'l>(lines: &'l [String], name: &str) -> Option<&'l str> {
    let line = lines.iter().find(|line| line.split([':', '@']).next() == Some(name))?;
    line.split(" mtu ").nth(1)?.split(' ').next()
}

#[test]
fn what_it_took_comes_home_and_nothing_is_left() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    for signal in [Signal::TERM, Signal::KILL, Signal::KILL] {
        let mut run = home.start(EVERYTHING);
        let now = home.interfaces();
        assert!(names(&now).contains(&"t39v") && !names(&now).contains(&"t39l"), "{now:#?}");
        run.signal(signal).expect("signalled");
        let done = run.wait(PATIENCE).expect("it ends");
        assert_eq!(done.status.success(), signal == Signal::TERM, "{}", done.stderr);
        home.is_as_it_was(&before);
    }
    drop(home);
    assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
}

#[test]
fn what_somebody_pulls_out_or_takes_away_is_there_again() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    let run = home.start_with_names(EVERYTHING);
    let inside = |words: &[&str]| {
        let done =
            support::run(Command::new("ip").args(["-n", "t39"]).args(words), PATIENCE).expect("it ends");
        done.status.success().then_some(done.stdout)
    };
    inside(&["link", "set", "moved", "netns", home.home.name()]).expect("pulled out");
    wait_for(|| inside(&["-o", "link", "show", "moved"]));
    assert!(!names(&home.interfaces()).contains(&"moved"), "the host does not have it any more");
    inside(&["link", "set", "own", "netns", home.home.name()]).expect("pulled out");
    wait_for(|| inside(&["-o", "link", "show", "own"]));
    assert!(!names(&home.interfaces()).contains(&"own"), "its old pair is deleted");
    let done = support::run(Command::new("ip").args(["netns", "delete", "t39"]), PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    wait_for(|| inside(&["-o", "link", "show", "moved"]));
    inside(&["link", "set", "moved", "netns", home.home.name()]).expect("pulled out");
    end(run);
    home.has_nothing_left(&before, &traces);
}

/// SIGSTOP keeps the cleaner from its work, and from being replaced, until it is killed as well.
#[test]
fn what_a_run_and_its_cleaner_have_left_comes_home_with_the_next_one() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    let mut run = home.start_with_names(EVERYTHING);
    let now = home.interfaces();
    let mut second = home.launch_by(home.home.command_with_names(RINGROAD), ("second.toml", EVERYTHING));
    let done = second.wait(PATIENCE).expect("it ends");
    assert!(!done.status.success(), "{}", done.stderr);
    assert_eq!(names(&home.interfaces()), names(&now), "the first run keeps what it has");
    let is_cleaner = |child: &&Process| child.words.get(1).is_some_and(|verb| verb == "cleaner");
    let children = children_of(run.id());
    let cleaner = children.iter().find(is_cleaner).expect("it has one");
    let cleaner = Pid::from_raw(cleaner.id.cast_signed()).expect("an id");
    kill_process(cleaner, Signal::STOP).expect("signalled");
    run.signal(Signal::KILL).expect("signalled");
    run.wait(PATIENCE).expect("it ends");
    kill_process(cleaner, Signal::KILL).expect("signalled");
    // Until its data plane has ended too, the next run takes another user, and nobody would remove the lock on the first one.
    wait_for(|| children.iter().all(|child| Process::look(child.id).is_none()).then_some(()));
    let left = home.interfaces();
    assert!(names(&left).contains(&"t39v") && !names(&left).contains(&"t39l"), "{left:#?}");
    let next = home.start_with_names(EVERYTHING);
    end(next);
    home.has_nothing_left(&before, &traces);
}

#[test]
fn of_two_runs_that_take_one_interface_at_once_one_has_it() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    let launch = |name: &str| {
        let text = format!(
            "[[router]]\nname = \"{name}\"\nengine = \"kernel\"\n\
             [[router.nic]]\nname = \"moved\"\nattach = \"link:t39l\"\naddress = \"203.0.113.1/24\"\nmtu = 1300\n"
        );
        home.launch_by(home.home.command(RINGROAD), (&format!("{name}.toml"), &text))
    };
    let mut runs = ["t39", "t39b"].map(launch);
    let lost = wait_for(|| runs.iter_mut().position(|run| run.ended().expect("it can be asked")));
    let [first, second] = runs;
    let (mut lost, mut has) = if lost == 0 { (first, second) } else { (second, first) };
    let done = lost.wait(PATIENCE).expect("it has ended");
    let refusals = done.stderr.lines().filter(|line| line.contains("t39l"));
    assert!(!done.status.success() && refusals.count() == 1, "{}", done.stderr);
    has.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
    assert!(!names(&home.interfaces()).contains(&"t39l"), "a router has it");
    end(has);
    home.has_nothing_left(&before, &traces);
}

#[test]
fn what_cannot_be_had_is_one_line_and_nothing_is_left() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    home.home.ip(&["link", "add", "t39v", "type", "bridge"]).expect("a name is taken");
    let taken = home.interfaces();
    let own = Namespace::add("t39-own").expect("a namespace");
    for (from, to, line) in [
        ("", "", "interface \"t39v\" exists: choose another name, or delete it"),
        ("veth:t39v", "macvlan:nowhere", "there is no interface \"nowhere\""),
        ("\"link:t39l\"", "\"link:lo\"", "lo stays in its namespace"),
        ("\"bridge:t39b\"", "\"bridge:t39m\"", "is not a bridge; name a bridge"),
        ("\"veth:t39v\"", "\"veth:t39x\"\nnetns = \"nobody\"", "there is no namespace \"nobody\""),
    ] {
        let done = home.launch(&EVERYTHING.replacen(from, to, 1)).wait(PATIENCE).expect("it ends");
        let told = done.stderr.lines().filter(|told| told.contains(line)).count();
        assert!(!done.status.success() && told == 1, "{line}: {}", done.stderr);
        assert_eq!(home.interfaces(), taken, "{line}");
    }
    home.home.ip(&["link", "delete", "t39v"]).expect("deleted");
    // A namespace of this name exists and is not removed.
    let text = EVERYTHING.replace("name = \"t39\"", &format!("name = \"{}\"", own.name()));
    if own.name().len() <= 14 {
        let done = home.launch(&text).wait(PATIENCE).expect("it ends");
        let line = format!("there is a network namespace `{}` already", own.name());
        assert!(!done.status.success() && done.stderr.contains(&line), "{}", done.stderr);
        own.ip(&["link", "show"]).expect("it is there");
    }
    home.is_as_it_was(&before);
    drop((home, own));
    assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
}

#[test]
fn a_vlan_that_the_kernel_lacks_is_one_line_and_nothing_is_left() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let vlan = ["link", "add", "link", "t39m", "name", "t39m.7", "type", "vlan", "id", "7"];
    let text = EVERYTHING.to_owned()
        + "[[router.interface]]\nname = \"guests\"\nnic = \"own\"\nvlan = 7\naddress = \"10.39.7.1/24\"\n";
    starts_or_is_refused(&text, (&vlan, "t39m.7"), "no VLANs (802.1Q)");
}

#[test]
fn a_vrf_that_the_kernel_lacks_is_one_line_and_nothing_is_left() {
    support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
    let vrf = ["link", "add", "name", "t39r", "type", "vrf", "table", "77"];
    let text = EVERYTHING.replacen("\"veth:t39v\"", "\"veth:t39v\"\nvrf = \"red\"", 1);
    starts_or_is_refused(&text, (&vrf, "t39r"), "this kernel has no VRFs");
}

/// Starts a run that needs such an interface, which `ip` creates with these words, or is refused with this line.
fn starts_or_is_refused(text: &str, (words, link): (&[&str], &str), line: &str) {
    let _turn = alone();
    let traces = Traces::now();
    let home = Home::new();
    let before = home.interfaces();
    let has_such = home.home.ip(words).and_then(|_| home.home.ip(&["link", "delete", link])).is_ok();
    if has_such {
        let mut run = home.start(text);
        run.signal(Signal::TERM).expect("signalled");
        let done = run.wait(PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
    } else {
        let done = home.launch(text).wait(PATIENCE).expect("it ends");
        let lines = done.stderr.lines().filter(|said| said.contains(line));
        assert!(!done.status.success() && lines.count() == 1, "{}", done.stderr);
    }
    home.has_nothing_left(&before, &traces);
}

mod all {
    use super::*;

    /// Routers of one file.
    const MANY: usize = 100;

    #[test]
    fn a_hundred_of_them_run_from_one_file() {
        support::needs!(Root, Program("ip"), Program("nsenter"));
        let _turn = alone();
        let traces = Traces::now();
        let home = Home::new();
        let before = home.interfaces();
        let router = |n: usize| {
            format!(
                "[[router]]\nname = \"t39-{n}\"\nengine = \"kernel\"\n\
                 [[router.nic]]\nname = \"a\"\nattach = \"veth:t39a{n}\"\naddress = \"10.{n}.1.1/24\"\n\
                 [[router.nic]]\nname = \"b\"\nattach = \"veth:t39b{n}\"\naddress = \"10.{n}.2.1/24\"\n"
            )
        };
        let mut run = home.start(&(0..MANY).map(router).collect::<String>());
        let runs: Vec<Value> =
            said(&["ps", "--json"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let routers = runs.iter().flat_map(|run| run["routers"].as_array().cloned().unwrap_or_default());
        assert_eq!(routers.filter(|router| router["state"] == "running").count(), MANY);
        run.signal(Signal::KILL).expect("killed");
        run.wait(PATIENCE).expect("it ends");
        home.is_as_it_was(&before);
        drop(home);
        assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
    }
}

mod long {
    use std::process::Stdio;

    use support::RandomTimes;

    use super::*;

    /// Rounds; `RINGROAD_ROUNDS` may override it.
    const ROUNDS: u32 = 40;

    #[test]
    fn a_command_that_is_killed_at_any_moment_leaves_nothing() {
        support::needs!(Root, Tun, Program("ip"), Program("nsenter"));
        let _turn = alone();
        let (traces, mut moments) = (Traces::now(), RandomTimes::new());
        let home = Home::new();
        let before = home.interfaces();
        let rounds = std::env::var("RINGROAD_ROUNDS").ok().and_then(|text| text.parse().ok());
        for round in 0..rounds.unwrap_or(ROUNDS) {
            // In the middle of the start, or while a router is restarted, which moves its interfaces.
            let is_up = round % 3 == 2;
            let mut run = if is_up { home.start(EVERYTHING) } else { home.launch(EVERYTHING) };
            let mut restart = Command::new(RINGROAD);
            restart.args(["restart", "t39"]).stdout(Stdio::null()).stderr(Stdio::null());
            let asked = is_up.then(|| restart.spawn().expect("it starts"));
            let moment = moments.within(Duration::from_millis(if is_up { 60 } else { 300 }));
            thread::sleep(moment);
            run.signal(Signal::KILL).expect("killed");
            run.wait(PATIENCE).expect("it ends");
            if let Some(mut asked) = asked {
                asked.wait().expect("it ends");
            }
            println!("round {round}: killed after {moment:?}");
            if round % 2 == 0 {
                // The same names and interfaces are used at once, without a pause.
                let mut next = home.start(EVERYTHING);
                next.signal(Signal::TERM).expect("signalled");
                let done = next.wait(PATIENCE).expect("it ends");
                assert!(done.status.success(), "after {moment:?}: {}", done.stderr);
            }
            home.is_as_it_was(&before);
        }
        drop(home);
        assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
    }
}
