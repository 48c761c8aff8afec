use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use rustix::thread::UnshareFlags;

use super::socket_broker::PAUSE;
use super::*;

/// Taken by tests that close a socket for good, and exclusively to start a child: it has copies of all descriptors until it
/// executes its program.
static STARTS: RwLock<()> = RwLock::new(());

fn nobody_starts() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Sends something through a connection, and receives it at the other end.
fn meet(mut here: &UnixStream, mut there: &UnixStream) {
    here.write_all(b"hello").expect("written");
    let mut heard = [0; 5];
    there.read_exact(&mut heard).expect("read");
    assert_eq!(&heard, b"hello");
}

#[test]
fn peers_come_one_after_the_other_to_a_socket_of_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    let door = Door::listen(&path).expect("a door");
    let copy = door.descriptor().try_clone_to_owned().expect("a copy");
    let inside = Door::adopt(&path, door.listens(), copy);
    assert!(inside.accept().expect("nobody").is_none());
    for _ in 0..3 {
        let peer = UnixStream::connect(&path).expect("connected");
        meet(&peer, &inside.accept().expect("somebody").expect("somebody"));
    }
    drop(inside);
    assert!(path.exists(), "it belongs to who made it");
    drop(door);
    assert!(!path.exists());
}

#[test]
fn who_may_open_nothing_is_connected_as_often_as_it_asks() {
    let _started = nobody_starts();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    let door = Door::connect(&path).expect("a door");
    let copy = door.descriptor().try_clone_to_owned().expect("a copy");
    let inside = Door::adopt(&path, door.listens(), copy);
    inside.request().expect("asked");
    door.serve_request();
    let refused = inside.accept().expect_err("nobody is there");
    assert_eq!(refused.kind(), io::ErrorKind::NotFound, "{refused}");
    let listener = UnixListener::bind(&path).expect("a peer");
    for _ in 0..3 {
        inside.request().expect("asked");
        assert!(inside.accept().expect("not yet").is_none());
        door.serve_request();
        let here = inside.accept().expect("an answer").expect("a peer");
        meet(&here, &listener.accept().expect("a caller").0);
    }
    drop(listener);
    inside.request().expect("asked");
    door.serve_request();
    assert_eq!(inside.accept().expect_err("it left").kind(), io::ErrorKind::ConnectionRefused);
    // A process that may connect itself needs no other one for that.
    let listener = UnixListener::bind(folder.path().join("b.sock")).expect("a peer");
    let alone = Door::connect(&folder.path().join("b.sock")).expect("a door");
    alone.request().expect("asked");
    meet(&alone.accept().expect("an answer").expect("a peer"), &listener.accept().expect("a caller").0);
}

#[test]
fn a_path_that_is_taken_is_left_alone_and_a_deserted_one_is_not() {
    let _started = nobody_starts();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, socket) = (folder.path().join("file"), folder.path().join("socket"));
    fs::write(&file, "mine").expect("a file");
    let error = Door::listen(&file).expect_err("a file").to_string();
    assert!(error.contains("is a file, but no socket"), "{error}");
    let owner = UnixListener::bind(&socket).expect("a socket");
    let error = Door::listen(&socket).expect_err("taken").to_string();
    assert!(error.contains("is a socket of another program"), "{error}");
    drop(owner);
    let door = Door::listen(&socket).expect("a deserted one");
    fs::remove_file(&socket).expect("removed");
    let _other = UnixListener::bind(&socket).expect("somebody else's by now");
    drop(door);
    assert!(socket.exists(), "and stays");
}

#[test]
fn a_socket_whose_program_is_about_to_listen_is_not_deserted() {
    let _started = nobody_starts();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    let socket = || {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("a socket");
        bind(&socket, &SocketAddrUnix::new(&path).expect("a short path")).expect("a free path");
        socket
    };
    let starting = socket();
    let listens = || listen(&starting, BACKLOG).expect("it is bound");
    let error = remove_if_deserted(&path, listens).expect_err("it is in use").to_string();
    assert!(error.contains("is a socket of another program"), "{error}");
    UnixStream::connect(&path).expect("it is still there");
    drop(starting);
    // Another process removes it first, or nothing happens.
    remove_if_deserted(&path, || fs::remove_file(&path).expect("it is there")).expect("it is gone");
    drop(socket());
    remove_if_deserted(&path, || ()).expect("deserted");
    assert!(!path.exists());
}

