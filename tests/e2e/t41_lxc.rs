//! Objective: a container router (`engine = "lxc"`) forwards both families in a container that Debian's LXC starts. It can be shown,
//! changed, traced, limited and restarted like other routers, is started again when its container dies, and leaves nothing behind, also
//! after SIGKILL. Interfaces that somebody deletes or pulls out are made again. Without LXC a one-line error names the package.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::{Namespace, Running, run};

use crate::verbs::{ringroad, said};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Longer than anything takes here, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

const FILE: &str = "[[router]]\nname = \"t41\"\nengine = \"lxc\"\n\
    [[router.nic]]\nname = \"west\"\nattach = \"veth:t41w\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"east\"\nattach = \"veth:t41e\"\naddress = \"198.51.100.1/24\"\n";

#[test]
fn without_lxc_one_line_names_the_package() {
    support::needs!(Root);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file.toml");
    std::fs::write(&path, FILE).expect("a file");
    let mut command = Command::new(RINGROAD);
    // No program is found in this PATH.
    command.arg("run").arg(&path).env("PATH", folder.path());
    let done = run(&mut command, PATIENCE).expect("it ends");
    assert!(!done.status.success(), "{}", done.stdout);
    assert!(done.stderr.contains("install LXC (Debian package `lxc`)"), "{}", done.stderr);
}

/// Starts a run of `file.toml` in a folder.
fn launch(home: &Namespace, folder: &Path) -> Running {
    let mut command = home.command_with_groups(RINGROAD);
    command.current_dir(folder).args(["run", "--log", "text", "file.toml"]);
    Running::start(&mut command).expect("it starts")
}

mod alone {
    use std::net::UdpSocket;

    use api::{Answer, Request};
    use serde_json::Value;
    use support::{Signal, Stage, Traces, alone, ping};

    use super::*;

    /// A host without IPv6, so that it sends nothing by itself.
    fn host(name: &str) -> Namespace {
        Namespace::add_silent(name).expect("a namespace")
    }

    /// Starts a run, and a host for each of the router's NICs.
    fn start(text: &str) -> (Stage, Namespace, Namespace) {
        let hosts = |_: &Namespace| Ok((host("t41-west"), host("t41-east")));
        let started = Stage::start_with_groups_after(RINGROAD, text, &["--json"], hosts);
        let (stage, (west, east)) = started.expect("it starts");
        (stage, west, east)
    }

    /// Sends a signal, such as `-9`.
    fn signal(signal: &str, process: u32) {
        let done = Command::new("kill").args([signal, &process.to_string()]).status();
        assert!(done.expect("a program").success());
    }

    fn wait_for<T>(found: impl FnMut() -> Option<T>) -> T {
        support::until_some(PATIENCE, Duration::from_millis(10), "what has to come", found)
    }

    /// Moves the outer end of a pair to a host, and gives it an address and a default route. The kernel removes the pair of a
    /// container that has ended some time after its end.
    fn plug_in(home: &Namespace, link: &str, host: &Namespace, net: &str) {
        wait_for(|| (home.has_link(link) && !host.has_link(link)).then_some(()));
        home.ip(&["link", "set", link, "netns", host.name()]).expect("moved");
        host.add_four(link, &format!("{net}.2/24"), &format!("{net}.1")).expect("a route");
    }

