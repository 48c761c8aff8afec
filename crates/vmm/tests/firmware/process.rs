//! A firmware in a process has only its memory and its doorbells of the host, and ends with the program that
//! started it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bootinfo::map;
use support::{Injected, inject_syscall};
use vmm::{Firmware, Forker, MachineConfig, Process, Spawn, Stopped};

use crate::machines::{by_process, by_process_on, orders, start, wait_for};

fn status(pid: i32, key: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key}")).trim().to_owned()
}

/// Returns the targets of the links in a folder of /proc.
fn links(folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).expect("a folder of proc");
    let mut links: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_link(&path).expect("a link").to_string_lossy().into_owned())
        })
        .collect();
    links.sort();
    links
}

#[test]
fn every_namespace_but_time_cgroup_and_uts_is_its_own() {
    let Some(running) = by_process(orders(1)) else { return };
    running.wait_until_ready();
    let (_, pid) = running.process();
    for kind in ["user", "mnt", "pid", "net", "ipc"] {
        let theirs = fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("a namespace");
        let ours = fs::read_link(format!("/proc/self/ns/{kind}")).expect("a namespace");
        assert_ne!(theirs, ours, "{kind}");
    }
    assert_eq!(running.stop(), [Stopped::Asked]);
}

#[test]
fn it_has_no_capability_no_file_and_four_system_calls() {
    let Some(running) = by_process(orders(2)) else { return };
    running.wait_until_ready();
    let (_, pid) = running.process();
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&status(pid, set), 16), Ok(0), "{set}");
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    // Root's process runs as nobody, if that user exists in this namespace.
    let (theirs, ours) = (status(pid, "Uid"), status(std::process::id().cast_signed(), "Uid"));
    let nobody = fs::read_to_string("/proc/self/uid_map").expect("a map").trim().ends_with("4294967295");
    if ours.starts_with("0\t") && nobody {
        assert_eq!((theirs, status(pid, "Groups")), ("65534\t65534\t65534\t65534".to_owned(), String::new()));
    } else {
        assert_eq!(theirs, ours);
    }
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let modes: Vec<String> = tasks
        .map(|task| fs::read_to_string(task.expect("a thread").path().join("status")).expect("its status"))
        .map(|text| text.lines().find(|line| line.starts_with("Seccomp:")).expect("a mode").to_owned())
        .collect();
    assert_eq!(modes, ["Seccomp:\t2", "Seccomp:\t2"], "a filter in each thread");
    // Its root is an empty file system.
    let root = fs::read_dir(format!("/proc/{pid}/root")).expect("a root").count();
    assert_eq!(root, 0);
    assert_eq!(fs::read(format!("/proc/{pid}/environ")).expect("an environment"), b"");
    running.stop();
}

#[test]
fn its_descriptors_are_the_socket_and_the_bells() {
    let Some(running) = by_process(orders(2)) else { return };
    running.wait_until_ready();
    let (_, pid) = running.process();
    let open = links(&format!("/proc/{pid}/fd"));
    let sockets: Vec<_> = open.iter().filter(|(_, to)| to.starts_with("socket:")).collect();
    assert!(matches!(sockets[..], [(name, _)] if name == "3"), "{open:?}");
    assert!(open.iter().all(|(_, to)| to.starts_with("socket:") || to == "anon_inode:[eventfd]"), "{open:?}");
    // Without NICs the bell of the bus is the only one.
    assert_eq!(open.len(), 2, "{open:?}");
    running.stop();
}

/// Returns the ranges of `/proc/PID/maps` with their permissions.
fn mappings(pid: i32) -> Vec<(u64, u64, String, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let hex = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    text.lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next().and_then(|range| range.split_once('-')).expect("a range");
            let rights = words.next().expect("rights").to_owned();
            (hex(start), hex(end), rights, words.next_back().unwrap_or_default().to_owned())
        })
        .collect()
}

#[test]
fn its_memory_is_where_a_guest_has_it_and_the_route_table_cannot_be_written() {
    let Some(running) = by_process(orders(2)) else { return };
    running.wait_until_ready();
    let (_, pid) = running.process();
    let maps = mappings(pid);
    let at = |address: u64| maps.iter().find(|(start, end, ..)| (*start..*end).contains(&address));
    let rights = |address| at(address).map(|(_, _, rights, _)| rights.as_str());
    assert_eq!(rights(map::BOOT_INFO), Some("rw-s"));
    assert_eq!(rights((16 << 20) - 1), Some("rw-s"));
    assert_eq!(rights(16 << 20), None);
    assert_eq!(rights(map::FIB), Some("r--s"));
    assert_eq!(rights(map::STACK_TOP - 8), Some("rw-p"));
    assert_eq!(rights(map::STACK_TOP - map::STACK), None, "the page below a stack is a hole");
    assert_eq!(rights(map::STACK_TOP - map::STACK - 8), Some("rw-p"));
    assert!(maps.iter().all(|(_, _, rights, _)| !(rights.contains('w') && rights.contains('x'))), "{maps:?}");
    running.stop();
}

