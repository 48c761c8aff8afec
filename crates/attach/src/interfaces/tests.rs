//! Interfaces that exist, that do not exist, and that disappear during the check.

use std::process::{Child, Command};

use support::Need;

use super::*;
use crate::requirements::tests::wanted;

const NAME: &str = "goes-away";
const TIMES: usize = 100;

#[test]
fn a_tap_that_goes_away_is_a_tap_or_not_there() {
    if let Some(why) = support::missing(&[Need::Root, Need::Tun, Need::Program("ip")]) {
        println!("SKIPPED: {why}");
        return;
    }
    for _ in 0..TIMES {
        assert!(tuntap("add").wait().expect("a child").success());
        assert_eq!(kind(NAME), Some(Is::Tap));
        let mut going = tuntap("del");
        while going.try_wait().expect("a child").is_none() {
            let found = kind(NAME);
            assert!(matches!(found, None | Some(Is::Tap)), "a TAP is {found:?}");
        }
        assert_eq!(kind(NAME), None);
    }
}

fn tuntap(verb: &str) -> Child {
    Command::new("ip").args(["tuntap", verb, "dev", NAME, "mode", "tap"]).spawn().expect("ip")
}

#[test]
fn what_is_joined_must_be_there() {
    let told = |attach: &str| wanted(attach).look();
    assert_eq!(told("tap:nowhere"), Ok(Some((State::Ok, "makes the TAP".to_owned()))));
    let refused = |attach: &str| match told(attach).expect_err(attach).remove(0) {
        ("attach", what) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("tap:lo"), "interface \"lo\" exists and is not a TAP; choose another name");
    assert_eq!(refused("bridge:lo"), "interface \"lo\" exists and is not a bridge; name a bridge");
    assert_eq!(
        refused("bridge:nowhere"),
        "there is no bridge \"nowhere\"; make it: ip link add nowhere type bridge"
    );
    for missing in ["macvtap:nowhere", "xdp:nowhere"] {
        let what = refused(missing);
        let known = what.strip_prefix("there is no interface \"nowhere\"; interfaces: ").expect(&what);
        assert!(known.split(", ").any(|name| name == "lo"), "{what}");
    }
}
