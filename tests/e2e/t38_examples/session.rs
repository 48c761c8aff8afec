//! Runs commands as root on a private host: network and mount namespaces in which their effects are invisible to others.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::MutexGuard;
use std::thread;
use std::time::{Duration, Instant};

use config::{Plan, Router};
use support::{
    Counters, Finished, Namespace, Need, Ovs, Running, Script, Signal, Traces, alone, missing, run,
};
use tempfile::TempDir;

use super::text;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of a command that is repeated until it succeeds: each attempt may wait for answers of its own.
const TRIES: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(20);
/// Script that gives the shell that holds the mount namespace a `/sys` of its network namespace, with the host's control groups in
/// it, and named namespaces of its own.
const FURNISH: &str = "set -e
mount --rbind /sys/fs/cgroup groups
mount -t sysfs sysfs /sys
mount --rbind groups /sys/fs/cgroup
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
echo furnished
exec sleep infinity";

/// Script that keeps hosts from sending by themselves: IPv6 router solicitations and reports may come at any time, even while the
/// last table is read, which then does not add up.
const BE_QUIET: &str = "set -e
for host in $(ip netns list | cut -d ' ' -f 1); do
    ip netns exec $host sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6'
done
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6";

/// Private host, with the processes started there.
pub(super) struct Session {
    // The order of the fields is the drop order.
    running: Vec<Running>,
    ovs: Option<Ovs>,
    room: Running,
    home: Namespace,
    folder: TempDir,
    before: Traces,
    _turn: MutexGuard<'static, ()>,
}

impl Session {
    /// Creates a host with nothing but loopback.
    pub(super) fn open() -> Self {
        let turn = alone();
        let before = Traces::now();
        let folder = tempfile::tempdir().expect("a folder");
        let home = Namespace::add("rr-home").expect("a namespace");
        let at = |name: &str| folder.path().join(name);
        for name in ["groups", "bin", "state"] {
            fs::create_dir(at(name)).expect("a folder");
        }
        symlink(super::folder(), at("examples")).expect("a link");
        symlink(RINGROAD, at("bin/ringroad")).expect("a link");
        if missing(&[Need::Program("ping")]).is_some() {
            symlink("/bin/busybox", at("bin/ping")).expect("a link");
        }
        let mut room = home.command_with_groups("unshare");
        room.args(["--mount", "--propagation", "private", "sh", "-c", FURNISH]).current_dir(folder.path());
        let mut room = Running::start(&mut room).expect("it starts");
        room.wait_for_line(PATIENCE, |line| line == "furnished").expect("a host");
        Self { running: Vec::new(), ovs: None, room, home, folder, before, _turn: turn }
    }

    /// Plays a file as its comment says, and ends it: the run must start, forward, end well and leave no link behind.
    pub(super) fn play(&mut self, file: &str) {
        let plan = config::parse(&text(file), file).unwrap_or_else(|errors| panic!("{errors}"));
        let Script { before, run: words, after } = Script::of(file, &text);
        if plan.nics().any(|(_, nic)| nic.attach.kind() == "ovs") {
            self.ovs = Some(Ovs::start(&self.home).expect("Open vSwitch"));
        }
        before.iter().for_each(|line| self.command(line));
        let links = self.links();
        let mut run = self.start(&words);
        run.wait_for_line(PATIENCE, |line| line.contains(" is up after ")).expect("it comes up");
        wait_for_peers(&run, &plan);
        let (last, first) = after.split_last().expect("something is tried");
        first.iter().for_each(|line| self.command(line));
        let is_firmware = |router: &&Router| router.linux.is_none() && !router.is_in_kernel();
        let firmware: Vec<&Router> = plan.routers.iter().filter(is_firmware).collect();
        let all_forward = || {
            let counters = run.counters();
            let by_kernel = |router: &Router| counters.get(&format!("{}.ip.forwarded", router.name)) > 0;
            firmware.iter().all(|router| forwards(&counters, router)) && plan.in_kernel().all(by_kernel)
        };
        let end = Instant::now() + TRIES;
        loop {
            let done = self.run(last);
            if done.status.success() && all_forward() {
                break;
            }
            assert!(Instant::now() < end, "{last}: {done:?}; {:?}", run.counters());
            thread::sleep(LOOK);
        }
        self.command(BE_QUIET);
        // Control planes of some examples send all the time.
        run.settle_if_possible();
        run.signal(Signal::TERM).expect("signalled");
        let done = run.wait(PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}: {}", done.status, done.stderr);
        let counters = Counters::of(done.stdout.lines()).expect("counters");
        // Rings that were handed to a peer are not counted here.
        let is_handed =
            |router: &Router| router.nics.iter().any(|nic| nic.attach.kind() == "vhost-user-frontend");
        // Probes pass members of groups all the time, also while the last table is read.
        let is_still = |router: &&Router| router.group().is_none();
        for router in firmware.into_iter().filter(|router| !is_handed(router)).filter(is_still) {
            assert_eq!(counters.faults(&router.name), [""; 0]);
        }
        self.no_link_is_left(&links);
    }