#[test]
fn its_threads_have_names_and_their_cpus() {
    let allowed = fs::read_to_string("/proc/self/status").expect("status");
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("CPUs");
    let cpu: u32 = allowed.trim().split([',', '-']).next().expect("one").parse().expect("a number");
    let Some(running) = by_process_on(orders(2), &[cpu, cpu]) else { return };
    running.wait_until_ready();
    let (_, pid) = running.process();
    let mut names = BTreeSet::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).expect("threads") {
        let task = task.expect("a thread").path();
        names.insert(fs::read_to_string(task.join("comm")).expect("a name").trim().to_owned());
        let text = fs::read_to_string(task.join("status")).expect("status");
        assert!(text.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{text}");
    }
    assert_eq!(names, BTreeSet::from(["ground/vcpu0".to_owned(), "ground/vcpu1".to_owned()]));
    running.stop();
}

#[test]
fn a_cpu_that_is_not_there_is_told_in_one_line() {
    let process = Process::new(config()).expect("a machine");
    let Err(error) = start(&process, "nowhere", &[8191]) else { panic!("there is no CPU 8191") };
    let line = format!("{error:#}");
    if line.contains("namespace") {
        return println!("SKIPPED: {line}");
    }
    assert!(line.contains("cannot run on the CPU that `pin` gives it") && !line.contains('\n'), "{line}");
}

fn config() -> MachineConfig {
    MachineConfig { name: "process-tests".into(), ram: 16 << 20, fib: None, group: None, info: orders(1) }
}

#[test]
fn a_process_that_is_killed_is_a_fault_in_one_line() {
    let Some(running) = by_process(orders(2)) else { return };
    running.wait_until_ready();
    let (_, pid) = running.process();
    kill(pid, libc::SIGKILL);
    let [Stopped::Fault(line)] = &running.ends()[..] else { panic!("a fault") };
    assert_eq!(line, "the process was killed (SIGKILL)");
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "nothing of it stays");
}

#[test]
fn a_call_that_is_not_for_it_ends_the_process_and_is_told() {
    // A permitted call with other arguments; a common call; a call by another architecture's number.
    for (number, args) in [
        (libc::SYS_futex, [0x62_0000, libc::FUTEX_REQUEUE as u64, 1, 0, 0, 0]),
        (libc::SYS_read, [3, 0x62_0000, 1, 0, 0, 0]),
        (libc::SYS_socket, [libc::AF_INET as u64, libc::SOCK_DGRAM as u64, 0, 0, 0, 0]),
        (libc::SYS_mprotect, [map::FIB, 4096, 3, 0, 0, 0]),
        (libc::SYS_clone, [libc::SIGCHLD as u64, 0, 0, 0, 0, 0]),
        (0x4000_0000 | libc::SYS_write, [3, 0x62_0000, 1, 0, 0, 0]),
    ] {
        let Some(running) = by_process(orders(2)) else { return };
        running.wait_until_ready();
        let (_, pid) = running.process();
        match inject_syscall(pid.cast_unsigned(), "ground/vcpu1", number, args) {
            Ok(Injected::Killed(libc::SIGSYS) | Injected::Signalled(libc::SIGSYS)) => {}
            Ok(other) => panic!("call {number}: {other:?}"),
            // Another user's process may not be traced.
            Err(error) => return println!("SKIPPED: {error:#}"),
        }
        let [Stopped::Fault(line)] = &running.ends()[..] else { panic!("a fault") };
        assert_eq!(line, "the process was killed: it made a system call that is not for it");
    }
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: numbers; the process is a child of this test.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

#[test]
fn a_process_that_does_not_stop_when_asked_is_killed() {
    let Some(running) = by_process(orders(1)) else { return };
    running.wait_until_ready();
    let (_, pid) = running.process();
    kill(pid, libc::SIGSTOP);
    assert_eq!(running.stop(), [Stopped::Asked]);
}

#[test]
fn its_time_on_the_cpu_is_known() {
    let Some(running) = by_process(bootinfo::BootInfo { spin: u32::MAX, ..orders(1) }) else { return };
    running.wait_until_ready();
    let (process, _) = running.process();
    let process = process.clone();
    let before = process.cpu_time();
    wait_for("time to pass", || process.cpu_time() > before + Duration::from_millis(20));
    let seen = process.cpu_time();
    running.stop();
    let last = process.cpu_time();
    assert!(last >= seen, "{last:?} after {seen:?}");
    assert_eq!(process.cpu_time(), last, "what is gone keeps what was read last");
}

#[test]
fn who_cannot_have_the_route_table_for_writing_is_everybody() {
    let table = vmm::RouteTable::new(16).expect("a route table");
    let start = fs::read_dir("/proc/self/fd").expect("descriptors").filter_map(Result::ok);
    let fibs = start.map(|entry| entry.path()).filter(|path| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("/memfd:ringroad-fib"))
    });
    // The memory of another test may disappear meanwhile.
    let mut opened = fibs.filter_map(|path| fs::OpenOptions::new().write(true).open(path).ok());
    let mut file = opened.next().expect("its memfd, and it opens");
    assert!(file.write_all(b"x").is_err(), "sealed against writing");
    assert!(file.set_len(0).is_err(), "and against shrinking");
    // SAFETY: a new mapping where the kernel likes, of a descriptor that is open.
    let mapping = unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), 4096, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    assert_eq!(mapping, libc::MAP_FAILED);
    drop(table);
}

