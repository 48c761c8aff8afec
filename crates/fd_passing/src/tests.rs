use std::ffi::CString;
use std::fs::File;
use std::io::{Read, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, Mode, OFlags, fstat, ftruncate, memfd_create, open};
use rustix::io::{FdFlags, fcntl_getfd, ioctl_fionbio};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::*;

/// Number of different test files.
const KINDS: usize = 8;

/// One file of each kind; each is as many octets long as its number, except for kind 0, which is `first`.
fn files(first: OwnedFd) -> Vec<OwnedFd> {
    let file = |octets| {
        let file = memfd_create("file", MemfdFlags::CLOEXEC).expect("a descriptor");
        ftruncate(&file, octets).expect("a size");
        file
    };
    [first].into_iter().chain((1..KINDS as u64).map(file)).collect()
}

/// Kind of a file; a pipe has length 0.
fn kind(file: &OwnedFd) -> usize {
    fstat(file).expect("it is open").st_size as usize
}

fn is_closed_on_exec(file: &OwnedFd) -> bool {
    fcntl_getfd(file).expect("it is open").contains(FdFlags::CLOEXEC)
}

/// Octets of a message, and the kinds of its files.
type Message = (Vec<u8>, Vec<usize>);

/// Receives everything: all octets, all kinds of files, and how often some were missing.
fn hear(socket: &UnixStream, room: usize, most: usize) -> (Message, usize) {
    let ((mut octets, mut kinds), mut missing) = (Message::default(), 0);
    loop {
        let mut place = vec![0; room];
        let received = receive(socket, &mut place, most, RecvFlags::DONTWAIT).expect("all was sent");
        assert!(received.descriptors.len() <= most && received.descriptors.iter().all(is_closed_on_exec));
        kinds.extend(received.descriptors.iter().map(kind));
        missing += usize::from(received.truncated);
        if received.octets == 0 {
            return ((octets, kinds), missing);
        }
        octets.extend_from_slice(&place[..received.octets]);
    }
}

proptest! {
    #[test]
    fn all_that_is_sent_comes_in_its_order_and_what_has_no_room_is_told_and_closed(
        messages in vec((vec(any::<u8>(), 1..200), vec(0..KINDS, 0..20)), 1..8),
        room in 1_usize..300,
        most in 0_usize..24,
    ) {
        let (mut last, first) = pipe().expect("a pipe");
        let files = files(first.into());
        let (here, there) = UnixStream::pair().expect("a pair");
        for (octets, kinds) in &messages {
            let beside: Vec<_> = kinds.iter().map(|kind| &files[*kind]).collect();
            prop_assert_eq!(send(&here, octets, &beside, SendFlags::DONTWAIT), Ok(octets.len()));
        }
        drop((here, files));
        let (came, missing) = hear(&there, room, most);
        let mut sent = Message::default();
        for (octets, kinds) in &messages {
            sent.0.extend(octets);
            sent.1.extend(kinds.iter().take(most));
        }
        prop_assert_eq!(came, sent);
        prop_assert_eq!(missing, messages.iter().filter(|(_, kinds)| kinds.len() > most).count());
        // The writing end of the pipe is closed everywhere.
        ioctl_fionbio(&last, true).expect("a pipe");
        prop_assert_eq!(last.read(&mut [0]).ok(), Some(0));
    }
}

#[test]
fn as_many_descriptors_go_as_the_kernel_takes_and_with_one_more_nothing_goes() {
    let (here, there) = UnixStream::pair().expect("a pair");
    let mut place = [0; 8];
    let many = vec![&here; MOST + 1];
    assert_eq!(send(&here, b"x", &many, SendFlags::DONTWAIT), Err(Errno::TOOBIG));
    let nothing = receive(&there, &mut place, MOST, RecvFlags::DONTWAIT);
    assert_eq!(nothing.map(|received| received.octets), Err(Errno::AGAIN));
    assert_eq!(send(&here, b"x", &many[1..], SendFlags::DONTWAIT), Ok(1));
    // A receiver that asks for more gets no more.
    let received = receive(&there, &mut place, usize::MAX, RecvFlags::DONTWAIT).expect("a message");
    assert_eq!((received.octets, received.descriptors.len(), received.truncated), (1, MOST, false));
}

#[test]
fn where_nobody_listens_there_is_an_error_and_no_signal() {
    let (here, there) = UnixStream::pair().expect("a pair");
    drop(there);
    assert_eq!(send(&here, b"x", &[&here], SendFlags::empty()), Err(Errno::PIPE));
}

#[test]
fn files_have_their_types() {
    let memory = memfd_create("file", MemfdFlags::CLOEXEC).expect("a descriptor");
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    let (reader, _writer) = pipe().expect("a pipe");
    assert_eq!(file_type(memory), Ok(FileType::RegularFile));
    assert_eq!(file_type(event), Ok(FileType::Unknown));
    assert_eq!(file_type(reader), Ok(FileType::Fifo));
}

#[test]
fn the_type_of_a_file_is_known_while_its_server_does_not_answer() {
    let Ok(server) = File::options().read(true).write(true).open("/dev/fuse") else {
        println!("SKIPPED: this host has no FUSE that this user may use (/dev/fuse)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
    let options = CString::new(options).expect("text");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    if let Err(error) = mount("none", folder.path(), "fuse", flags, options.as_c_str()) {
        println!("SKIPPED: this user may not mount a file system of FUSE ({error})");
        return;
    }
    let file = open(folder.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("nothing is asked");
    let (tell, told) = mpsc::channel();
    let asker = thread::spawn(move || {
        let _ = tell.send(file_type(&file));
    });
    let found = told.recv_timeout(Duration::from_secs(60));
    // Without a server, no thread waits for an answer any more.
    drop(server);
    unmount(folder.path(), UnmountFlags::DETACH).expect("it was mounted");
    asker.join().expect("no panic");
    assert_eq!(found, Ok(Ok(FileType::Directory)));
}
