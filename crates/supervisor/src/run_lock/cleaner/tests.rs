use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read};

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::metrics::Metrics;
use crate::run_lock::RunLock;

/// List of a cleaner.
type Locks = Vec<(PathBuf, Vec<CleanupItem>)>;

fn list(told: &[u8]) -> Locks {
    // In pieces, as from a pipe.
    let told = BufReader::with_capacity(7, told);
    List::hear(told).expect("it can be read").locks().collect()
}

#[test]
fn the_list_is_what_was_told_and_not_taken_back() {
    let told = b"l/a/lock\0l/b\0r/a/lock\n/a/control\0r/a/lock\n/a/prom\0l/c\0f/b\0r/b\n/x\0l/cut";
    let files = ["/a/control", "/a/prom"].map(|path| CleanupItem::File(path.into()));
    let expected: Locks = vec![("/a/lock".into(), files.into()), ("/c".into(), vec![])];
    assert_eq!(list(told), expected);
}

#[test]
fn what_was_made_is_told_of_too() {
    let undo = Undo::of_macvtap("edge.wan");
    let told =
        [b"l/a\0u/a\n", serde_json::to_string(&undo).expect("text").as_bytes(), b"\0u/a\n{}\0"].concat();
    assert_eq!(list(&told), [("/a".into(), vec![CleanupItem::Made(undo)])]);
}

#[test]
fn of_a_router_of_the_kernel_the_last_namespace_is_taken_away() {
    let (cleanup_list, lock) = (CleanupList::default(), Path::new("/a/lock"));
    cleanup_list.add_lock(lock);
    let leftover = |name: &str, inode| kernel_router::Leftover {
        published: Some(name.to_owned()),
        id: Some(netns::Id { device: 4, inode }),
        kept: Vec::new(),
        pairs: Vec::new(),
    };
    for told in [leftover("edge", 1), leftover("core", 2), leftover("edge", 3)] {
        cleanup_list.add_rest(lock, &Remains::Kernel(&told));
    }
    let told = cleanup_list.notes().lines.concat();
    assert_eq!(told.iter().filter(|octet| **octet == 0).count(), 3, "the lock, and each name once");
    let garbage = b"k/a/lock\n\0k/a/lock\nnothing\0k/b\nedge\n{}\0";
    for told in [told.clone(), [told.as_slice(), garbage].concat()] {
        let list = List::hear(BufReader::with_capacity(7, told.as_slice())).expect("it can be read");
        assert_eq!(list.kernels(), [leftover("edge", 3), leftover("core", 2)]);
    }
}

#[test]
fn containers_come_with_the_lock_of_their_run_the_last_one_first() {
    let (cleanup_list, lock) = (CleanupList::default(), Path::new("/runs/lab/lock"));
    cleanup_list.add_lock(lock);
    let left = |name: &str| OrphanedContainer::new(name, Path::new("/runs/lab/lxc"));
    for told in [left("edge"), left("core")] {
        cleanup_list.add_rest(lock, &Remains::Container(&told));
    }
    let told = cleanup_list.notes().lines.concat();
    let list = List::hear(BufReader::new(told.as_slice())).expect("it can be read");
    assert_eq!(list.containers(), [(lock.to_owned(), left("core")), (lock.to_owned(), left("edge"))]);
}

#[test]
fn numbers_of_virtual_functions_are_known_once_by_port() {
    let (cleanup_list, lock) = (CleanupList::default(), Path::new("/runs/lab/lock"));
    cleanup_list.add_lock(lock);
    let record = |port: &str| sriov::CountRecord {
        port: port.parse().expect("an address"),
        folder: PathBuf::from("/functions"),
    };
    let (first, second) = (record("0000:01:00.0"), record("0000:01:00.1"));
    for told in [&first, &second, &first] {
        cleanup_list.add_rest(lock, &Remains::Count(told));
    }
    let told = cleanup_list.notes().lines.concat();
    let list = List::hear(BufReader::new(told.as_slice())).expect("it can be read");
    assert_eq!(list.counts(), [first, second]);
    assert!(list.functions().is_empty());
}

