//! Dropping privileges, in a process of its own: this program runs itself again, with a word as its argument.
//!
//! There is no test harness: it would run tests in threads of their own, but privileges can only be dropped
//! by a process with one thread.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::fs::{Mode, OFlags, open, openat, readlinkat};
use rustix::process::geteuid;
use sandbox::give_up_privileges;

/// An unprivileged user.
const NOBODY: u32 = 65534;
/// User number that no other process has.
const OWN: u32 = 60_579;

fn is_root() -> bool {
    geteuid().is_root()
}

/// /proc entry of this process, usable when no path leads there any more.
struct Proc(OwnedFd);

impl Proc {
    fn open() -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self(open(format!("/proc/{}", std::process::id()), flags, Mode::empty()).unwrap())
    }

    fn read(&self, name: &str) -> String {
        let mut text = String::new();
        let file = openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        fs::File::from(file).read_to_string(&mut text).unwrap();
        text
    }

    /// Value of a field in `status`.
    fn status(&self, name: &str) -> String {
        let all = self.read("status");
        let line = all.lines().find(|line| line.split(':').next() == Some(name)).unwrap();
        line.split_once(':').unwrap().1.trim().to_owned()
    }

    /// Identity of its namespace of a kind.
    fn namespace(&self, kind: &str) -> String {
        readlinkat(&self.0, format!("ns/{kind}"), Vec::new()).unwrap().into_string().unwrap()
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("alone") => return alone(None),
        Some("as") => return alone(Some(OWN)),
        Some("beside-a-thread") => return beside_a_thread(),
        _ => {}
    }
    // Other arguments come from a test harness.
    nothing_is_left_of_what_the_process_was_started_with();
    a_user_without_privileges_can_give_them_up_too();
    other_threads_would_keep_their_privileges();
    println!("test result: ok. 3 passed; 0 failed");
}

fn beside_a_thread() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || assert!(stopped.recv().is_err()));
    println!("refused: {}", give_up_privileges(None).unwrap_err());
    drop(stop);
    other.join().unwrap();
}

fn alone(user: Option<u32>) {
    // Like OOMScoreAdjust= of a unit, where that is permitted (CAP_SYS_RESOURCE).
    if let Err(error) = fs::write("/proc/self/oom_score_adj", "-500") {
        println!("starts as others do: {error}");
    }
    let before = geteuid();
    let own = Proc::open();
    let namespaces = ["user", "mnt", "net", "ipc"];
    let outside = namespaces.map(|kind| own.namespace(kind));
    assert_eq!(give_up_privileges(user).unwrap(), []);

    let wanted = user.unwrap_or(before.as_raw()).to_string();
    for name in ["Uid", "Gid"].into_iter().take(if user.is_some() { 2 } else { 1 }) {
        assert!(own.status(name).split_whitespace().all(|number| number == wanted), "{}", own.status(name));
    }
    if user.is_some() {
        assert_eq!(own.status("Groups"), "");
    }
    for (kind, outside) in namespaces.into_iter().zip(outside) {
        assert_ne!(own.namespace(kind), outside, "{kind}");
    }
    assert_eq!(fs::read_dir("/").unwrap().count(), 0, "its root is empty");
    let made = fs::File::create("/made").map_err(|error| error.raw_os_error());
    assert!(matches!(made, Err(Some(libc::EROFS | libc::EACCES))), "nothing can be made there: {made:?}");

    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&own.status(set), 16), Ok(0), "{set}");
    }
    assert_eq!(own.status("NoNewPrivs"), "1");
    let score: i32 = own.read("oom_score_adj").trim().parse().unwrap();
    assert!(score >= 0, "it outlives others when memory runs out: {score}");
    let limits = own.read("limits");
    for limit in ["Max core file size", "Max msgqueue size", "Max file locks"] {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        assert_eq!(line[limit.len()..].split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{line}");
    }
    assert_eq!(rustix::process::dumpable_behavior().unwrap(), rustix::process::DumpableBehavior::NotDumpable);
    let started = Command::new("/bin/true").status().map_err(|error| error.kind());
    assert_eq!(started.err(), Some(ErrorKind::NotFound), "there is no program to start");
    println!("given up");
}

fn passed(command: &mut Command, word: &str) {
    let output = command.output().unwrap();
    let (out, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(word), "{:?}\n{out}\n{told}", output.status);
}

fn this_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn nothing_is_left_of_what_the_process_was_started_with() {
    passed(Command::new(this_program()).arg(if is_root() { "as" } else { "alone" }), "given up");
}

fn a_user_without_privileges_can_give_them_up_too() {
    if !is_root() {
        // The test before this one already covers that.
        return;
    }
    // The program must be reachable for that user.
    let folder = tempfile::Builder::new().prefix("ringroad-sandbox-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("trial");
    fs::copy(this_program(), &program).unwrap();
    passed(Command::new(program).arg("alone").uid(NOBODY).gid(NOBODY).current_dir("/"), "given up");
}

fn other_threads_would_keep_their_privileges() {
    let refusal = "refused: privileges are given up by a process with one thread; this one has 2";
    passed(Command::new(this_program()).arg("beside-a-thread"), refusal);
}