    /// Ends the processes started beside the run; checks that nothing of it remains on the host.
    pub(super) fn close(self) {
        let Self { running, ovs, room, home, folder, before, .. } = self;
        drop((running, ovs, room, home, folder));
        assert_eq!(Traces::left(&before, PATIENCE), [""; 0]);
    }

    /// Returns the command for a program of this host.
    fn program(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.folder.path().join("bin");
        command.env("PATH", format!("{}:{path}", bin.display()));
        // The host's own runs must not use the packet costs learned here.
        command.env("STATE_DIRECTORY", self.folder.path().join("state"));
        if let Some(ovs) = &self.ovs {
            ovs.serve(&mut command);
        }
        command.args(["--target", &self.room.id().to_string(), "--mount", "--net", "env", "-C"]);
        command.arg(self.folder.path()).arg(program);
        command
    }

    /// Runs a command line; returns its output and exit status.
    fn run(&self, line: &str) -> Finished {
        run(self.program("bash").args(["-c", line]), PATIENCE).expect("it ends")
    }

    /// Runs a command line of which every part must succeed; one that ends in `&` keeps running.
    fn command(&mut self, line: &str) {
        if let Some(line) = line.strip_suffix('&') {
            let line = format!("exec {line}");
            let beside = Running::start(self.program("bash").args(["-c", &line])).expect("it starts");
            self.running.push(beside);
            return;
        }
        let done = self.run(&format!("set -e; {line}"));
        assert!(done.status.success(), "{line}: {}{}", done.stdout, done.stderr);
    }

    /// Starts the run itself, with the words of the comment.
    fn start(&self, line: &str) -> Running {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.program(words[0]);
        Running::start(command.args(&words[1..]).args(["--json", "--log", "text"])).expect("it starts")
    }

    /// Lists all links, each with its namespace.
    fn links(&self) -> BTreeSet<String> {
        let script = "ip -o link show; for name in $(ip netns list | cut -d ' ' -f 1); do ip -n $name -o link show | sed s/^/$name/; done";
        let done = self.run(script);
        assert!(done.status.success(), "{}", done.stderr);
        let name = |line: &str| {
            let mut parts = line.split(": ");
            let (number, link) = (parts.next()?, parts.next()?.split('@').next()?);
            Some(format!("{} {link}", number.trim_end_matches(|c: char| c.is_ascii_digit())))
        };
        done.stdout.lines().filter_map(name).collect()
    }

    /// Waits until no links exist but those, and loopback.
    fn no_link_is_left(&self, before: &BTreeSet<String>) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.links();
            let left: Vec<&String> = now.difference(before).filter(|link| !link.ends_with(" lo")).collect();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "left behind: {left:?}");
            thread::sleep(LOOK);
        }
    }
}

/// Waits until each peer has been handed its rings: it may have been started just before, and is retried now and then.
fn wait_for_peers(run: &Running, plan: &Plan) {
    let handed = plan.nics().filter(|(_, nic)| nic.attach.kind() == "vhost-user-frontend");
    for counter in handed.map(|(router, nic)| format!("{}.{}.peer.handed", router.name, nic.name)) {
        let end = Instant::now() + PATIENCE;
        while run.counters().get(&counter) == 0 {
            assert!(Instant::now() < end, "in vain: {counter}; {:?}", run.stderr_lines(0));
            thread::sleep(LOOK);
        }
    }
}

/// Returns true if a router has forwarded something, and has delivered part of its guarantee.
fn forwards(counters: &Counters, router: &Router) -> bool {
    let vcpu = format!("{}.vcpu", router.name);
    // A balancer spreads frames, or returns those of others.
    let ends = [".forwarded", ".balancer.spread", ".balancer.returned"];
    let is_end = |name: &str| ends.iter().any(|end| name.ends_with(end));
    let forwarded = counters.sum(|name| name.starts_with(&vcpu) && is_end(name));
    let delivered = counters.get(&format!("{}.guarantee.delivered", router.name));
    forwarded > 0 && (delivered > 0 || router.guarantee.is_none())
}
