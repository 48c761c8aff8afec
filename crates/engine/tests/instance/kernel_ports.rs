//! Ports of switches that lead to kernel routers: frames pass between two network namespaces.

use attach::HandedOver;
use engine::{HostServices, Instance};
use uplink::{Netns, Tap, TapConfig};

use crate::traffic::{alone, counters, plan, wait_for};

/// The data plane's plan for kernel routers with these names on one switch.
fn kernel_ports(names: &[&str]) -> config::Plan {
    let router = |name: &&str| {
        format!(
            "[[router]]\nname = '{name}'\nengine = 'kernel'\n[[router.nic]]\nname = 'lan'\nattach = 'switch:lan'\n"
        )
    };
    plan(&("[switch.lan]\n".to_owned() + &names.iter().map(router).collect::<String>())).of_data_plane()
}

fn runs(netns: &Netns, words: &[&str]) -> bool {
    let (program, words) = words.split_first().expect("a program");
    netns.command(program).args(words).output().is_ok_and(|done| done.status.success())
}

/// Opens a TAP with these addresses, as the supervisor hands it over. A TAP in place of another one has its Ethernet address, or
/// neighbours would ask for it only when they no longer take the former one for reachable, after half a minute.
fn tap(netns: &Netns, address: &str, mac: &str) -> HandedOver {
    let config = TapConfig { netns: Some(netns), ..TapConfig::default() };
    let tap = Tap::open("lan", &config).expect("a TAP");
    assert!(runs(netns, &["ip", "link", "set", "dev", "lan", "address", mac]));
    assert!(runs(netns, &["ip", "address", "add", address, "dev", "lan"]));
    HandedOver::of(attach::link(tap).hand_over()).expect("descriptors")
}

#[test]
fn frames_pass_between_namespaces_as_the_plan_says() {
    let (west, east) = match (Netns::new(), Netns::new()) {
        (Ok(west), Ok(east)) => (west, east),
        (Err(error), _) | (_, Err(error)) => return println!("SKIPPED: {error}"),
    };
    let _turn = alone();
    let answers = || runs(&west, &["busybox", "ping", "-c", "1", "-W", "1", "10.1.0.2"]);
    let of_west = || tap(&west, "10.1.0.1/24", "02:00:00:00:01:01");
    let of_east = || tap(&east, "10.1.0.2/24", "02:00:00:00:01:02");
    let opened = [("west.lan".to_owned(), of_west()), ("east.lan".to_owned(), of_east())];
    let supplies = HostServices { opened: opened.into(), ..HostServices::default() };
    let mut instance = Instance::start(&kernel_ports(&["west", "east"]), supplies).expect("it starts");
    wait_for("an answer", answers);
    let counted = counters(&instance);
    let of = |name: &str| counted.get(name).copied().unwrap_or_default();
    assert!(of("west.lan.tap.read.frames") > 0 && of("east.lan.tap.write.frames") > 0, "{counted:?}");
    assert!(counted.keys().any(|name| name.starts_with("switch.lan.east.lan.")), "{counted:?}");

    instance.apply(&kernel_ports(&["west"]), HostServices::default()).expect("it is applied");
    assert!(!answers() && !counters(&instance).keys().any(|name| name.starts_with("east.")));
    let refused = instance
        .apply(&kernel_ports(&["west", "east"]), HostServices::default())
        .expect_err("there is no TAP");
    assert_eq!(format!("{refused:#}"), "nothing was changed: nobody has opened the TAP of NIC east.lan");
    // The kernel has removed the device with its last descriptor.
    let opened = [("east.lan".to_owned(), of_east())].into();
    let supplies = HostServices { opened, ..HostServices::default() };
    instance.apply(&kernel_ports(&["west", "east"]), supplies).expect("it is applied");
    wait_for("an answer", answers);

    // Replace a deleted TAP, as the supervisor does.
    assert!(runs(&east, &["ip", "link", "delete", "lan"]));
    instance.replace("east.lan", of_east()).expect("it is replaced");
    wait_for("an answer", answers);
}