#[test]
fn two_that_may_open_nothing_meet_in_a_passage() {
    let mut broker = SocketBroker::new("edge.wan").expect("a passage");
    let mut now = Instant::now();
    let inside = |door: &Door| {
        let copy = door.descriptor().try_clone_to_owned().expect("a copy");
        Door::adopt(door.path(), door.listens(), copy)
    };
    let (front, back) = (inside(broker.front()), inside(broker.back()));
    back.request().expect("asked");
    broker.serve_request(now);
    assert!(back.accept().expect("not yet").is_none() && front.accept().expect("not yet").is_none());
    for _ in 0..3 {
        front.request().expect("asked");
        now += PAUSE;
        assert!(broker.asked(now).count() == 2);
        broker.serve_request(now);
        let (here, there) = (front.accept().expect("an answer"), back.accept().expect("an answer"));
        meet(&here.expect("one end"), &there.expect("the other"));
    }
    // The successor of a dead process does not receive requests made before.
    front.request().expect("asked");
    broker.serve_request(now + PAUSE);
    broker.renew_front().expect("another front");
    broker.renew_back().expect("another back");
    let (next, last) = (inside(broker.front()), inside(broker.back()));
    assert!(next.accept().expect("not yet").is_none() && last.accept().expect("not yet").is_none());
    next.request().expect("asked");
    broker.serve_request(now + 2 * PAUSE);
    meet(
        &next.accept().expect("an answer").expect("one"),
        &last.accept().expect("an answer").expect("other"),
    );
}

#[test]
fn a_process_that_asks_without_end_is_served_after_pauses() {
    let mut broker = SocketBroker::new("edge.wan").expect("a broker");
    let copy = broker.front().descriptor().try_clone_to_owned().expect("a copy");
    let front = Door::adopt(broker.front().path(), broker.front().listens(), copy);
    let now = Instant::now();
    assert!(broker.due(now).is_none());
    front.request().expect("asked");
    broker.serve_request(now);
    front.accept().expect("an answer").expect("one end");
    front.request().expect("asked");
    broker.serve_request(now);
    assert!(front.accept().expect("not yet").is_none());
    assert_eq!(broker.asked(now).count(), 0, "its request wakes no thread");
    let due = broker.due(now).expect("a pause");
    assert_eq!(broker.asked(due).count(), 2);
    broker.serve_request(due);
    front.accept().expect("an answer").expect("one end");
}

#[test]
fn nobody_else_comes_to_a_socket_of_ours_whatever_is_masked_until_its_owner_lets_him() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path| fs::metadata(path).expect("a socket").permissions().mode() & 0o777;
    for mask in [0, 0o002, 0o022, 0o077] {
        let path = folder.path().join(format!("{mask:o}.sock"));
        // On a thread with a umask of its own.
        let masked = std::thread::scope(|scope| {
            let listen = || {
                // SAFETY: this thread has a working directory, a root and a umask of its own from here on,
                // and shares no less memory than before.
                unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.expect("its own mask");
                rustix::process::umask(Mode::from_raw_mode(mask));
                Door::listen(&path).expect("a door")
            };
            scope.spawn(listen).join().expect("it ends")
        });
        assert_eq!(mode(&path), 0o600, "with {mask:03o} masked");
        fs::set_permissions(&path, Permissions::from_mode(0o660)).expect("as its owner wants");
        let peer = UnixStream::connect(&path).expect("connected");
        meet(&peer, &masked.accept().expect("somebody").expect("somebody"));
        assert_eq!(mode(&path), 0o660, "nobody changes it back");
    }
}

#[test]
fn who_is_at_the_other_end_is_known_by_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.sock");
    let door = Door::listen(&path).expect("a door");
    let mut other = std::process::Command::new("python3");
    other
        .arg("-c")
        .arg("import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)");
    let started = {
        let _alone = STARTS.write().unwrap_or_else(PoisonError::into_inner);
        other.arg(&path).spawn()
    };
    let Ok(mut other) = started else {
        println!("SKIPPED: no python3");
        return;
    };
    let peer = loop {
        if let Some(peer) = door.accept().expect("it is ours") {
            break peer;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert_eq!(process_at(&peer), i32::try_from(other.id()).ok());
    assert_eq!(user_at(&peer).ok(), Some(rustix::process::geteuid().as_raw()));
    drop(peer);
    assert!(other.wait().expect("it ends").success());
    // If we have connected, it is the listening process.
    let there = UnixStream::connect(&path).expect("connected");
    assert_eq!(process_at(&there), i32::try_from(std::process::id()).ok());
    assert_eq!(process_at(fs::File::open("/dev/null").expect("a file")), None);
    assert!(user_at(fs::File::open("/dev/null").expect("a file")).is_err());
}
