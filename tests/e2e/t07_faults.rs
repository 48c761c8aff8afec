//! Objective: if the host lacks or refuses something (rights, devices, names, memory), the command prints one clear
//! line on stderr and exits with code 1, with nothing on stdout and nothing left behind; without huge pages a run works
//! all the same.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Finished, HugePages, Namespace, Running, Signal, Traces, alone};
use tempfile::TempDir;

/// Timeout of a start or an end, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const GONE: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Program behind `ringroad demo`, in the same folder as the command.
const LAB: &str = concat!(env!("CARGO_BIN_EXE_ringroad"), "-lab");

fn file(memory: &str, attach: &str) -> String {
    format!(
        "[[router]]\nname = \"t07\"\nmemory = \"{memory}\"\n\n[[router.nic]]\nname = \"wan\"\nattach = \"{attach}\"\n\
         address = \"192.0.2.1/24\"\n"
    )
}

fn folder_with(text: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file.toml"), text).expect("written");
    folder
}

/// Returns the command `ringroad run` in this folder.
fn run(folder: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.args(["run", "file.toml"]).current_dir(folder);
    command
}

/// Runs a command and returns the single line that it fails with.
fn line(command: &mut Command) -> String {
    let before = Traces::now();
    let done = support::run(command, PATIENCE).expect("it ends");
    one_line(&done, &before)
}

fn one_line(done: &Finished, before: &Traces) -> String {
    assert_eq!(done.status.code(), Some(1), "{} {}", done.stdout, done.stderr);
    assert_eq!(done.stdout, "");
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert_eq!(Traces::left(before, GONE), [""; 0]);
    done.stderr.clone()
}

/// Returns the line printed about a file that cannot be run here.
fn line_of(text: &str) -> String {
    line(&mut run(folder_with(text).path()))
}

#[track_caller]
fn assert_has(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line:?}");
    }
}

#[test]
fn names_that_cannot_be_used() {
    support::needs!(Root, Kvm, Tun);
    let _turn = alone();
    assert_eq!(
        line_of(&file("32M", "tap:lo")),
        "file.toml:7: router.nic.attach: interface \"lo\" exists and is not a TAP; choose another name"
    );
    assert_has(&line_of(&file("32M", "tap:a-name-of-20-letters")), &["file.toml:7: router.nic.attach: "]);
    assert_has(&line_of(&file("32M", "tap:..")), &["file.toml:7: router.nic.attach: ", "\"..\""]);
    let line = line_of(&file("32M", "pcap:/there/is/no/such/folder/x.pcap"));
    assert_has(
        &line,
        &["file.toml:7: router.nic.attach: /there/is/no/such/folder/x.pcap lies in no folder that is there"],
    );
}

/// Memory of this host in KiB.
fn memory_of_this_host() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").expect("meminfo");
    let line = text.lines().find(|line| line.starts_with("MemTotal:")).expect("a total");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn a_second_run_of_the_same_names() {
    support::needs!(Root, Kvm, Tun);
    let _turn = alone();
    let folder = folder_with(&file("32M", "tap:t07-wan"));
    let before = Traces::now();
    let mut first = Running::start(run(folder.path()).arg("--json")).expect("it starts");
    first.wait_for_line(PATIENCE, |line| line.starts_with('{')).expect("it comes up");
    let expected = format!("ringroad: a router named 't07' is already running (pid {})", first.id());
    assert_eq!(line(&mut run(folder.path())), expected);
    // Another router with the same TAP.
    let other = file("32M", "tap:t07-wan").replace("\"t07\"", "\"t07-other\"");
    let line = line_of(&other);
    assert_has(&line, &["router t07-other, NIC wan: ", "t07-wan", "used by another process"]);
    // The first run is unaffected.
    assert!(!first.ended().expect("it can be asked"));
    first.signal(Signal::INT).expect("signalled");
    let done = first.wait(PATIENCE).expect("it ends");
    assert!(done.status.success() && done.stderr.is_empty(), "{}", done.stderr);
    assert_eq!(Traces::left(&before, GONE), [""; 0]);
}

/// Copies the binaries and a file to a folder that every user can read.
fn public(text: &str) -> (TempDir, PathBuf) {
    let folder = folder_with(text);
    let (binary, lab) = (folder.path().join("ringroad"), folder.path().join("ringroad-lab"));
    fs::copy(BINARY, &binary).expect("copied");
    fs::copy(LAB, &lab).expect("copied");
    for path in [folder.path(), &binary, &lab] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permitted");
    }
    (folder, binary)
}

#[test]
fn without_rights() {
    support::needs!(Root, Kvm, Tun, Program("setpriv"));
    let _turn = alone();
    let (folder, binary) = public(&file("32M", "tap:t07-wan"));
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", "-all"]);
        command.args(["--bounding-set", "-all"]).arg(&binary).args(words).current_dir(folder.path());
        line(command.env_remove("XDG_RUNTIME_DIR"))
    };
    assert_has(&as_nobody(&["run", "file.toml"]), &["ringroad: ", "root"]);
    assert_has(&as_nobody(&["demo"]), &["ringroad: ", "root"]);
    // Root without the capability to create links.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]);
    command.arg(&binary).args(["run", "file.toml"]).current_dir(folder.path());
    assert_has(&line(&mut command), &["ringroad: ", "CAP_NET_ADMIN"]);
}

