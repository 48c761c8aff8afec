//! Interfaces that go away while somebody looks.

use std::process::{Child, Command};

use config::{InterfaceKind, Plan};
use support::Need;

const NAME: &str = "goes-away";
const TIMES: usize = 100;

#[test]
fn a_tap_that_goes_away_is_a_tap_or_not_there() {
    if let Some(why) = support::missing(&[Need::Root, Need::Tun, Need::Program("ip")]) {
        println!("SKIPPED: {why}");
        return;
    }
    let text = format!(
        "[[router]]\nname = \"r\"\nengine = \"process\"\n\
         [[router.nic]]\nname = \"n\"\nattach = \"tap:{NAME}\"\naddress = \"192.0.2.1/24\"\n"
    );
    let plan = config::parse(&text, "file.toml").expect("a plan");
    for _ in 0..TIMES {
        assert!(tuntap("add").wait().expect("a child").success());
        assert_eq!(kind(&plan), Some(InterfaceKind::Tap));
        let mut going = tuntap("del");
        while going.try_wait().expect("a child").is_none() {
            let found = kind(&plan);
            assert!(matches!(found, None | Some(InterfaceKind::Tap)), "a TAP is {found:?}");
        }
        assert_eq!(kind(&plan), None);
    }
}

fn tuntap(verb: &str) -> Child {
    Command::new("ip").args(["tuntap", verb, "dev", NAME, "mode", "tap"]).spawn().expect("ip")
}

fn kind(plan: &Plan) -> Option<InterfaceKind> {
    host::facts(plan).interfaces.get(NAME).copied()
}