#[test]
fn a_virtual_function_goes_with_the_lock_on_it() {
    let (cleanup_list, run) = (CleanupList::default(), Path::new("/runs/lab/lock"));
    cleanup_list.add_lock(run);
    let former = |number: u32| sriov::FormerSettings {
        port: "0000:01:00.0".parse().expect("an address"),
        number,
        address: format!("0000:01:10.{}", 2 * number).parse().expect("an address"),
        interface: format!("eth0v{number}"),
        settings: sriov::FunctionSettings::default(),
    };
    let lock = |number: u32| PathBuf::from(format!("/functions/{}", former(number).address));
    for number in [0, 1] {
        cleanup_list.add_lock(&lock(number));
        cleanup_list.add_rest(run, &Remains::Function(&former(number), &lock(number)));
    }
    let functions = || {
        let told = cleanup_list.notes().lines.concat();
        List::hear(BufReader::new(told.as_slice())).expect("it can be read").functions()
    };
    assert_eq!(functions(), [1, 0].map(|number| (lock(number), former(number))));
    cleanup_list.forget(&lock(1));
    assert_eq!(functions(), [(lock(0), former(0))], "the other one has been restored");
}

#[test]
fn anything_else_is_nothing() {
    for told in [&b""[..], b"\0", b"\0\0", b"x/a\0", b"r/a\0", b"r/a\n/b\0", b"f/a\0", b"l"] {
        assert!(list(told).is_empty(), "{told:?}");
    }
}

#[test]
fn who_is_told_the_same_again_and_again_hears_on_and_removes_it_once() {
    // Some 20 MiB of entries that are added and removed or repeated, and then a new one.
    let rounds = (0..210_000).flat_map(|round| {
        let number = round % 3;
        let lines = format!(
            "l/runs/{number}/lock\0r/runs/{number}/lock\n/runs/{number}/control\0r/runs/lab/lock\n/a/{number}\0\
             l/runs/lab/lock\0f/runs/{number}/lock\0"
        );
        lines.into_bytes()
    });
    let told: Vec<u8> =
        b"l/runs/lab/lock\0".iter().copied().chain(rounds).chain(*b"l/last\0r/last\n/x\0").collect();
    assert!(told.len() > 16 << 20, "{}", told.len());
    let of_lab = ["/a/0", "/a/1", "/a/2"].map(|path| CleanupItem::File(path.into()));
    let last = vec![CleanupItem::File("/x".into())];
    assert_eq!(list(&told), [("/runs/lab/lock".into(), of_lab.into()), ("/last".into(), last)]);
}

#[test]
fn a_line_that_is_none_is_passed_over_and_what_is_kept_has_an_end() {
    let long = |octets: usize| [b"l/", "x".repeat(octets).as_bytes(), b"\0l/b\0"].concat();
    assert_eq!(list(&long(60_000)).len(), 2);
    assert_eq!(list(&long(70_000)), [("/b".into(), vec![])]);
    assert_eq!(list(&long(200_000)), [("/b".into(), vec![])]);
    // However much is announced, it is read, and the first entries are kept.
    let names = (0..600).map(|number| format!("l/{number}{}\0", "x".repeat(50_000)));
    let told = names.collect::<String>().into_bytes();
    let mut rest = told.as_slice();
    let kept = List::hear(BufReader::new(rest.by_ref())).expect("it can be read").locks().count();
    assert!((300..336).contains(&kept) && rest.fill_buf().expect("octets").is_empty(), "{kept}");
}

/// Process that writes what it is sent into a file, until its pipe is closed.
fn scribe(path: &Path) -> Box<dyn Fn() -> Command> {
    let path = path.to_owned();
    Box::new(move || {
        let file = OpenOptions::new().append(true).open(&path).expect("a file");
        let mut command = Command::new("cat");
        command.stdout(file);
        command
    })
}

fn told(cleanup_list: &CleanupList) -> Locks {
    list(&cleanup_list.notes().lines.concat())
}

#[test]
fn who_comes_later_is_told_what_is_still_to_be_removed() {
    let cleanup_list = CleanupList::default();
    let (edge, run, undo) = (Path::new("/a/edge"), Path::new("/runs/lab/lock"), Undo::of_macvtap("edge.wan"));
    cleanup_list.add_lock(edge);
    cleanup_list.add_lock(run);
    cleanup_list.add_rubbish(run, Path::new("/runs/lab/control"));
    cleanup_list.add_rubbish(edge, Path::new("/edge.sock"));
    cleanup_list.add_undo(run, &undo);
    cleanup_list.add_rubbish(run, Path::new("/runs/lab/control"));
    cleanup_list.forget(edge);
    cleanup_list.add_lock(Path::new("/a/edge2"));
    cleanup_list.forget(edge);
    let of_run = vec![CleanupItem::Made(undo), CleanupItem::File("/runs/lab/control".into())];
    assert_eq!(told(&cleanup_list), [(run.into(), of_run), ("/a/edge2".into(), vec![])]);
}

