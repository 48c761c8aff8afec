use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

/// Bounds each wait.
const LIMIT: Duration = Duration::from_secs(60);

/// A host below a folder, whose daemons are scripts.
fn host(zebra: &str) -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (path, text) in
        [("usr/lib/frr/zebra", zebra), ("usr/lib/frr/staticd", "sleep 1000"), ("usr/bin/vtysh", "exit 0")]
    {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    }
    root
}

fn running(root: &TempDir) -> Running {
    let layout = Layout::new(root.path(), "edge").expect("a name");
    let programs = Programs::find(root.path(), [Daemon::Zebra, Daemon::Static]).expect("scripts");
    let setup = Setup { programs, layout, folders: &["/run"], options: Options::default(), owner: None };
    let network = File::open("/proc/thread-self/ns/net").expect("our own network namespace");
    let content = Content::read("hostname edge\n").expect("a good file");
    Running::new(setup, network.into(), &content, "hostname edge\n").expect("a house")
}

/// Takes turns, with a clock that goes on by `step` from one to the next, until something is heard that is wanted.
fn until(running: &mut Running, now: &mut u64, step: u64, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let (deadline, mut heard) = (Instant::now() + LIMIT, Vec::new());
    while !heard.iter().any(|line: &String| wanted(line)) {
        running.turn(*now, &mut |news| heard.push(format!("{news:?}")));
        assert!(Instant::now() < deadline, "not within {LIMIT:?}; heard {heard:?}");
        std::thread::sleep(Duration::from_millis(1));
        *now += step;
    }
    heard
}

#[test]
fn a_daemon_that_ends_is_heard_to_the_last_line_and_started_again() {
    support::needs!(Root, Program("setpriv"));
    let root = host("echo hello; printf last >&2; exit 3");
    let (mut running, mut now) = (running(&root), 0);
    let heard = until(&mut running, &mut now, 1, |news| news.starts_with("Ended(Zebra"));
    assert!(heard.contains(&r#"Line(Zebra, "hello")"#.to_owned()), "{heard:?}");
    assert!(heard.contains(&r#"Line(Zebra, "last")"#.to_owned()), "{heard:?}");
    until(&mut running, &mut now, 1, |news| news.starts_with("Ended(Zebra"));
    assert!(running.restarts(Daemon::Zebra) >= 1);
    assert_eq!(running.process(Daemon::Static), None, "it waits for zebra");
}

#[test]
fn daemons_that_answer_are_loaded_and_stopped_in_order() {
    support::needs!(Root, Program("setpriv"));
    let root = host("sleep 1000");
    let (mut running, mut now) = (running(&root), 0);
    // The sockets of the daemons, which scripts cannot listen at.
    let listen = |daemon| {
        UnixListener::bind(root.path().join(format!("run/frr/edge/{daemon}.vty"))).expect("a socket")
    };
    running.turn(now, &mut |_| {});
    let zebra = listen(Daemon::Zebra);
    let deadline = Instant::now() + LIMIT;
    while running.process(Daemon::Static).is_none() {
        now += 1;
        running.turn(now, &mut |_| {});
        assert!(Instant::now() < deadline);
    }
    let other = listen(Daemon::Static);
    until(&mut running, &mut now, 1, |news| news == "Loaded(true)");
    assert_eq!(running.health(), Health::Settling);
    assert_eq!(running.descriptors().count(), 4);
    until(&mut running, &mut now, 1000, |news| news == "Settled");
    assert_eq!(running.health(), Health::Well);
    drop((zebra, other));
    running.stop();
    let deadline = Instant::now() + LIMIT;
    while !running.is_stopped() {
        running.turn(now, &mut |news| panic!("an end that was ordered is no news: {news:?}"));
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_daemon_that_cannot_be_started_is_tried_again() {
    support::needs!(Root, Program("setpriv"));
    let root = host("exit 0");
    let (mut running, mut now) = (running(&root), 0);
    fs::remove_file(root.path().join("usr/lib/frr/zebra")).expect("removed");
    until(&mut running, &mut now, 1, |news| news.starts_with("NotStarted(Zebra"));
    assert_eq!(running.health(), Health::Broken(Daemon::Zebra));
    until(&mut running, &mut now, 1, |news| news.starts_with("NotStarted(Zebra"));
}
