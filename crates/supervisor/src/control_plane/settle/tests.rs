use support::needs;

use super::*;

/// A router with these lines for its routes.
fn router(routes: &str) -> Router {
    let text = format!(
        "[[router]]\nname = \"edge\"\ncontrol = {{}}\n\
         [[router.nic]]\nname = \"wan\"\nattach = \"null\"\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n\
         [[router.nic]]\nname = \"lan\"\nattach = \"null\"\naddress = \"198.51.100.1/24\"\n{routes}"
    );
    config::parse(&text, "f.toml").expect("a good file").routers.remove(0)
}

#[test]
fn a_kernel_without_vlans_is_known_before_one_is_made() {
    needs!(Root, Program("ip"));
    let namespace = support::Namespace::add("vlans").expect("a namespace");
    let inside = Namespace::open_named(namespace.name()).expect("a namespace");
    let answer = may_have_vlans(&inside);
    assert!(!namespace.ip(&["-o", "link", "show"]).expect("links").contains("probe"));
    namespace.ip(&["link", "add", "wan", "type", "veth", "peer", "name", "peer"]).expect("a link");
    let vlan = ["link", "add", "link", "wan", "name", "guests", "type", "vlan", "id", "7"];
    assert_eq!(answer.is_ok(), namespace.ip(&vlan).is_ok(), "{answer:?}");
}

#[test]
fn routes_with_several_gateways_are_laid_changed_and_withdrawn() {
    needs!(Root, Program("ip"));
    let namespace = support::Namespace::add("settle").expect("a namespace");
    for (link, address) in [("wan", "192.0.2.1/24"), ("lan", "198.51.100.1/24")] {
        let peer = format!("{link}-peer");
        namespace.ip(&["link", "add", link, "type", "veth", "peer", "name", &peer]).expect("a link");
        for end in [link, &peer] {
            namespace.ip(&["link", "set", end, "up"]).expect("up");
        }
        namespace.ip(&["address", "add", address, "dev", link]).expect("an address");
    }
    let inside = Namespace::open_named(namespace.name()).expect("a namespace");
    let kernel = inside.netlink().expect("a socket");
    let laid =
        || -> Vec<Route> { kernel.all_kept(is_laid).expect("a dump").into_iter().map(sorted).collect() };
    let to = "[[router.route]]\nto = \"10.0.0.0/8\"\n";
    let both = router(&format!("{to}via = [\"198.51.100.2\", \"192.0.2.2\"]\nweights = [3, 1]\n"));
    let others = router(&format!("{to}via = [\"192.0.2.3\", \"192.0.2.2\"]\n"));
    let mut before: Vec<Route> = Vec::new();
    for router in [&both, &both, &others, &both] {
        let wanted = several(&kernel, router).expect("both interfaces are there");
        assert_eq!(wanted[0].next_hops.len(), 2);
        withdraw(&kernel, &wanted).expect("withdrawn");
        assert_eq!(laid(), if wanted == before { before } else { Vec::new() });
        lay(&kernel, &wanted).expect("laid");
        lay(&kernel, &wanted).expect("they are there");
        assert_eq!(laid(), wanted);
        before = wanted;
    }
    let none = router("");
    withdraw(&kernel, &several(&kernel, &none).expect("nothing is wanted")).expect("withdrawn");
    assert!(laid().is_empty());
}
