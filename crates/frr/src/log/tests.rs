use proptest::prelude::*;

use super::*;

fn adjacency(line: &str) -> Option<(&str, &str, bool)> {
    match read(line) {
        Line::Adjacency { protocol, peer, is_up, .. } => Some((protocol, peer, is_up)),
        _ => None,
    }
}

#[test]
fn adjacencies_of_three_protocols() {
    let bgp =
        "2026/11/26 05:36:05 BGP: [M59KS-A3ZXZ] %ADJCHANGE: neighbor 192.0.2.2(edge2) in vrf default Up\n";
    assert_eq!(adjacency(bgp), Some(("BGP", "192.0.2.2", true)));
    let bgp = "2026/11/26 05:36:05.123 BGP: [M59KS-A3ZXZ][EC 33554499] %ADJCHANGE: neighbor 2001:db8::2 in vrf default Down Peer closed";
    assert_eq!(adjacency(bgp), Some(("BGP", "2001:db8::2", false)));
    let ospf = "2026/11/26 05:36:05 OSPF: [M7Q4P] AdjChg: Nbr 10.0.0.2(default) on wan:192.0.2.1: Loading -> Full (LoadingDone)";
    assert_eq!(adjacency(ospf), Some(("OSPF", "10.0.0.2", true)));
    let between =
        "2026/11/26 05:36:05 OSPF: AdjChg: Nbr 10.0.0.2(default) on wan:192.0.2.1: Init -> 2-Way (TwoWay)";
    assert_eq!(adjacency(between), None);
    let bfd = "2026/11/26 05:36:05 BFD: [N] state-change: [mhop:no peer:192.0.2.2 local:192.0.2.1 ifname:wan] up -> down";
    assert_eq!(adjacency(bfd), Some(("BFD", "192.0.2.2", false)));
}

#[test]
fn errors_have_numbers_and_the_rest_is_other() {
    let line =
        "2026/11/26 05:36:05 ZEBRA: [ABCDE-12345] [EC 4043309074] Disabling MPLS support (no kernel support)";
    let message = "Disabling MPLS support (no kernel support)";
    assert_eq!(read(line), Line::Error { protocol: "ZEBRA", code: 4_043_309_074, message });
    let line = "2026/11/26 05:36:05 ZEBRA: [ABCDE-12345] client 13 says hello";
    assert_eq!(read(line), Line::Other { protocol: Some("ZEBRA"), message: "client 13 says hello" });
    for line in ["", "zebra: not a log line", "a b c: d", "2026/11/26 05:36:05 no protocol"] {
        assert_eq!(read(line), Line::Other { protocol: None, message: line });
    }
}

#[test]
fn states_of_virtual_routers_are_told_with_their_tags() {
    let line = "2026/11/26 05:36:05 VRRP: [G1XKT-9S6NP] [CORE] [VRID 5] [IPv4] Backup -> Master";
    let message = "[G1XKT-9S6NP] [CORE] [VRID 5] [IPv4] Backup -> Master";
    assert_eq!(read(line), Line::VirtualRouter { message });
    let line = "2026/11/26 05:36:05 VRRP: [G1XKT-9S6NP] [CORE] [VRID 5] 'Startup' event";
    assert_eq!(read(line), Line::Other { protocol: Some("VRRP"), message: "'Startup' event" });
}

#[test]
fn refusals_of_vtysh_are_told_from_progress() {
    let refused = "line 5: % Unknown command[4]: routr bgp 65001";
    assert_eq!(refusal(refused), Some(refused));
    assert_eq!(refusal(&format!("[1|bgpd] {refused}\n")), Some(refused));
    assert_eq!(refusal("[1|bgpd] % Can't open"), Some("% Can't open"));
    for progress in [
        "[12|zebra] sending configuration",
        "[12|zebra] done",
        "Configuration file[x] processing failure: 2",
        "",
    ] {
        assert_eq!(refusal(progress), None);
    }
}

proptest! {
    #[test]
    fn any_line_is_read_and_bounded(line in "\\PC{0,60}", times in 1usize..200) {
        let long = line.repeat(times);
        let (Line::Adjacency { message, .. }
        | Line::VirtualRouter { message }
        | Line::Error { message, .. }
        | Line::Other { message, .. }) = read(&long);
        prop_assert!(message.len() <= LONGEST);
    }
}