/// Returns a command, by the path of its program, in a mount namespace whose /dev has only these devices.
fn with_devices(folder: &Path, devices: &[&str], words: &[&str]) -> Command {
    let keep = |device: &&str| {
        format!(
            "mkdir -p \"$(dirname new{device})\" && touch new{device} && mount --bind {device} new{device} && "
        )
    };
    let kept: String = devices.iter().map(keep).collect();
    let script = format!("rm -rf new && mkdir new && {kept} mount --rbind new/dev /dev && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).args(words).current_dir(folder);
    command
}

#[test]
fn without_devices() {
    support::needs!(Root, Kvm, Tun, Program("unshare"));
    let _turn = alone();
    let by_kvm = file("32M", "tap:t07-wan").replacen("memory", "engine = \"kvm\"\nmemory", 1);
    let folder = folder_with(&by_kvm);
    for words in [&[BINARY, "run", "file.toml"][..], &[LAB, "demo"]] {
        let no_kvm = line(&mut with_devices(folder.path(), &["/dev/null", "/dev/net/tun"], words));
        assert_has(&no_kvm, &["/dev/kvm"]);
        let no_tun = line(&mut with_devices(folder.path(), &["/dev/null", "/dev/kvm"], words));
        assert_has(&no_tun, &["ringroad: ", "/dev/net/tun"]);
    }
    // A device with the right name that is a different device.
    let script = "mount --bind /dev/null /dev/kvm && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh", BINARY, "run", "file.toml"])
        .current_dir(folder.path());
    assert_has(&line(&mut command), &["file.toml:3: router.engine: ", "/dev/kvm"]);
}

#[test]
fn without_kvm_a_router_is_a_process() {
    support::needs!(Root, Kvm, Tun, Program("unshare"));
    let _turn = alone();
    let folder = folder_with(&file("32M", "tap:t07-wan"));
    let words = [BINARY, "run", "file.toml", "--seconds", "1", "--json"];
    let before = Traces::now();
    let mut command = with_devices(folder.path(), &["/dev/null", "/dev/net/tun"], &words);
    let done = support::run(&mut command, PATIENCE).expect("it ends");
    assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    assert_has(&done.stderr, &["no KVM (there is no /dev/kvm", "runs as a process: t07"]);
    assert_eq!(done.stderr.lines().count(), 1, "{}", done.stderr);
    assert_has(&done.stdout, &["\"t07.wan.", "t07/vcpu0"]);
    assert_eq!(Traces::left(&before, GONE), [""; 0]);
}

/// Huge pages in use while the router runs, and after it was killed: its data plane dies a moment after the supervisor.
fn pages_used(all: u32) -> (u32, u32) {
    let folder = folder_with(&file("32M", "null"));
    let mut first = Running::start(run(folder.path()).arg("--json")).expect("it starts");
    first.wait_for_line(PATIENCE, |line| line.starts_with('{')).expect("it comes up");
    let during = HugePages::free();
    first.signal(Signal::KILL).expect("killed");
    first.wait(PATIENCE).expect("it ends");
    let end = Instant::now() + PATIENCE;
    while HugePages::free() != all && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    (during, HugePages::free())
}

mod alone {
    use super::*;

    mod all {
        use super::*;

        #[test]
        fn with_huge_pages_and_without() {
            support::needs!(Root, Kvm, Tun);
            let _turn = alone();
            // None, too few for anything, and enough for either the memory or the route table of one router.
            for pages in [0, 3, 40] {
                let Some(_pages) = HugePages::set(pages) else {
                    println!("SKIPPED: this host does not give {pages} huge pages");
                    return;
                };
                let (during, after) = pages_used(pages);
                assert_eq!(after, pages, "{pages} pages: not all are free again");
                assert_eq!(during < pages, pages == 40, "{pages} pages, {during} free in a run");
            }
        }
    }
}

mod all {
    use super::*;

    #[test]
    fn memory_that_is_too_small_or_too_large() {
        support::needs!(Root, Kvm, Tun);
        let _turn = alone();
        let gib = memory_of_this_host() / (1 << 20) + 1;
        let router = |n: u64| file("1G", "null").replace("\"t07\"", &format!("\"t07-{n}\""));
        let large = line_of(&(0..gib).map(router).collect::<String>());
        assert_has(&large, &["router.memory: the routers so far want ", "MiB left; give them less"]);
        let nic = |n: u32| {
            format!(
                "[[router.nic]]\nname = \"n{n}\"\nattach = \"null\"\naddress = \"10.{n}.0.1/24\"\nqueues = 2\n"
            )
        };
        let nics: String = (0..8).map(nic).collect();
        let small = line_of(&format!("[[router]]\nname = \"t07\"\nmemory = \"16M\"\nvcpus = 2\n{nics}"));
        assert_has(
            &small,
            &["file.toml:3: router.memory: 16 MiB cannot hold 32 rings ", "write memory = \"78M\""],
        );
    }

    #[test]
    fn in_a_namespace_without_its_own_sysfs() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("nsenter"));
        let _turn = alone();
        let before = Traces::now();
        let namespace = Namespace::add("t07").expect("a namespace");
        namespace.ip(&["link", "add", "t07-wan", "type", "veth", "peer", "t07-peer"]).expect("a link");
        let folder = folder_with(&file("32M", "tap:t07-wan"));
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", namespace.name())).arg(BINARY);
        command.args(["run", "file.toml"]).current_dir(folder.path());
        assert_has(&line(&mut command), &["t07-wan", "is not a TAP", "choose another name"]);
        drop(namespace);
        assert_eq!(Traces::left(&before, GONE), [""; 0]);
    }
}
