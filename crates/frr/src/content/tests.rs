use proptest::prelude::*;

use super::*;

fn daemons(text: &str) -> Vec<&'static str> {
    Content::read(text).expect("a good file").daemons().map(Daemon::name).collect()
}

#[test]
fn a_file_starts_what_it_needs_and_no_more() {
    assert_eq!(daemons("ip route 198.51.100.0/24 192.0.2.2\n"), ["zebra", "staticd"]);
    let bgp = "router bgp 65001\n neighbor 192.0.2.2 remote-as 65002\n neighbor 192.0.2.2 bfd\n";
    assert_eq!(daemons(bgp), ["zebra", "staticd", "bfdd", "bgpd"]);
    assert_eq!(daemons("router ospf6\n ospf6 router-id 192.0.2.1\n"), ["zebra", "staticd", "ospf6d"]);
    let all = "interface wan\n ip ospf area 0\n ip ospf bfd\n vrrp 5 version 3\nrouter isis 1\nrouter ripng\nrouter rip\n";
    let expected = ["zebra", "staticd", "bfdd", "ospfd", "isisd", "ripd", "ripngd", "vrrpd"];
    assert_eq!(daemons(all), expected);
    assert_eq!(daemons("ip route 10.0.0.0/8 192.0.2.2 bfd\n"), ["zebra", "staticd", "bfdd"]);
}

#[test]
fn comments_and_negations_need_nothing() {
    assert_eq!(
        daemons("! router bgp 1\n# router ospf\nno router rip\n  no mpls label\n"),
        ["zebra", "staticd"]
    );
    assert_eq!(daemons("neighbor bfd-peers description bf\n"), ["zebra", "staticd"]);
    assert_eq!(daemons("router ospfx\n"), ["zebra", "staticd"], "whole words only");
}

#[test]
fn what_cannot_work_is_refused_by_line() {
    for (text, line, words) in [
        ("\nvrf red\n", 2, "a router of its own"),
        ("router bgp 65001 vrf red\n", 1, "a router of its own"),
        ("router bgp 1\n address-family ipv4 unicast\n  import vrf red\n", 3, "not leaked"),
        ("ip route 10.0.0.0/8 192.0.2.2 vrf red\n", 1, "another [[router]]"),
        ("!\nipv6 route 2001:db8::/32 2001:db8:1::2 wan vrf red\n", 2, "another [[router]]"),
        ("ip route 10.0.0.0/8 192.0.2.2 nexthop-vrf red\n", 1, "not leaked"),
        ("ipv6 route 2001:db8::/32 wan nexthop-vrf red\n", 1, "not leaked"),
        ("interface lan\n mpls enable\n", 2, "MPLS"),
        ("fpm address 127.0.0.1\n", 1, "ringroad sets"),
        ("ip forwarding\n", 1, "the data path forwards"),
        ("router pim\n", 1, "multicast"),
        ("segment-routing\n", 1, "segment routing"),
    ] {
        let fault = Content::read(text).expect_err("refused");
        assert_eq!(fault.line, line, "{fault}");
        assert!(fault.to_string().contains(words) && !fault.to_string().contains('\n'), "{fault}");
    }
    let long = format!("vrf {}\n", "x".repeat(500));
    assert!(Content::read(&long).expect_err("refused").to_string().len() < 250);
    let huge = "!".repeat(LONGEST + 1);
    assert_eq!(Content::read(&huge).expect_err("refused").line, 0);
}

#[test]
fn hints_are_about_what_would_surprise() {
    let hints = |text| Content::read(text).expect("a good file").hints().to_vec();
    assert_eq!(hints("router bgp 1\n"), [Hint::NoGracefulRestart]);
    assert_eq!(hints("router bgp 1\n bgp graceful-restart\n"), [Hint::NoGracefulRestart]);
    let graceful = "router bgp 1\n bgp graceful-restart\n bgp graceful-restart preserve-fw-state\n";
    assert_eq!(hints(graceful), []);
    assert_eq!(hints("hostname edge\n"), [Hint::Nothing]);
    assert_eq!(hints("ip route 10.0.0.0/8 blackhole\n"), []);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n]{0,400}") {
        match Content::read(&text) {
            Ok(content) => prop_assert!(content.daemons().next() == Some(Daemon::Zebra)),
            Err(fault) => prop_assert!(fault.line <= text.lines().count()),
        }
    }

    #[test]
    fn indentation_does_not_matter(spaces in 0usize..5, tabs in 0usize..2) {
        let indent = " ".repeat(spaces) + &"\t".repeat(tabs);
        prop_assert_eq!(daemons(&format!("{indent}router bgp 1\n")).len(), 3);
    }
}
