//! Objective: every thread of a data plane is confined, whatever it serves and whatever its routers run on; a thread
//! that makes a forbidden system call ends the data plane with one line, and the supervisor restarts it on the same
//! links.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use support::{
    Finished, Injected, Namespace, Process, Signal, Stage, children_of, inject_syscall, threads_of,
};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
const PATIENCE: Duration = Duration::from_secs(60);
const NOTHING: [u64; 6] = [0; 6];
/// System call numbers of x86-64 (`asm/unistd_64.h`), their arguments and results.
const GETPID: i64 = 39;
const SOCKET: i64 = 41;
const OPENAT: i64 = 257;
/// Arguments AF_UNIX, SOCK_STREAM.
const UNIX_STREAM: [u64; 6] = [1, 1, 0, 0, 0, 0];
/// Arguments AT_FDCWD, an address that is not read, O_RDONLY | O_CLOEXEC.
const OPEN_TO_READ: [u64; 6] = [-100i64 as u64, 0, 0o2_000_000, 0, 0, 0];
const EACCES: i64 = 13;
const SIGSYS: i32 = 31;
/// From `asm-generic/fcntl.h`.
const O_NONBLOCK: u32 = 0o4000;

/// Two routers on a switch, one with a TAP, one with a capture: every kind of attachment and of I/O thread.
fn file(engine: &str) -> String {
    format!(
        "[switch.backbone]\n\
         [[router]]\nname = \"west\"\nengine = \"{engine}\"\nvhost = \"split\"\nvcpus = 2\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"tap:t11-west\"\naddress = \"192.0.2.1/24\"\n\
         [[router.nic]]\nname = \"core\"\nattach = \"switch:backbone\"\naddress = \"203.0.113.1/30\"\n\
         [[router]]\nname = \"east\"\nengine = \"{engine}\"\n\
         [[router.nic]]\nname = \"core\"\nattach = \"switch:backbone\"\naddress = \"203.0.113.2/30\"\n\
         [[router.nic]]\nname = \"tape\"\nattach = \"pcap:east.pcap\"\naddress = \"198.51.100.1/24\"\n\
         [[router.nic]]\nname = \"void\"\nattach = \"null\"\naddress = \"198.51.101.1/24\"\n"
    )
}

/// Returns the data plane of a run once all its routers forward.
fn data_plane(stage: &mut Stage, host: &Namespace) -> Process {
    // One router may be up before the other. The first line of counters comes when everything is up.
    stage.run().wait_for_line(PATIENCE, |line| line.starts_with('{')).expect("it comes up");
    assert!(answers(host), "the routers do not answer");
    current_data_plane(stage).expect("a data plane")
}

fn current_data_plane(stage: &mut Stage) -> Option<Process> {
    children_of(stage.run().id())
        .into_iter()
        .find(|child| child.words.iter().any(|word| word == "data-plane"))
}

/// Returns true if the router at the TAP answers a ping within the time of a start.
fn answers(host: &Namespace) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let mut ping = host.command("busybox");
        ping.args(["ping", "-c", "1", "-W", "1", "192.0.2.1"]);
        if support::run(&mut ping, PATIENCE).is_ok_and(|done| done.status.success()) {
            return true;
        }
    }
    false
}

/// Reads a field of `/proc/PID/task/TID/status`.
fn status(pid: u32, thread: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).expect("the thread is there");
    let line = text.lines().find(|line| line.split(':').next() == Some(field)).expect("the field is there");
    line.split_once(':').expect("a value").1.trim().to_owned()
}

fn end(mut stage: Stage) -> Finished {
    stage.run().signal(Signal::TERM).expect("it is there");
    let done = stage.run().wait(PATIENCE).expect("it ends");
    assert!(done.status.success(), "{}: {}", done.status, done.stderr);
    done
}

