//! IPv6 neighbours of a group.

use super::*;

#[test]
fn an_ipv6_neighbour_is_known_to_all_members_and_kept_fresh_in_their_place() {
    let mut bench = bench_of(&FILE.replace("'192.0.2.1/24'", "['192.0.2.1/24', '2001:db8::1/64']"));
    let (own, group) = (0x2001_0db8_u128 << 96 | 1, Mac(bench.group.pattern.nics[0].mac.0));
    let (host, core) = (own + 6, bench.core.clone());
    let solicit = Solicit { target: host, source_mac: Some(group) };
    let to = ipv6::solicited_node(host);
    let ends = ((group, ipv6::group_mac(to)), (own, to));
    let stays = |member: u16| {
        let mut octets = nodes::spoken(ends.0, ends.1, |payload| solicit.write(payload));
        core.hears_discovery_of((member, 0), &Frame::new(Bytes::from_slice(&mut octets)))
    };
    let stay = [0, 1].map(stays);
    assert!(!stay[0], "it is asked");
    let advert =
        Advert { target: host, target_mac: Some(STATION), router: false, solicited: true, overrides: true };
    let mut answer = nodes::spoken((STATION, group), (host, own), |payload| advert.write(payload));
    assert!(core.hears_discovery(0, &Frame::new(Bytes::from_slice(&mut answer)), &*bench.out));
    assert_eq!(bench.table().find(0, Ip::v6(host)), Some(STATION));
    assert!(stays(2), "it is known");
    for now in [1, 100_000] {
        core.attend_neighbours(&bench.members, at(now));
    }
    let mut probed = Vec::new();
    bench.wire.drain(FRAMES, &mut |frames| {
        for frame in frames {
            let mut octets = [0; nodes::LONGEST];
            let len = frame.octets().copy_to_slice(&mut octets);
            let message = nodes::Message::read(&octets[..len]);
            probed.extend(message.map(|message| (message.source, frame.octets().read::<6>(0).map(Mac))));
        }
    });
    assert_eq!(probed, [(own, Some(STATION))], "at its own address");
    // The other member's question goes on as well if the host was busy for a tenth of a second in between.
    let asked = stay.into_iter().filter(|stays| !stays).count() as u64;
    assert_eq!(core.links[0].counters.nd_asked.get(), asked + 1);
}
