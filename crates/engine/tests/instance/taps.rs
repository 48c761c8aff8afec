//! TAPs and captures belong to the instance: they stay while the file names them, whatever happens to their
//! router.

use std::fs;
use std::time::Instant;

use attach::HandedOver;
use engine::{HostServices, Instance, Plugs, State};
use telemetry::Kind;
use uplink::{Netns, Tap, TapConfig};

use crate::opened::opened;
use crate::traffic::{Stream, alone, capture, kvm, plan, router, wait_for};

/// Returns the index of an interface, which is unique as long as the interface exists.
fn number(netns: &Netns, name: &str) -> Option<String> {
    let shown = netns.command("ip").args(["-o", "link", "show", name]).output().ok()?;
    let line = String::from_utf8_lossy(&shown.stdout).into_owned();
    shown.status.success().then(|| line.split(':').next().unwrap_or_default().to_owned())
}

#[test]
fn a_tap_outlives_its_router_and_can_move_to_another_one() {
    if !kvm() {
        return;
    }
    let netns = match Netns::new() {
        Ok(netns) => netns,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let _turn = alone();
    let config = TapConfig { netns: Some(&netns), ..TapConfig::default() };
    let tap = Tap::open("rr-test", &config).expect("a TAP");
    let file = |name: &str| {
        let two = router(name, 2, "").replacen("attach = 'null'", "attach = 'tap:rr-test'", 1);
        plan(&(router("one", 1, "") + &two))
    };
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let tap = HandedOver::of(attach::link(tap).hand_over()).expect("descriptors");
    let supplies =
        HostServices { plugs, opened: [("two.in".to_owned(), tap)].into(), ..HostServices::default() };
    let mut instance = Instance::start(&file("two"), supplies).expect("it starts");
    stream.flows(20);
    let first = number(&netns, "rr-test").expect("it is there");
    instance.restart_router("two").expect("it starts again");
    assert_eq!(number(&netns, "rr-test").as_ref(), Some(&first));
    instance.stop_router("two").expect("it stops");
    assert_eq!(number(&netns, "rr-test").as_ref(), Some(&first), "as long as the file names it");
    instance.apply(&file("other"), HostServices::default()).expect("it is applied");
    assert_eq!(number(&netns, "rr-test").as_ref(), Some(&first), "and whichever router has it");
    // The kernel's own frames reach the router that has it now.
    let read =
        |instance: &Instance| crate::traffic::counters(instance).get("other.in.tap.read.frames").copied();
    wait_for("a frame of the kernel's", || {
        let links = netns.links().expect("links");
        let _ = links.set_up("rr-test", false).and_then(|()| links.set_up("rr-test", true));
        read(&instance).is_some_and(|frames| frames > 0)
    });
    stream.flows(20);
    let alone = plan(&router("one", 1, ""));
    instance.apply(&alone, HostServices::default()).expect("it is applied");
    assert_eq!(number(&netns, "rr-test"), None, "nobody names it any more");
    stream.ends_whole();
}

#[test]
fn a_tap_takes_no_other_number_of_queues() {
    if !kvm() {
        return;
    }
    let netns = match Netns::new() {
        Ok(netns) => netns,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let _turn = alone();
    let file = |router_more: &str| {
        plan(&router("one", 1, router_more).replacen("attach = 'null'", "attach = 'tap:rr-own'", 1))
    };
    let opened = netns.run(|| opened(&file(""))).expect("a thread in the namespace");
    let supplies = HostServices { opened, ..HostServices::default() };
    let mut instance = Instance::start(&file(""), supplies).expect("it starts");
    let more = file("vcpus = 2\nvhost = 'per-queue'");
    let error = instance.apply(&more, HostServices::default()).expect_err("refused");
    assert_eq!(
        format!("{error:#}"),
        "nothing was changed: router one, NIC in: the TAP `rr-own` has 1 queues while the run lasts, not 2: \
         choose another name, or start the run anew"
    );
    instance.restart_router("one").expect("it starts again");
    assert!(number(&netns, "rr-own").is_some());
    drop(instance);
    wait_for("its end", || number(&netns, "rr-own").is_none());
}

#[test]
fn a_capture_goes_on_where_it_was() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.pcap");
    let text = |more: &str| {
        let one = router("one", 1, more);
        one.replace(
            "name = 'out'\nattach = 'null'",
            &format!("name = 'out'\nattach = 'pcap:{}'", path.display()),
        )
    };
    let mut plugs = Plugs::new();
    let (near, entry) = port::pair::pair(1024).expect("a wire");
    plugs.insert("one.in".to_owned(), attach::port(Box::new(entry.source), entry.sink));
    let file = plan(&text(""));
    let supplies = HostServices { plugs, opened: opened(&file), ..HostServices::default() };
    let mut instance = Instance::start(&file, supplies).expect("it starts");
    let len = || fs::metadata(&path).map_or(0, |file| file.len());
    let mut captured = 0;
    for round in 0..3 {
        crate::traffic::offer(&near, 1, [10, 1, 1, 2], 10);
        // A record of 16 octets and a frame of 60 for each, appended to what was there already.
        captured += 10 * 76;
        wait_for("the frames in the file", || len() >= 24 + captured);
        match round {
            0 => instance.restart_router("one").expect("it starts again"),
            _ => {
                // A supervisor hands everything out again; the held descriptor is kept.
                let again = fs::OpenOptions::new().append(true).open(&path).expect("it is there");
                let opened = [("one.out".to_owned(), capture(again))].into();
                let supplies = HostServices { opened, ..HostServices::default() };
                instance.apply(&plan(&text("memory = '64M'")), supplies).expect("it is applied");
            }
        }
    }
    drop(instance);
    let octets = fs::read(&path).expect("a capture");
    let magic = 0xa1b2_3c4d_u32.to_le_bytes();
    assert_eq!(octets.windows(4).filter(|window| *window == magic).count(), 1, "one file header");
}

#[test]
fn a_capture_that_cannot_be_written_is_told_once_and_its_router_goes_on() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let text = router("one", 1, "")
        + &router("two", 2, "")
            .replace("name = 'out'\nattach = 'null'", "name = 'out'\nattach = 'pcap:full'");
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a full disk");
    let supplies = HostServices {
        plugs,
        opened: [("two.out".to_owned(), capture(full))].into(),
        ..HostServices::default()
    };
    let mut instance = Instance::start(&plan(&text), supplies).expect("it starts");
    let mut told = Vec::new();
    wait_for("somebody to say so", || {
        told.extend(instance.look_after(Instant::now()));
        !told.is_empty()
    });
    stream.flows(50);
    told.extend(instance.look_after(Instant::now()));
    let [event] = told.as_slice() else { panic!("it is told once: {told:?}") };
    assert_eq!((event.router.as_str(), event.kind), ("two", Kind::CaptureFailed));
    assert_eq!(
        event.message,
        "NIC out: its capture cannot be written; frames are lost until it can be (pcap.drop_failed)"
    );
    assert_eq!(instance.status()[1].state, State::Running);
    instance.restart_router("two").expect("it starts again");
    stream.ends_whole();
}
