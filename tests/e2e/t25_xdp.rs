//! Objective: a router between two interfaces of the host by AF_XDP, with the kernel's own stacks behind them: ping, TCP and
//! UDP; and the behaviour when the data plane or the command is killed, and when an interface goes down, is deleted or is
//! taken.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process};
use support::{Namespace, Running, Stage, Traces, alone, children_of, datagrams, echo, transfer};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);

fn file(engine: &str, more: &str) -> String {
    format!(
        "[[router]]\nname = \"t25\"\nengine = \"{engine}\"\n{more}\
         [[router.nic]]\nname = \"left\"\nattach = \"xdp:t25-left\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"xdp:t25-right\"\naddress = \"198.51.100.1/24\"\n"
    )
}

/// Creates a host with the other end of a veth pair. Its kernel computes checksums in software: between veth ends it would
/// leave them to hardware that does not exist, and a program at the driver sees frames as they are.
fn cable(home: &Namespace, name: &str, queues: u32, address: &str, gateway: &str) -> Result<Namespace> {
    let host = Namespace::add(name)?;
    for which in ["all", "default"] {
        host.set(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
        home.set(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
    }
    plug_in(home, &host, (name, queues), address, gateway)?;
    Ok(host)
}

/// Creates a veth pair between the router's namespace and a host.
fn plug_in(
    home: &Namespace,
    host: &Namespace,
    (name, queues): (&str, u32),
    address: &str,
    gateway: &str,
) -> Result<()> {
    let n = queues.to_string();
    let sides = ["numrxqueues", n.as_str(), "numtxqueues", n.as_str()];
    let link = [&["link", "add", name][..], &sides, &["type", "veth", "peer", "name", "eth0"], &sides];
    let link = [&link.concat()[..], &["netns", host.name()]].concat();
    home.ip(&link)?;
    home.ip(&["link", "set", name, "up"])?;
    host.ip(&["address", "add", address, "dev", "eth0"])?;
    host.ip(&["link", "set", "eth0", "up"])?;
    host.ip(&["route", "add", "default", "via", gateway])?;
    support::run(host.command("ethtool").args(["-K", "eth0", "tx", "off"]), PATIENCE)?;
    Ok(())
}

fn cables(home: &Namespace, queues: u32) -> Result<(Namespace, Namespace)> {
    Ok((
        cable(home, "t25-left", queues, "192.0.2.2/24", "192.0.2.1")?,
        cable(home, "t25-right", queues, "198.51.100.2/24", "198.51.100.1")?,
    ))
}

fn two_hosts(engine: &str, queues: u32, more: &str) -> (Stage, Namespace, Namespace) {
    let start = Stage::start_after(BINARY, &file(engine, more), &["--json", "--log", "text"], |home| {
        cables(home, queues)
    });
    let (stage, (left, right)) = start.expect("it starts");
    (stage, left, right)
}

/// Removes the cables, which belong to the test, and ends everything.
fn finish(stage: Stage, hosts: Vec<Namespace>) -> support::Finished {
    for name in ["t25-left", "t25-right"] {
        // One may already be gone.
        let _ = stage.home().ip(&["link", "delete", name]);
    }
    stage.finish_troubled(hosts).expect("it ends well, and leaves nothing")
}

fn answers(from: &Namespace, to: Ipv4Addr) -> bool {
    let mut command = from.command("busybox");
    command.args(["ping", "-c", "1", "-w", "1", &to.to_string()]);
    support::run(&mut command, PATIENCE).expect("ping ends").status.success()
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn both_ways(left: &Namespace, right: &Namespace) {
    wait_for("an answer from the right", || answers(left, RIGHT));
    wait_for("an answer from the left", || answers(right, LEFT));
    transfer(left, right, (RIGHT, 7001).into(), 2_000_000, PATIENCE);
    transfer(right, left, (LEFT, 7001).into(), 2_000_000, PATIENCE);
    let (near, far) = (datagrams(left, 0, PATIENCE), datagrams(right, 7025, PATIENCE));
    for octets in [0, 1, 18, 1472, 1473, 4000] {
        echo(&near, &far, (RIGHT, 7025).into(), octets);
    }
}

#[test]
fn ping_tcp_and_udp_through_two_interfaces() {
    support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
    let engines: &[&str] =
        if support::missing(&[support::Need::Kvm]).is_none() { &["kvm", "process"] } else { &["process"] };
    for engine in engines {
        let (stage, left, right) = two_hosts(engine, 1, "");
        both_ways(&left, &right);
        let mut show = Command::new(BINARY);
        let shown = support::run(show.args(["show", "t25"]), PATIENCE).expect("it ends").stdout;
        assert!(shown.contains("copy mode, in the driver, 1 queues"), "{shown}");
        let done = finish(stage, vec![left, right]);
        let counters = support::Counters::of(done.stdout.lines().filter(|line| line.contains("counters")))
            .expect("counters");
        assert!(counters.get("t25.left.xdp.read.frames") > 1000, "{counters:?}");
        assert_eq!(counters.get("t25.left.xdp.read.frames"), counters.get("t25.left.rx.frames"));
        assert_eq!(counters.faults("t25"), [""; 0]);
    }
}

/// Event that happens while an interface is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    RouterStartsAgain,
    PlaneIsKilled,
}

/// Deletes and recreates an interface, each time with this event in between.
fn is_taken_again(each: &[Meanwhile]) {
    let (mut stage, left, right) = two_hosts("process", 1, "");
    wait_for("an answer", || answers(&left, RIGHT));
    for meanwhile in each {
        let told = stage.run().stderr_lines(0).len();
        stage.home().ip(&["link", "delete", "t25-right"]).expect("deleted");
        wait_for("a word of it", || {
            stage.run().stderr_lines(told).iter().any(|line| line.contains("its interface is gone"))
        });
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::RouterStartsAgain => {
                let mut restart = Command::new(BINARY);
                let done = support::run(restart.args(["restart", "t25"]), PATIENCE).expect("it ends");
                assert!(done.status.success(), "{}", done.stderr);
            }
            Meanwhile::PlaneIsKilled => {
                let plane = plane_of(&mut stage);
                kill_process(Pid::from_raw(plane.cast_signed()).expect("an id"), Signal::KILL)
                    .expect("killed");
                wait_for("another data plane", || plane_of(&mut stage) != plane);
            }
        }
        wait_for("an answer of the other side", || answers(&left, Ipv4Addr::new(192, 0, 2, 1)));
        plug_in(stage.home(), &right, ("t25-right", 1), "198.51.100.2/24", "198.51.100.1")
            .expect("made again");
        // Its other end has a new Ethernet address, which the router learns from that end's ARP request.
        wait_for("an answer again", || answers(&right, LEFT));
        wait_for("an answer the other way", || answers(&left, RIGHT));
        // It forwards before the supervisor reports it.
        wait_for("a word of that", || {
            stage.run().stderr_lines(told).iter().any(|line| line.contains("its link is there again"))
        });
    }
    finish(stage, vec![left, right]);
}

#[test]
fn an_interface_that_is_made_again_is_taken_again() {
    support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
    is_taken_again(&[Meanwhile::Nothing]);
}

/// Returns the error message of `run` for a file that it cannot run.
fn refusal(home: &Namespace, text: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file.toml"), text).expect("written");
    let mut command = home.command(BINARY);
    command.current_dir(folder.path()).args(["run", "file.toml", "--seconds", "1"]);
    let done = support::run(&mut command, PATIENCE).expect("it ends");
    assert!(!done.status.success());
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    done.stderr
}

fn start(home: &Namespace, folder: &Path) -> Running {
    let mut command: Command = home.command(BINARY);
    Running::start(command.current_dir(folder).args(["run", "--log", "text", "file.toml"]))
        .expect("it starts")
}

fn has_program(home: &Namespace) -> bool {
    home.ip(&["link", "show", "t25-left"]).expect("links").contains("xdp")
}

fn plane_of(stage: &mut Stage) -> u32 {
    let run = stage.run().id();
    let mut plane = None;
    wait_for("a data plane", || {
        plane =
            children_of(run).into_iter().find(|child| child.words.iter().any(|word| word == "data-plane"));
        plane.is_some()
    });
    plane.expect("there is one").id
}

mod all {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said_in_one_line() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        let (stage, left, right) = two_hosts("process", 1, "");
        wait_for("an answer", || answers(&left, RIGHT));
        let other = |interface: &str| {
            format!(
                "[[router]]\nname = \"t25-two\"\nengine = \"process\"\n[[router.nic]]\nname = \"a\"\n\
                 attach = \"xdp:{interface}\"\naddress = \"192.0.2.1/24\"\n"
            )
        };
        let taken = refusal(stage.home(), &other("t25-left"));
        assert!(taken.contains("router t25-two, NIC a: `t25-left` has an XDP program already"), "{taken}");
        let missing = refusal(stage.home(), &other("t25-none"));
        assert!(missing.contains("there is no interface \"t25-none\""), "{missing}");
        stage.home().ip(&["link", "set", "lo", "mtu", "65536"]).expect("set");
        let large = refusal(stage.home(), &other("lo"));
        assert!(
            large.contains("router.nic.attach: the MTU of lo is 65536, and AF_XDP has room for 9216"),
            "{large}"
        );
        wait_for("an answer: the first goes on", || answers(&left, RIGHT));
        finish(stage, vec![left, right]);
    }

    #[test]
    fn an_interface_that_is_made_again_is_taken_again_whatever_happened_meanwhile() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        is_taken_again(&[Meanwhile::RouterStartsAgain, Meanwhile::PlaneIsKilled, Meanwhile::Nothing]);
    }

    /// Returns true if the kernel takes frames of several pages: since Linux 6.6.
    fn takes_several_pages() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
        let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(6))
    }

    #[test]
    fn jumbo_frames_pass() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        if !takes_several_pages() {
            return println!("SKIPPED: frames of several pages take Linux 6.6");
        }
        let text = file("process", "").replace("\naddress", "\nmtu = 9216\naddress");
        let start = Stage::start_after(BINARY, &text, &["--json", "--log", "text"], |home| {
            let hosts = cables(home, 1)?;
            for (host, name) in [(&hosts.0, "t25-left"), (&hosts.1, "t25-right")] {
                home.ip(&["link", "set", name, "mtu", "9216"])?;
                host.ip(&["link", "set", "eth0", "mtu", "9216"])?;
            }
            Ok(hosts)
        });
        let (stage, (left, right)) = start.expect("it starts");
        both_ways(&left, &right);
        // Packets of 9216 octets, and of one that fills a page with its headers, and more.
        let (near, far) = (datagrams(&left, 0, PATIENCE), datagrams(&right, 7026, PATIENCE));
        for octets in [3798, 3799, 4054, 4055, 9188] {
            echo(&near, &far, (RIGHT, 7026).into(), octets);
        }
        finish(stage, vec![left, right]);
    }

    #[test]
    fn members_of_a_group_share_the_queues_of_the_interfaces() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        let text = file("process", "").replace("[[router", "[[group");
        let text = text.replacen("engine", "kind = \"parallel\"\nmembers = 2\nengine", 1);
        let start = Stage::start_after(BINARY, &text, &["--json", "--log", "text"], |home| cables(home, 2));
        let (stage, (left, right)) = start.expect("it starts");
        both_ways(&left, &right);
        // With so many flows no member is without any, but once in ten thousands of runs.
        for flow in 0..16_u16 {
            transfer(&left, &right, (RIGHT, 7100 + flow).into(), 20_000, PATIENCE);
        }
        let both = |counters: &support::Counters| {
            (0..2).all(|n| counters.get(&format!("t25_{n}.left.group.passed")) > 0)
        };
        stage.wait_for_counters(both).expect("both forward");
        finish(stage, vec![left, right]);
    }

    #[test]
    fn more_queues_than_threads_and_as_many() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        for more in ["spin = \"always\"\n", "vcpus = 2\nvhost = \"per-queue\"\n"] {
            let (stage, left, right) = two_hosts("process", 2, more);
            both_ways(&left, &right);
            finish(stage, vec![left, right]);
        }
    }

    #[test]
    fn a_data_plane_that_is_killed_is_replaced_with_new_sockets() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        let (mut stage, left, right) = two_hosts("process", 1, "");
        wait_for("an answer", || answers(&left, RIGHT));
        for _ in 0..3 {
            let plane = plane_of(&mut stage);
            kill_process(Pid::from_raw(plane.cast_signed()).expect("an id"), Signal::KILL).expect("killed");
            wait_for("another data plane", || plane_of(&mut stage) != plane);
            wait_for("an answer again", || answers(&left, RIGHT));
        }
        finish(stage, vec![left, right]);
    }

    #[test]
    fn an_interface_that_goes_down_and_is_deleted() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        let (mut stage, left, right) = two_hosts("process", 1, "");
        wait_for("an answer", || answers(&left, RIGHT));
        stage.home().ip(&["link", "set", "t25-right", "down"]).expect("down");
        assert!(!answers(&left, RIGHT));
        stage.home().ip(&["link", "set", "t25-right", "up"]).expect("up");
        wait_for("an answer again", || answers(&left, RIGHT));
        stage.home().ip(&["link", "delete", "t25-right"]).expect("deleted");
        let said =
            stage.run().wait_for_line(PATIENCE, |line| line.contains("was deleted")).expect("it is told");
        assert!(said.contains("NIC right: the interface `t25-right` was deleted"), "{said}");
        wait_for("an answer: the other side goes on", || answers(&left, Ipv4Addr::new(192, 0, 2, 1)));
        finish(stage, vec![left, right]);
    }

    #[test]
    fn frames_take_locked_memory_and_too_much_of_it_is_refused() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("setpriv"), Program("prlimit"));
        let _turn = alone();
        let home = Namespace::add("t25-home").expect("a namespace");
        let hosts = cables(&home, 1).expect("cables");
        let folder = tempfile::tempdir().expect("a folder");
        for (queue_len, fits) in [(256, true), (16_384, false)] {
            let text = file("process", "")
                .replace("[[router.nic]]", &format!("[[router.nic]]\nqueue_len = {queue_len}"));
            fs::write(folder.path().join("file.toml"), text).expect("written");
            // Rights like those given by the unit: no CAP_IPC_LOCK, and the usual limit of locked memory.
            let mut command = home.command("prlimit");
            command.args(["--memlock=8388608", "setpriv", "--inh-caps=-all", "--no-new-privs"]);
            command.args(["--bounding-set=-all,+net_admin,+kill,+bpf,+net_raw", BINARY]);
            command.current_dir(folder.path()).args(["run", "file.toml", "--json", "--seconds", "1"]);
            let done = support::run(&mut command, PATIENCE).expect("it ends");
            assert_eq!(done.status.success(), fits, "{queue_len}: {}", done.stderr);
            assert_eq!(
                done.stderr.contains("more than this process may lock: a smaller `queue_len`"),
                !fits,
                "{}",
                done.stderr
            );
        }
        drop(hosts);
    }

    #[test]
    fn a_killed_command_leaves_no_program_and_can_be_started_at_once() {
        support::needs!(Root, Program("ip"), Program("ethtool"), Program("busybox"));
        let _turn = alone();
        let before = Traces::now();
        let folder = tempfile::tempdir().expect("a folder");
        let home = Namespace::add("t25-home").expect("a namespace");
        fs::write(folder.path().join("file.toml"), file("process", "")).expect("written");
        let (left, right) = cables(&home, 1).expect("cables");
        for _ in 0..3 {
            let mut run = start(&home, folder.path());
            run.wait_for_line(PATIENCE, |line| line.contains("is up after")).expect("it comes up");
            assert!(has_program(&home));
            wait_for("an answer", || answers(&left, RIGHT));
            run.signal(Signal::KILL).expect("killed");
            run.wait(PATIENCE).expect("it ends");
            wait_for("the end of the program", || !has_program(&home));
        }
        drop((left, right, home));
        assert_eq!(Traces::left(&before, PATIENCE), [""; 0]);
    }
}
