use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::linux::CONSOLE_ROOM;
use crate::vcpu::Stopped;
use crate::vm::open_kvm;

/// Time limit of every wait, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Octets left in its file.
const ROOM: u64 = 1000;

fn talker(console: File) -> Config {
    let mut kernel = tempfile::tempfile().expect("a file");
    kernel.write_all(&support::attack::talking_kernel()).expect("room");
    let (name, ram) = ("talker".to_owned(), MIN_RAM as usize);
    Config { name, ram, vcpus: 1, kernel, initrd: None, append: String::new(), console: Some(console) }
}

#[test]
fn a_guest_that_talks_without_end_fills_its_file_and_stops_when_it_is_told_to() {
    let Ok(kvm) = open_kvm() else {
        println!("SKIPPED: cannot open /dev/kvm");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("console");
    let console = File::options().append(true).create(true).open(&path).expect("a file");
    console.set_len(CONSOLE_ROOM - ROOM).expect("a sparse file");
    let vm = Vm::new(&kvm, talker(console)).expect("a machine");
    let counters = vm.console().clone();
    let (stopped, talked) = thread::scope(|scope| {
        let guest = scope.spawn(|| vm.cpu(0).map(|mut cpu| cpu.run()));
        let end = Instant::now() + PATIENCE;
        while counters.lost_full.get() < ROOM && Instant::now() < end && !guest.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        vm.machine().stop_sign().store(true, Ordering::Release);
        (guest.join().expect("no panic").expect("a vCPU"), counters.lost_full.get() >= ROOM)
    });
    assert_eq!(stopped, Stopped::Asked);
    assert!(talked, "{:?}", counters.lost_full.get());
    assert_eq!((counters.octets.get(), counters.lost_failed.get()), (ROOM, 0));
    let said = std::fs::read(&path).expect("its file");
    let (before, said) = said.split_at((CONSOLE_ROOM - ROOM) as usize);
    assert!(before.iter().all(|octet| *octet == 0), "what was there stays");
    let octets: Vec<u8> = (1..=ROOM).map(|number| number as u8).collect();
    assert_eq!(said[..ROOM as usize], octets, "every octet that there is, as it was said");
    let last = String::from_utf8_lossy(&said[ROOM as usize..]);
    assert!(last.starts_with("\r\n[ringroad: the file is full;") && last.ends_with("]\r\n"), "{last}");
}