    fn plug_in_both(stage: &Stage, west: &Namespace, east: &Namespace) {
        plug_in(stage.home(), "t41w", west, "192.0.2");
        plug_in(stage.home(), "t41e", east, "198.51.100");
        ping(west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
    }

    /// Waits until the router runs, after this many restarts because of faults: LXC is done with its interfaces then.
    fn wait_until_it_runs(restarts: u64) {
        wait_for(|| {
            let shown: Value = serde_json::from_str(&ringroad(&["show", "t41", "--json"]).stdout).ok()?;
            let status = &shown["status"];
            (status["state"] == "running" && status["restarts"] == restarts).then_some(())
        });
    }

    /// PID of `lxc-start`, which runs the container.
    fn monitor_of(run: u32) -> Option<u32> {
        let all = support::descendants_of(run);
        let is_it = |word: &String| word == "lxc-start";
        all.iter().find(|process| process.words.first().is_some_and(is_it)).map(|process| process.id)
    }

    /// PID of the container's init, which is a child of `lxc-start`.
    fn init_of(run: u32) -> Option<u32> {
        support::children_of(monitor_of(run)?).first().map(|init| init.id)
    }

    /// Runs `ip` with the network namespace of a container.
    fn ip_inside(init: u32, words: &[&str]) {
        let target = init.to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", target.as_str(), "-n", "ip"]).args(words);
        let done = run(&mut command, PATIENCE).expect("it ends");
        assert!(done.status.success(), "{words:?}: {}", done.stderr);
    }

    /// Messages of all events of a run so far that contain these words.
    fn events(stage: &Stage, words: &str) -> Vec<String> {
        let mut client = stage.client().expect("it answers");
        let events = match client.ask(&Request::Events { since: None }) {
            Ok(Answer::Events { events, .. }) => events,
            other => panic!("{other:?}"),
        };
        let lines = events.into_iter().map(|event| event.message);
        lines.filter(|line| line.contains(words)).collect()
    }

    /// Waits until a check has seen an interface, by its place in the file: only then its loss is reported.
    fn wait_until_seen(nic: usize) {
        wait_for(|| {
            let shown: Value = serde_json::from_str(&ringroad(&["show", "t41", "--json"]).stdout).ok()?;
            (shown["nics"][nic]["settings"]["carrier"] == "up").then_some(())
        });
    }

    #[test]
    fn a_container_forwards_and_comes_back() {
        support::needs!(Root, Program("ip"), Program("busybox"), Program("nsenter"), Program("lxc-start"));
        let (mut stage, west, east) = start(FILE);
        wait_until_it_runs(0);
        plug_in_both(&stage, &west, &east);
        assert!(said(&["show", "t41"]).contains("lxc"));
        assert!(said(&["set", "t41", "rp_filter=strict"]).contains("no packet is lost"));
        assert!(said(&["restart", "t41"]).contains("router t41 was started anew"));
        plug_in_both(&stage, &west, &east);
        let id = stage.run().id();
        let init = wait_for(|| init_of(id));
        signal("-9", init);
        wait_until_it_runs(1);
        assert!(init_of(id).is_some_and(|now| now != init));
        assert_eq!(events(&stage, "its container has ended").len(), 1);
        plug_in_both(&stage, &west, &east);
        stage.finish_troubled(vec![west, east]).expect("nothing is left");
    }

    mod all {
        use super::*;

        #[test]
        fn an_interface_that_somebody_pulls_out_or_deletes_is_made_again() {
            support::needs!(
                Root,
                Program("ip"),
                Program("busybox"),
                Program("nsenter"),
                Program("lxc-start")
            );
            let (mut stage, west, east) = start(FILE);
            wait_until_it_runs(0);
            stage.home().ip(&["link", "set", "t41w", "up"]).expect("up");
            wait_until_seen(0);
            let id = stage.run().id();
            let init = wait_for(|| init_of(id));
            ip_inside(init, &["link", "set", "west", "netns", east.name()]);
            let times = |count: usize| {
                wait_for(|| (events(&stage, "were created again").len() == count).then_some(()));
            };
            times(1);
            assert_eq!(events(&stage, "NIC west: its interface was deleted; it is created again").len(), 1);
            assert!(!east.has_link("west"), "the former pair has gone");
            plug_in_both(&stage, &west, &east);
            west.ip(&["link", "delete", "t41w"]).expect("deleted");
            times(2);
            plug_in(stage.home(), "t41w", &west, "192.0.2");
            ping(west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
            assert_eq!(init_of(id), Some(init), "it is the same container");
            assert!(said(&["stop", "t41"]).contains("router t41 is stopped"));
            wait_for(|| (!west.has_link("t41w") && !east.has_link("t41e")).then_some(()));
            stage.finish_troubled(vec![west, east]).expect("nothing is left");
        }

        #[test]
        fn the_other_end_of_a_pair_may_be_in_a_namespace() {
            support::needs!(
                Root,
                Program("ip"),
                Program("busybox"),
                Program("nsenter"),
                Program("lxc-start")
            );
            // The name that `Namespace::add` gives it.
            let name = format!("t41-west-{}", std::process::id());
            let text = FILE.replace("veth:t41w\"", &format!("veth:t41w\"\nnetns = \"{name}\""));
            let (stage, west, east) = start(&text);
            wait_until_it_runs(0);
            let settle = |is_first: bool| {
                wait_for(|| west.has_link("t41w").then_some(()));
                west.add_four("t41w", "192.0.2.2/24", "192.0.2.1").expect("a route");
                if is_first {
                    plug_in(stage.home(), "t41e", &east, "198.51.100");
                }
                ping(west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
            };
            settle(true);
            wait_until_seen(0);
            west.ip(&["link", "delete", "t41w"]).expect("deleted");
            wait_for(|| (!events(&stage, "were created again").is_empty()).then_some(()));
            settle(false);
            stage.finish_troubled(vec![west, east]).expect("nothing is left");
        }

        #[test]
        fn a_pair_that_was_pulled_out_goes_after_a_sigkill() {
            support::needs!(Root, Program("ip"), Program("nsenter"), Program("lxc-start"));
            let _turn = alone();
            let traces = Traces::now();
            let home = Namespace::add("t41-home").expect("a namespace");
            let away = Namespace::add("t41-away").expect("a namespace");
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("file.toml"), FILE).expect("a file");
            for monitor_dies in [false, true] {
                let mut run = launch(&home, folder.path());
                run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
                let (monitor, init) = wait_for(|| Some((monitor_of(run.id())?, init_of(run.id())?)));
                ip_inside(init, &["link", "set", "west", "netns", away.name()]);
                run.signal(Signal::KILL).expect("signalled");
                if monitor_dies {
                    signal("-9", monitor);
                }
                run.wait(PATIENCE).expect("it ends");
                wait_for(|| (!home.has_link("t41w") && !home.has_link("t41e")).then_some(()));
                assert!(!away.has_link("west"), "its lxc-start was killed: {monitor_dies}");
            }
            drop((home, away, folder));
            assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
        }

        /// Gives the hosts IPv6 on their ends of the pairs, and pings through.
        fn ipv6_passes(west: &Namespace, east: &Namespace) {
            west.add_six("t41w", "2001:db8:1::2/64", "2001:db8:1::1").expect("IPv6");
            east.add_six("t41e", "2001:db8:2::2/64", "2001:db8:2::1").expect("IPv6");
            // The router uses its addresses after it has looked for others that have them.
            let answers = || support::answers(west.command("busybox"), &["-6", "2001:db8:2::2"]);
            wait_for(|| answers().then_some(()));
            ping(west.command("busybox"), 3, &["-6", "2001:db8:2::2"]).expect("answers");
        }

        #[test]
        fn a_container_forwards_ipv6() {
            support::needs!(
                Root,
                Program("ip"),
                Program("busybox"),
                Program("nsenter"),
                Program("lxc-start")
            );
            if !Path::new("/proc/sys/net/ipv6").exists() {
                return println!("SKIPPED: this kernel has no IPv6");
            }
            let both = |text: String, four: &str, six: &str| {
                text.replace(&format!("\"{four}\""), &format!("[\"{four}\", \"{six}\"]"))
            };
            let text = both(FILE.to_owned(), "192.0.2.1/24", "2001:db8:1::1/64");
            let (stage, west, east) = start(&both(text, "198.51.100.1/24", "2001:db8:2::1/64"));
            wait_until_it_runs(0);
            plug_in_both(&stage, &west, &east);
            ipv6_passes(&west, &east);
            assert!(said(&["restart", "t41"]).contains("router t41 was started anew"));
            plug_in_both(&stage, &west, &east);
            ipv6_passes(&west, &east);
            [&west, &east].iter().for_each(|host| host.silence_six().expect("it is silent"));
            stage.finish_troubled(vec![west, east]).expect("nothing is left");
        }

        #[test]
        fn its_packets_are_traced_and_limited() {
            support::needs!(
                Root,
                Program("ip"),
                Program("busybox"),
                Program("nsenter"),
                Program("lxc-start")
            );
            let (stage, west, east) = start(FILE);
            wait_until_it_runs(0);
            plug_in_both(&stage, &west, &east);
            let send = || {
                let send = || {
                    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
                    let _ = socket.send_to(b"somebody there?", "198.51.100.2:7041");
                };
                west.inside(send).expect("the namespace");
            };
            let mut command = Command::new(RINGROAD);
            command.args(["trace", "t41.west", "--port", "7041"]);
            command.args(["--count", "1", "--seconds", "50", "--json"]);
            let mut trace = Running::start(&mut command).expect("it starts");
            wait_for(|| {
                send();
                trace.ended().expect("it can be looked at").then_some(())
            });
            let done = trace.wait(PATIENCE).expect("it has ended");
            assert!(done.status.success(), "{}", done.stderr);
            let traced: Value =
                serde_json::from_str(done.stdout.lines().next().expect("a packet")).expect("JSON");
            assert_eq!(traced["fate"]["left"]["nic"], "t41.east", "{traced}");
            said(&["set", "t41", "limit=10pps"]);
            let counted = stage.wait_for_counters(|counters| {
                (0..20).for_each(|_| send());
                let of_limit = |name: &str| counters.get(&format!("t41.west.limit.{name}"));
                of_limit("passed") > 0 && of_limit("drop_limit") > 0
            });
            counted.expect("some pass, and some do not");
            said(&["set", "t41", "limit=none"]);
            ping(west.command("busybox"), 3, &["198.51.100.2"]).expect("answers");
            stage.finish_troubled(vec![west, east]).expect("nothing is left");
        }

        #[test]
        fn one_whose_lxc_hangs_is_stopped_all_the_same() {
            support::needs!(Root, Program("ip"), Program("nsenter"), Program("lxc-start"));
            let started = Stage::start_with_groups(RINGROAD, FILE, &["--json"]);
            let mut stage = started.expect("it starts");
            wait_until_it_runs(0);
            let id = stage.run().id();
            let (monitor, init) = wait_for(|| Some((monitor_of(id)?, init_of(id)?)));
            // It answers nobody any more, and reaps nobody.
            signal("-STOP", monitor);
            assert!(said(&["stop", "t41"]).contains("router t41 is stopped"));
            assert_eq!((monitor_of(id), init_of(id)), (None, None));
            wait_for(|| (!stage.home().has_link("t41w") && !stage.home().has_link("t41e")).then_some(()));
            assert!(said(&["start", "t41"]).contains("router t41 runs"));
            assert!(init_of(id).is_some_and(|now| now != init));
            stage.finish_troubled(vec![]).expect("nothing is left");
        }

        #[test]
        fn nothing_is_left_after_its_end_and_after_sigkill() {
            support::needs!(Root, Program("ip"), Program("nsenter"), Program("lxc-start"));
            let _turn = alone();
            let traces = Traces::now();
            let home = Namespace::add("t41-home").expect("a namespace");
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("file.toml"), FILE).expect("a file");
            for signal in [Signal::TERM, Signal::KILL] {
                let mut run = launch(&home, folder.path());
                run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
                assert!(home.has_link("t41w"));
                run.signal(signal).expect("signalled");
                let done = run.wait(PATIENCE).expect("it ends");
                assert_eq!(done.status.success(), signal == Signal::TERM, "{}", done.stderr);
                wait_for(|| (!home.has_link("t41w") && !home.has_link("t41e")).then_some(()));
            }
            drop((home, folder));
            assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
        }

        /// Returns true if the kernel makes VLANs.
        fn has_vlans(home: &Namespace) -> bool {
            home.ip(&["link", "add", "t41v", "type", "veth", "peer", "name", "t41p"]).expect("a pair");
            let vlan = ["link", "add", "link", "t41v", "name", "t41v.7", "type", "vlan", "id", "7"];
            let has_some = home.ip(&vlan).is_ok();
            home.ip(&["link", "delete", "t41v"]).expect("deleted");
            has_some
        }

        #[test]
        fn a_vlan_that_the_kernel_lacks_is_one_line_and_no_container_is_left() {
            support::needs!(Root, Program("ip"), Program("nsenter"), Program("lxc-start"));
            let _turn = alone();
            let traces = Traces::now();
            let home = Namespace::add("t41-home").expect("a namespace");
            let folder = tempfile::tempdir().expect("a folder");
            let vlan = "[[router.interface]]\nname = \"guests\"\nnic = \"west\"\nvlan = 7\naddress = \"10.41.7.1/24\"\n";
            std::fs::write(folder.path().join("file.toml"), FILE.to_owned() + vlan).expect("a file");
            let has_vlans = has_vlans(&home);
            let mut run = launch(&home, folder.path());
            if has_vlans {
                run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
                run.signal(Signal::TERM).expect("signalled");
            }
            let done = run.wait(PATIENCE).expect("it ends");
            assert_eq!(done.status.success(), has_vlans, "{}", done.stderr);
            let refusals = done.stderr.lines().filter(|line| line.contains("no VLANs (802.1Q)")).count();
            assert_eq!(refusals, usize::from(!has_vlans), "{}", done.stderr);
            wait_for(|| (!home.has_link("t41w") && !home.has_link("t41e")).then_some(()));
            drop((home, folder));
            assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
        }
    }

    mod long {
        use std::thread;

        use support::{RandomTimes, Signal, Traces, alone};

        use super::super::*;

        /// Rounds; `RINGROAD_ROUNDS` may override it.
        const ROUNDS: u32 = 20;

        #[test]
        fn a_command_that_is_killed_at_any_moment_leaves_no_container() {
            support::needs!(Root, Program("ip"), Program("nsenter"), Program("lxc-start"));
            let _turn = alone();
            let (traces, mut moments) = (Traces::now(), RandomTimes::new());
            let home = Namespace::add("t41-long").expect("a namespace");
            let folder = tempfile::tempdir().expect("a folder");
            std::fs::write(folder.path().join("file.toml"), FILE).expect("a file");
            let rounds = std::env::var("RINGROAD_ROUNDS").ok().and_then(|text| text.parse().ok());
            for round in 0..rounds.unwrap_or(ROUNDS) {
                let mut run = launch(&home, folder.path());
                let moment = moments.within(Duration::from_millis(1000));
                thread::sleep(moment);
                run.signal(Signal::KILL).expect("killed");
                run.wait(PATIENCE).expect("it ends");
                println!("round {round}: killed after {moment:?}");
                if round % 2 == 0 {
                    // The same names are used at once, without a pause.
                    let mut next = launch(&home, folder.path());
                    next.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
                    next.signal(Signal::TERM).expect("signalled");
                    let done = next.wait(PATIENCE).expect("it ends");
                    assert!(done.status.success(), "after {moment:?}: {}", done.stderr);
                }
            }
            drop((home, folder));
            assert_eq!(Traces::left(&traces, PATIENCE), [""; 0]);
        }
    }
}
