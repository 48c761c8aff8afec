//! Applying and restoring per-function settings.

use netlink::{Function as Seen, FunctionSetting, FunctionVlan, Mac, Netlink};
use proptest::option;
use proptest::prelude::*;

use super::*;

const MAC: Mac = [2, 0, 0, 0, 7, 1];

/// Applies steps to a model of the port.
fn carried_out(mut seen: Seen, steps: &[Step]) -> Seen {
    for step in steps {
        match *step {
            Step::Set(FunctionSetting::Mac(mac)) => seen.mac = mac,
            Step::Set(FunctionSetting::Vlan(vlan)) => seen.vlan = vlan,
            Step::Set(FunctionSetting::SpoofCheck(on)) => seen.spoof_check = on,
            Step::Set(FunctionSetting::Trusted(on)) => seen.trusted = on,
            Step::Rebind => {}
        }
    }
    seen
}

#[test]
fn only_what_differs_is_set_and_an_address_takes_the_driver_along() {
    let vlan = FunctionVlan::default();
    let seen = Seen { number: 1, mac: MAC, vlan, spoof_check: true, trusted: false };
    assert_eq!(steps(&seen, &FunctionSettings::default()), []);
    assert_eq!(
        steps(
            &seen,
            &FunctionSettings { mac: Some(MAC), spoof_check: Some(true), ..FunctionSettings::default() }
        ),
        []
    );
    let other = [2, 0, 0, 0, 7, 2];
    let wanted = FunctionSettings {
        mac: Some(other),
        vlan: Some(30),
        trusted: Some(true),
        ..FunctionSettings::default()
    };
    let expected = [
        Step::Set(FunctionSetting::Trusted(true)),
        Step::Set(FunctionSetting::Mac(other)),
        Step::Set(FunctionSetting::Vlan(FunctionVlan::new(30))),
        Step::Rebind,
    ];
    assert_eq!(steps(&seen, &wanted), expected);
}

#[test]
fn what_no_station_can_have_is_refused() {
    let with = |mac: Mac, vlan: u16| {
        FunctionSettings { mac: Some(mac), vlan: Some(vlan), ..FunctionSettings::default() }.check()
    };
    assert!(
        with(MAC, 0).is_ok() && with([0; 6], 4094).is_ok() && FunctionSettings::default().check().is_ok()
    );
    let line = with([1, 0, 0x5e, 0, 0, 1], 0).expect_err("a group").to_string();
    assert!(line.starts_with("01:00:5e:00:00:01 cannot be the address"), "{line}");
    assert!(with(MAC, 4095).expect_err("there is none").to_string().starts_with("VLAN 4095 is out of range"));
}

#[test]
fn what_is_to_come_home_can_be_written_down() {
    let former = FormerSettings {
        port: address(PORT),
        number: 2,
        address: address("0000:01:10.4"),
        interface: "eth4".to_owned(),
        settings: FunctionSettings { mac: Some(MAC), vlan: Some(0), ..FunctionSettings::default() },
    };
    let text = serde_json::to_string(&former).expect("plain words and numbers");
    assert!(text.contains(r#""address":"0000:01:10.4""#), "{text}");
    assert_eq!(serde_json::from_str::<FormerSettings>(&text).expect("its own text"), former);
    assert!(serde_json::from_str::<FormerSettings>(&text.replace("0000:01:10.4", "eth4")).is_err());
}

/// For a function that has vanished no request is sent; it would fail, as this host has no such interface.
#[test]
fn what_has_vanished_is_not_given_back() {
    let tree = Tree::of_an_82576();
    let Ok(kernel) = Netlink::open() else {
        println!("SKIPPED: no rtnetlink here");
        return;
    };
    let former = |port: &str, number, function: &str| FormerSettings {
        port: address(port),
        number,
        address: address(function),
        interface: "eth4".to_owned(),
        settings: FunctionSettings { vlan: Some(7), ..FunctionSettings::default() },
    };
    for gone in [
        former("0000:09:00.0", 0, "0000:09:10.0"),
        former(PORT, 5, "0000:01:11.2"),
        former(PORT, 2, "0000:01:11.2"),
    ] {
        restore(&sysfs(&tree), &kernel, &gone).expect("nothing is to be done");
    }
    tree.move_away(PORT, "eth0");
    restore(&sysfs(&tree), &kernel, &former(PORT, 2, "0000:01:10.4")).expect("its port is elsewhere");
}

fn some_mac() -> impl Strategy<Value = Mac> {
    (0_u8..3).prop_map(|last| [2, 0, 0, 0, 0, last])
}

proptest! {
    #[test]
    fn steps_lead_there_and_back(
        (mac, (id, priority, is_service), spoof_check, trusted) in
            (some_mac(), (0_u16..3, 0_u8..8, any::<bool>()), any::<bool>(), any::<bool>()),
        wanted in (option::of(some_mac()), option::of(0_u16..3), option::of(any::<bool>()), option::of(any::<bool>())),
    ) {
        let vlan = FunctionVlan { id, priority, is_service };
        let seen = Seen { number: 0, mac, vlan, spoof_check, trusted };
        let (mac, vlan, spoof_check, trusted) = wanted;
        let wanted = FunctionSettings { mac, vlan, spoof_check, trusted, ..FunctionSettings::default() };
        let former = FunctionSettings::as_seen(&seen).touched_by(&wanted);
        let there = carried_out(seen, &steps(&seen, &wanted));
        prop_assert!(wanted.mac.is_none_or(|mac| mac == there.mac));
        prop_assert!(wanted.vlan.is_none_or(|vlan| vlan == there.vlan.id));
        prop_assert!(wanted.spoof_check.is_none_or(|on| on == there.spoof_check));
        prop_assert!(wanted.trusted.is_none_or(|on| on == there.trusted));
        prop_assert_eq!(steps(&there, &wanted), []);
        let back = carried_out(there, &steps(&there, &former));
        prop_assert_eq!(back, seen);
    }
}