fn every_thread_is_confined(engine: &str) {
    let mut stage = Stage::start(RINGROAD, &file(engine)).expect("it starts");
    let host = stage.host("t11-west", "192.0.2.2/24", "192.0.2.1").expect("a host");
    let plane = data_plane(&mut stage, &host);
    let processes = [vec![plane.clone()], children_of(plane.id), routers(&mut stage)].concat();
    assert_eq!(processes.len(), if engine == "process" { 3 } else { 1 }, "{processes:?}");
    for process in &processes {
        let threads = threads_of(process.id).expect("its threads");
        for (id, name) in threads {
            let what = format!("thread {name} of {:?}", process.words);
            assert_eq!(status(process.id, id, "Seccomp"), "2", "{what}");
            assert_eq!(status(process.id, id, "NoNewPrivs"), "1", "{what}");
            for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                assert_eq!(status(process.id, id, set).trim_matches('0'), "", "{set} of {what}");
            }
        }
    }
    is_shut_in(&mut stage, &plane);
    // It has no program, library or file of the host open, apart from those handed to it.
    let done = end(stage);
    assert_eq!(done.stderr, "", "a run that is confined and says nothing");
}

/// Checks that the data plane has a user ID of its own, and that no name on the host is visible to it.
fn is_shut_in(stage: &mut Stage, plane: &Process) {
    for name in ["Uid", "Gid"] {
        let numbers = status(plane.id, plane.id, name);
        let users: Vec<u32> =
            numbers.split_whitespace().map(|number| number.parse().expect("a number")).collect();
        assert!(users.iter().all(|user| (60_578..=61_183).contains(user)), "{name}: {numbers}");
    }
    assert_eq!(status(plane.id, plane.id, "Groups"), "");
    let supervisor = stage.run().id();
    let namespace = |process: u32, kind: &str| {
        fs::read_link(format!("/proc/{process}/ns/{kind}")).expect("the process is there")
    };
    for kind in ["user", "mnt", "net", "ipc"] {
        assert_ne!(namespace(plane.id, kind), namespace(supervisor, kind), "{kind}");
    }
    let root = fs::read_dir(format!("/proc/{}/root/", plane.id)).expect("a root");
    assert_eq!(root.count(), 0, "its root is empty");
    has_its_own_standard_error(plane.id, supervisor);
}

/// Checks that its standard error is a private pipe, which does not block when its reader is slow.
fn has_its_own_standard_error(plane: u32, supervisor: u32) {
    let file = |process: u32| fs::read_link(format!("/proc/{process}/fd/2")).expect("a standard error");
    assert!(file(plane).to_string_lossy().starts_with("pipe:"), "{:?}", file(plane));
    assert_ne!(file(plane), file(supervisor));
    let facts = fs::read_to_string(format!("/proc/{plane}/fdinfo/2")).expect("what is known of it");
    let flags = facts.lines().find_map(|line| line.strip_prefix("flags:")).expect("its flags").trim();
    let flags = u32::from_str_radix(flags, 8).expect("an octal number");
    assert_ne!(flags & O_NONBLOCK, 0, "{flags:o}");
}

/// Returns the routers that are processes: children of the supervisor, named after their routers.
fn routers(stage: &mut Stage) -> Vec<Process> {
    let children = children_of(stage.run().id());
    children.into_iter().filter(|child| child.program().to_string_lossy().starts_with("/memfd:")).collect()
}

#[test]
fn every_thread_of_a_run_with_kvm_is_confined() {
    support::needs!(Root, Kvm, Tun, Program("busybox"));
    every_thread_is_confined("kvm");
}

#[test]
fn every_thread_of_a_run_with_processes_is_confined() {
    support::needs!(Root, Tun, Program("busybox"));
    every_thread_is_confined("process");
}

