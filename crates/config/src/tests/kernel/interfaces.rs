//! Two NICs that would make, or take away, one interface of the kernel.

use super::*;

#[test]
fn a_tap_and_the_end_of_a_pair_are_both_interfaces_of_the_host() {
    let text = |more: &str| {
        format!(
            "[[router]]\nname = \"a\"\n[[router.nic]]\nname = \"x\"\nattach = \"tap:rr\"\n\
             [[router]]\nname = \"b\"\nengine = \"kernel\"\n[[router.nic]]\nname = \"y\"\nattach = \"veth:rr\"\n{more}"
        )
    };
    let fault = parse(&text(""), "f.toml").expect_err("one name for two").to_string();
    let what = "\"tap:rr\" in line 5 makes an interface of that name already; choose another name";
    assert_eq!(fault, format!("f.toml:11: router.nic.attach: {what}"));
    assert!(parse(&text("netns = \"far\"\n"), "f.toml").is_ok(), "it is elsewhere");
}

#[test]
fn nothing_is_based_on_an_interface_that_is_moved_away() {
    let router = |name: &str, engine: &str, attach: &str| {
        let nic = format!("[[router.nic]]\nname = \"x\"\nattach = \"{attach}\"\n");
        format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\n{nic}")
    };
    let link = router("a", "kernel", "link:eth0");
    for (engine, kind) in [("kvm", "macvtap"), ("kvm", "xdp"), ("kernel", "macvlan"), ("kernel", "vf")] {
        let other = router("b", engine, &format!("{kind}:eth0"));
        for (text, place, mover) in [(format!("{link}{other}"), 12, 6), (format!("{other}{link}"), 6, 12)] {
            let fault = parse(&text, "f.toml").expect_err("a bad file").to_string();
            let what = "moves this interface away; choose another interface";
            let due = format!("f.toml:{place}: router.nic.attach: \"link:eth0\" in line {mover} {what}");
            assert_eq!(fault, due);
        }
        let apart = format!("{link}{}", router("b", engine, &format!("{kind}:eth1")));
        assert!(parse(&apart, "f.toml").is_ok(), "{kind} is on another interface");
    }
}
