use std::path::Path;

use super::*;

fn plan(router: &str, nic: &str, attach: &str) -> config::Plan {
    let text = format!(
        "[[router]]\nname = \"{router}\"\nengine = \"process\"\n[[router.nic]]\nname = \"{nic}\"\n\
         attach = \"{attach}\"\naddress = \"10.0.0.1/24\"\n"
    );
    config::parse(&text, "x.toml").expect("good")
}

fn named(router: &str, nic: &str) -> String {
    let plan = plan(router, nic, "bridge:br0");
    let (router, nic) = plan.nics().next().expect("one");
    name(router, nic)
}

#[test]
fn a_link_is_called_like_its_nic_as_far_as_that_goes() {
    assert_eq!(named("edge", "wan"), "edge.wan");
    assert_eq!(named("edge", "abcdefghij"), "edge.abcdefghij");
    let (one, other) = (named("a-long-router", "nic-a"), named("a-long-router", "nic-b"));
    assert!(one.starts_with("a-long-rou.") && one.len() == 15, "{one}");
    assert_ne!(one, other);
}

#[test]
fn what_stays_without_its_descriptors_is_to_be_taken_away() {
    let undone = |attach: &str| {
        let plan = plan("edge", "wan", attach);
        let (router, nic) = plan.nics().next().expect("one");
        undo(router, nic)
    };
    assert_eq!(undone("macvtap:eth0"), Some(Undo::of_macvtap("edge.wan")));
    assert_eq!(undone("ovs:br0"), Some(Undo::of_ovs_port("edge.wan")));
    let socket = Undo::of_socket(Path::new("/a/v.sock"));
    assert_eq!(undone("vhost-user-backend:/a/v.sock"), socket);
    // Where the peer listens, the socket is the peer's.
    assert_eq!(undone("vhost-user-frontend:/a/v.sock"), None);
    assert_eq!((undone("bridge:br0"), undone("tap:t0"), undone("null")), (None, None, None));
}
