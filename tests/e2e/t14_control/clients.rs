//! Clients that send garbage or read no answers, and clients that are not the owner.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Uid;
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde_json::Value;
use support::Finished;

use super::{PATIENCE, RINGROAD, SOCKET, World, assert_whole, own_run};

const NOBODY: u32 = 65534;
const PS: &[u8] = b"{\"version\":1,\"request\":{\"ps\":{}}}\n";

/// Sends octets to a run and returns what it answers until it closes the connection.
fn answered(octets: &[u8]) -> String {
    let mut stream = UnixStream::connect(SOCKET).expect("it connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // The run may close the connection before everything is sent.
    let _ = stream.write_all(octets);
    let mut text = String::new();
    // The run does not read octets that follow garbage; the kernel then reports a reset at the end.
    let _ = stream.read_to_string(&mut text);
    text
}

/// Sends many requests without reading until the connection is cut off; returns true if it was.
fn ask_and_never_read() -> bool {
    let mut stream = UnixStream::connect(SOCKET).expect("it connects");
    stream.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        match stream.write(&b"{\"version\":1,\"request\":{\"counters\":{}}}\n".repeat(100)) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return true,
            _ => {}
        }
    }
    false
}

#[test]
fn only_the_owner_gets_in() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let world = World::start();
    let mode = |path: &Path| fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o7777;
    let socket = PathBuf::from(SOCKET);
    assert_eq!((mode(&socket), mode(socket.parent().expect("a folder"))), (0o600, 0o700));

    // Another user does not even see the socket.
    let mut stranger = Command::new("busybox");
    stranger.args(["ls", SOCKET]).uid(NOBODY).gid(NOBODY);
    let done = support::run(&mut stranger, PATIENCE).expect("it ends");
    assert!(done.stderr.contains("Permission denied"), "{}", done.stderr);
    let binary = world.stage.path("ringroad");
    fs::copy(RINGROAD, &binary).expect("a copy that anybody may run");
    let folder = binary.parent().expect("a folder");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("open to all");
    let mut stranger = Command::new(&binary);
    stranger.arg("ps").uid(NOBODY).gid(NOBODY).env("XDG_RUNTIME_DIR", "/run").current_dir("/");
    let done = support::run(&mut stranger, PATIENCE).expect("it ends");
    assert!(!done.status.success() && done.stderr.contains("Permission denied"), "{}", done.stderr);

    // Nor does the run serve another user who bypasses file modes.
    let text = thread::spawn(as_nobody_whom_no_mode_keeps_out).join().expect("it ends");
    let error: Value = serde_json::from_str(text.trim_end()).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(error["error"]["message"], "this run belongs to user 0: ask as its owner or as root");
    let Finished { stderr, .. } =
        world.stage.finish_troubled(vec![world.west, world.east]).expect("nothing is left");
    assert!(stderr.lines().all(|line| line.contains("clients of the control socket")), "{stderr}");
}

/// Returns the run's answer to another user with the capability to bypass file modes. To be run in a thread of its own.
fn as_nobody_whom_no_mode_keeps_out() -> String {
    rustix::thread::set_keep_capabilities(true).expect("they are kept");
    let nobody = Uid::from_raw(NOBODY);
    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("another user");
    let pass = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let sets = CapabilitySets { effective: pass, permitted: pass, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets).expect("the capability");
    answered(PS)
}

mod all {
    use super::*;

    #[test]
    fn nonsense_and_deaf_clients_cost_no_packet() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let mut world = World::start();
        let flow = world.flow();

        for garbage in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            vec![0xff; 300_000],
            b"{\"version\":1,\"request\":"
                .to_vec()
                .into_iter()
                .chain(b"[".repeat(60_000))
                .chain(*b"\n")
                .collect(),
            b"{\"version\":9,\"request\":{\"ps\":{}}}\n".to_vec(),
            b"{\"version\":1,\"request\":{\"ps\":{}},\"more\":1}\n".to_vec(),
        ] {
            let text = answered(&garbage);
            let error: Value =
                serde_json::from_str(text.trim_end()).unwrap_or_else(|e| panic!("{e}: {text}"));
            assert!(error["error"]["message"].is_string(), "{text}");
        }
        // Twelve clients send requests and never read, as fast as they can; four places are left for others.
        let deaf: Vec<_> = (0..12).map(|_| thread::spawn(ask_and_never_read)).collect();
        for _ in 0..20 {
            assert_eq!(own_run()["run"], "t14");
        }
        // More connections than there are places: the run answers with an error, or closes them.
        let many: Vec<_> = (0..200).filter_map(|_| UnixStream::connect(SOCKET).ok()).collect();
        // The run accepts connections in order: it has answered or closed those before this one, and assigned all places.
        answered(PS);
        drop(many);
        let cut_off =
            deaf.into_iter().map(|client| client.join().expect("it ends")).filter(|cut_off| *cut_off);
        assert_eq!(cut_off.count(), 12, "who does not read is left");
        let said = world.stage.run().stderr_lines(0);
        assert_eq!(own_run()["restarts"], 0, "the data plane has died: {said:?}");
        assert_whole(flow);
        let Finished { stderr, .. } =
            world.stage.finish_troubled(vec![world.west, world.east]).expect("nothing is left");
        assert!(stderr.lines().all(|line| line.contains("clients of the control socket")), "{stderr}");
    }
}