/// Kills the process, and waits until its end is visible.
fn kill(cleaner: &mut Cleaner) -> u32 {
    let own = cleaner.child.as_mut().expect("a process");
    own.child.kill().expect("killed");
    poll(&mut [PollFd::new(&own.pidfd, PollFlags::IN)], None).expect("it ends");
    own.child.id()
}

#[test]
fn one_that_ends_is_reaped_told_of_and_replaced_by_one_that_knows_all() {
    let path = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    let (cleanup_list, start) = (CleanupList::default(), Instant::now());
    let mut cleaner = Cleaner::start_as(scribe(&path), cleanup_list.clone(), start).expect("started");
    cleanup_list.add_lock(Path::new("/a/edge"));
    assert_eq!((cleaner.attend(start), cleaner.due()), (None, None));
    let dead = kill(&mut cleaner);
    let line = cleaner.attend(start).expect("it is told");
    let expected = format!(
        "the process that cleans up after this one (pid {dead}) has ended (signal: 9 (SIGKILL)); \
         another one is started in 100ms"
    );
    assert_eq!(line, expected);
    assert!(!Path::new(&format!("/proc/{dead}")).exists(), "a zombie stays");
    assert!(cleaner.watched().is_none());
    cleanup_list.add_lock(Path::new("/a/core"));
    let due = cleaner.due().expect("another one comes");
    assert_eq!(due, start + Duration::from_millis(100));
    assert_eq!(cleaner.attend(due - Duration::from_millis(1)), None);
    assert!(cleaner.watched().is_none(), "too early");
    File::create(&path).expect("emptied");
    assert_eq!(cleaner.attend(due), None, "one line is enough");
    assert!(cleaner.watched().is_some() && cleaner.due().is_none());
    cleanup_list.add_lock(Path::new("/a/west"));
    // Closing its pipe ends the new one, which has written everything by then.
    cleanup_list.notes().pipe = None;
    cleaner.child.as_mut().expect("a process").child.wait().expect("it ends");
    assert_eq!(fs::read(&path).expect("what it was told"), b"l/a/edge\0l/a/core\0l/a/west\0");
}

#[test]
fn one_that_dies_again_and_again_is_started_less_often() {
    let path = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    let mut now = Instant::now();
    let mut cleaner = Cleaner::start_as(scribe(&path), CleanupList::default(), now).expect("started");
    for pause in [100, 200, 400] {
        kill(&mut cleaner);
        assert!(cleaner.attend(now).is_some());
        assert_eq!(cleaner.due(), Some(now + Duration::from_millis(pause)));
        now += Duration::from_millis(pause);
        assert_eq!(cleaner.attend(now), None);
    }
}

#[test]
fn one_that_cannot_be_started_is_tried_again() {
    let path = tempfile::NamedTempFile::new().expect("a file").into_temp_path();
    let start = Instant::now();
    let mut cleaner = Cleaner::start_as(scribe(&path), CleanupList::default(), start).expect("started");
    kill(&mut cleaner);
    cleaner.attend(start);
    cleaner.command = Box::new(|| Command::new("/there/is/no/such/program"));
    let due = cleaner.due().expect("another one comes");
    let line = cleaner.attend(due).expect("it is told");
    assert!(line.starts_with("cannot start the process that cleans up: "), "{line}");
    assert!(line.ends_with("; once more in 200ms"), "{line}");
    assert_eq!(cleaner.due(), Some(due + Duration::from_millis(200)));
}

/// A refused place stays on the list: a file there is another program's.
#[test]
fn where_metrics_were_to_be_served_only_a_deserted_socket_is_removed() {
    let base = tempfile::tempdir().expect("a folder");
    let file = base.path().join("prom");
    fs::write(&file, "another program's").expect("written");
    let text = format!(
        "[telemetry]\nprometheus = \"unix:{}\"\n[[router]]\nname = \"edge\"\nengine = \"process\"\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"null\"\n",
        file.display()
    );
    let plan = config::parse(&text, "x.toml").expect("a good file");
    let mut lock = RunLock::unguarded(base.path());
    lock.name_run("lab", false).expect("a free name");
    Metrics::open(&plan, &mut lock).expect_err("it is no socket");
    let undo = Undo::of_socket(&file).expect("its path is known");
    let expected = (base.path().join("runs/lab/lock"), vec![CleanupItem::Made(undo)]);
    assert_eq!(told(&lock.cleanup_list), [expected]);
}