/// A copy of this program plays another program: it starts a process and is killed.
#[test]
fn a_process_goes_with_the_program_that_started_it() {
    let forker = Forker::new().expect("an image");
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: both were just made.
    let [mut from, to] = ends.map(|end| fs::File::from(unsafe { OwnedFd::from_raw_fd(end) }));
    // SAFETY: the copy only starts a process, tells its number and sleeps, and never returns into the test.
    match unsafe { libc::fork() } {
        0 => play_host(&forker, to),
        host => {
            drop(to);
            let mut number = [0; 4];
            if from.read_exact(&mut number).is_err() {
                reap(host);
                return println!("SKIPPED: no namespaces here");
            }
            let pid = i32::from_ne_bytes(number);
            assert!(Path::new(&format!("/proc/{pid}")).exists());
            kill(host, libc::SIGKILL);
            reap(host);
            // Its parent is gone, so its new parent reaps it.
            wait_for("the process to go", || {
                fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |text| text.contains(") Z "))
            });
        }
    }
}

fn play_host(forker: &Forker, mut to: fs::File) -> ! {
    let spawned = forker.spawn("orphan", Firmware::Plain);
    if let Ok(spawned) = &spawned {
        let _ = to.write_all(&spawned.pid.to_ne_bytes());
        drop(to);
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    // SAFETY: leaves without running anything of the test.
    unsafe { libc::_exit(0) }
}

fn reap(pid: i32) {
    // SAFETY: the number of a child.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

#[test]
fn whoever_hands_over_to_a_process_that_does_not_answer_can_be_stopped() {
    let process = Process::new(config()).expect("a machine");
    let forker: Arc<dyn Spawn> = Arc::new(Forker::new().expect("an image"));
    if let Err(error) = process.spawn(&forker, "silent") {
        return println!("SKIPPED: {error:#}");
    }
    kill(process.pid().expect("it is there"), libc::SIGSTOP);
    std::thread::scope(|scope| {
        let handing = scope.spawn(|| process.hand_over(&[]));
        process.stop();
        let error = handing.join().expect("no panic").expect_err("it never answers");
        assert_eq!(error.to_string(), "it was told to stop before its process was confined");
    });
}

#[test]
fn a_machine_is_started_once() {
    let process = Process::new(config()).expect("a machine");
    if let Err(error) = start(&process, "once", &[]) {
        return println!("SKIPPED: {error:#}");
    }
    let Err(error) = start(&process, "twice", &[]) else { panic!("a second process") };
    assert_eq!(error.to_string(), "the process of a machine is started once");
}

#[test]
fn memory_that_a_guest_cannot_have_is_refused() {
    let with =
        |ram: usize| Process::new(MachineConfig { ram, ..config() }).err().map(|error| error.to_string());
    assert!(with(10 << 20).is_some_and(|line| line.contains("at least 12 MiB")));
    assert!(with((16 << 20) + 4096).is_some_and(|line| line.contains("steps of 2 MiB")));
    assert!(with(2 << 30).is_some_and(|line| line.contains("at most 2046 MiB")));
    assert_eq!(with(12 << 20), None);
}