/// Makes one thread of the data plane call socket(2), and checks that the run recovers.
fn a_thread_is_taken_over(stage: &mut Stage, host: &Namespace, thread: &str, class: &str) {
    let plane = data_plane(stage, host);
    let link = host.ip(&["-o", "link", "show", "t11-west"]).expect("the link");
    let done = inject_syscall(plane.id, thread, SOCKET, UNIX_STREAM).expect("injected");
    assert_eq!(done, Injected::Signalled(SIGSYS), "{thread}");
    let wanted = format!("(class {class}) asked the kernel for socket(0x1, 0x1, 0x0), which it may not");
    let line = stage.run().wait_for_line(PATIENCE, |line| line.contains(&wanted)).expect("it says so");
    assert!(line.starts_with("ringroad: thread ") && line.contains(thread), "{line}");
    assert!(!stage.run().ended().expect("it can be asked"), "the supervisor survives");
    // The line is written before the process ends, and until then the other threads continue.
    let late = Instant::now() + PATIENCE;
    while current_data_plane(stage).is_none_or(|next| next.id == plane.id) {
        assert!(Instant::now() < late, "after {thread} there is no other data plane");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(answers(host), "after {thread} the routers are back");
    assert!(Process::look(plane.id).is_none(), "nothing is left of the first one");
    let index = |text: &str| text.split(':').next().map(str::to_owned);
    let now = host.ip(&["-o", "link", "show", "t11-west"]).expect("the link");
    assert_eq!(index(&now), index(&link), "the link is the same one");
}

#[test]
fn a_thread_that_asks_for_a_socket_ends_the_data_plane_and_the_run_goes_on() {
    support::needs!(Root, Kvm, Tun, Program("busybox"));
    let mut stage = Stage::start(RINGROAD, &file("kvm")).expect("it starts");
    let host = stage.host("t11-west", "192.0.2.2/24", "192.0.2.1").expect("a host");
    a_thread_is_taken_over(&mut stage, &host, "west/vcpu1", "vcpu");
    a_thread_is_taken_over(&mut stage, &host, "west/lan-rx", "vhost");
    a_thread_is_taken_over(&mut stage, &host, "ringroad/clock", "clock");
    let done = end(stage);
    let told = done.stderr.lines().filter(|line| line.contains("asked the kernel for socket")).count();
    assert_eq!(told, 3, "{}", done.stderr);
    drop(host);
}

mod all {
    use super::*;

    /// Router without effects on the host.
    const NULL: &str = "[[router]]\nname = \"t11n\"\nengine = \"process\"\n\
         [[router.nic]]\nname = \"a\"\nattach = \"null\"\naddress = \"192.0.2.1/24\"\n";

    #[test]
    fn the_data_plane_is_who_it_is_said_to_be() {
        support::needs!(Root);
        let mut stage = Stage::start_with(RINGROAD, NULL, &["--json", "--user", "60999"]).expect("it starts");
        stage.run().wait_for_line(PATIENCE, |line| line.contains("counters")).expect("it comes up");
        let plane = current_data_plane(&mut stage).expect("a data plane");
        for name in ["Uid", "Gid"] {
            assert_eq!(status(plane.id, plane.id, name).split_whitespace().collect::<Vec<_>>(), ["60999"; 4]);
        }
        end(stage);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("null.toml");
        fs::write(&path, NULL).expect("a file");
        for (user, why) in
            [("root", "root is who"), ("nobody", "who processes of routers are"), ("no-one", "no user")]
        {
            let mut command = Command::new(RINGROAD);
            let done = support::run(command.arg("run").arg(&path).args(["--user", user]), PATIENCE);
            let done = done.expect("it ends");
            assert!(!done.status.success() && done.stderr.contains(why), "{user}: {}", done.stderr);
            assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
        }
    }

    #[test]
    fn what_a_host_does_not_give_is_told_and_the_run_goes_on() {
        support::needs!(Root, Program("setpriv"));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("null.toml");
        fs::write(&path, NULL).expect("a file");
        let less = ["--bounding-set=-setuid,-setgid,-sys_admin", "--inh-caps=-all", RINGROAD];
        let with_less = || {
            let mut command = Command::new("setpriv");
            command.args(less).env("STATE_DIRECTORY", folder.path());
            command
        };
        let done =
            support::run(with_less().arg("run").arg(&path).args(["--seconds", "1", "--json"]), PATIENCE);
        let done = done.expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
        let told = "the data plane has no user of its own, number ";
        assert!(done.stderr.lines().count() == 1 && done.stderr.contains(told), "{}", done.stderr);
        let found = support::run(with_less().arg("doctor"), PATIENCE).expect("it ends").stdout;
        let line = found.lines().find(|line| line.contains("data plane")).expect("it was looked at");
        assert!(line.starts_with("note") && line.contains("no user of its own"), "{line}");
    }

    #[test]
    fn the_thread_that_serves_a_process_is_no_exception() {
        support::needs!(Root, Tun, Program("busybox"));
        let mut stage = Stage::start(RINGROAD, &file("process")).expect("it starts");
        let host = stage.host("t11-west", "192.0.2.2/24", "192.0.2.1").expect("a host");
        a_thread_is_taken_over(&mut stage, &host, "west/bus", "bus");
        end(stage);
        drop(host);
    }

    #[test]
    fn what_a_thread_may_ask_is_answered_and_opening_a_file_is_not() {
        support::needs!(Root, Kvm, Tun, Program("busybox"));
        let mut stage = Stage::start(RINGROAD, &file("kvm")).expect("it starts");
        let host = stage.host("t11-west", "192.0.2.2/24", "192.0.2.1").expect("a host");
        let plane = data_plane(&mut stage, &host);
        let pid = i64::from(plane.id);
        for thread in ["west/vcpu0", "west/lan-tx", "ringroad/clock"] {
            let done = inject_syscall(plane.id, thread, GETPID, NOTHING).expect("injected");
            assert_eq!(done, Injected::Returned(pid), "{thread}");
            let done = inject_syscall(plane.id, thread, OPENAT, OPEN_TO_READ).expect("injected");
            assert_eq!(done, Injected::Returned(-EACCES), "{thread}");
        }
        assert_eq!(data_plane(&mut stage, &host).id, plane.id, "nothing has happened");
        end(stage);
        drop(host);
    }

    /// The time between deaths must not matter to the links: kill one data plane after the other, without a pause.
    #[test]
    fn deaths_in_a_row_leave_nothing_behind() {
        support::needs!(Root, Kvm, Tun, Program("busybox"));
        let mut stage = Stage::start(RINGROAD, &file("kvm")).expect("it starts");
        let host = stage.host("t11-west", "192.0.2.2/24", "192.0.2.1").expect("a host");
        let descriptors = |stage: &mut Stage| {
            let run = Process::look(stage.run().id()).expect("the supervisor");
            run.descriptors().expect("its descriptors")
        };
        data_plane(&mut stage, &host);
        let before = descriptors(&mut stage);
        for _ in 0..3 {
            a_thread_is_taken_over(&mut stage, &host, "west/vcpu0", "vcpu");
        }
        let late = Instant::now() + PATIENCE;
        while descriptors(&mut stage) != before {
            assert!(Instant::now() < late, "{} open instead of {before}", descriptors(&mut stage));
            thread::sleep(Duration::from_millis(10));
        }
        end(stage);
        drop(host);
    }

    #[test]
    fn a_firmware_that_asks_for_a_socket_ends_alone() {
        support::needs!(Root, Tun, Program("busybox"));
        let mut stage = Stage::start(RINGROAD, &file("process")).expect("it starts");
        let host = stage.host("t11-west", "192.0.2.2/24", "192.0.2.1").expect("a host");
        let plane = data_plane(&mut stage, &host);
        let before = routers(&mut stage);
        let threads = |router: &Process| threads_of(router.id).expect("its threads");
        let of_west = |router: &&Process| threads(router).values().any(|name| name == "west/vcpu1");
        let west = before.iter().find(of_west).expect("the process of west").clone();
        let done = inject_syscall(west.id, "west/vcpu1", SOCKET, UNIX_STREAM).expect("injected");
        assert!(matches!(done, Injected::Signalled(SIGSYS) | Injected::Killed(SIGSYS)), "{done:?}");
        let line = stage.run().wait_for_line(PATIENCE, |line| line.contains("/west: ")).expect("it is told");
        assert!(line.contains("signal") || line.contains("SIGSYS"), "{line}");
        assert!(answers(&host), "it is started again");
        assert_eq!(current_data_plane(&mut stage).map(|plane| plane.id), Some(plane.id));
        let after = routers(&mut stage);
        let east = before.iter().find(|router| router.id != west.id).expect("the process of east");
        assert!(after.contains(east) && !after.contains(&west), "{before:?} then {after:?}");
        end(stage);
        drop(host);
    }
}
