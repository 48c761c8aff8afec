//! A capture into a pipe without a reader loses frames of that capture, and delays nothing else.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use engine::{Instance, Plugs};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

use crate::known::Known;
use crate::traffic::{PATIENCE, alone, plan, router, wait_for};

/// An instance whose router `two` captures into a full pipe, and the read end of the pipe.
fn stuck(folder: &Path) -> Option<(Instance, File)> {
    let path = folder.join("pipe");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let end = |way| File::from(open(&path, way | OFlags::NONBLOCK, Mode::empty()).expect("an end of it"));
    let (reader, mut writer) = (end(OFlags::RDONLY), end(OFlags::WRONLY));
    while writer.write(&[0; 4096]).is_ok() {}
    let attach = format!("name = 'out'\nattach = 'pcap:{}'", path.display());
    let two = router("two", 2, "").replace("name = 'out'\nattach = 'null'", &attach);
    Some((Known::new()?.start(&(router("one", 1, "") + &two), Plugs::new()), reader))
}

#[test]
fn a_pipe_that_nobody_reads_does_not_stop_the_time() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let Some((instance, _reader)) = stuck(folder.path()) else { return };
    let machine = instance.router("one").expect("it runs").router.machine();
    for _ in 0..3 {
        // As the idle firmware sets it.
        machine.shared().vcpus[0].alarm.0.store(1, Ordering::Release);
        wait_for("its alarm", || machine.shared().vcpus[0].alarm.0.load(Ordering::Acquire) == 0);
    }
}

#[test]
fn a_capture_into_a_pipe_that_nobody_reads_can_be_removed() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let Some((mut instance, reader)) = stuck(folder.path()) else { return };
    let (tell, told) = mpsc::channel();
    let owner = std::thread::spawn(move || {
        let changes = instance.apply(&plan(&router("one", 1, "")), Plugs::new()).expect("it is applied");
        tell.send(changes.len()).expect("it is waited for");
    });
    let changes = told.recv_timeout(PATIENCE);
    drop(reader);
    owner.join().expect("no panic");
    assert_eq!(changes, Ok(1), "it waits for who does not read");
}
