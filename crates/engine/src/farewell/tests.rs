use frame::nd;

use super::*;

const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn plan(more: &str) -> Router {
    let text = format!(
        "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"lan\"\nattach = \"null\"\n\
         mac = \"02:00:00:00:00:01\"\naddress = \"2001:db8:1::1/64\"\n{more}"
    );
    config::parse(&text, "f.toml").expect("a good file").routers.remove(0)
}

/// What a frame says, its sender and its tags.
fn read(octets: &[u8]) -> (RouterAdvert, Option<Mac>, u128, Vec<u16>) {
    let (link, _) = ethernet::Header::parse(octets).expect("a frame");
    assert_eq!((link.destination, link.source), (ipv6::group_mac(ipv6::ALL_NODES), OWN));
    let tags = vlan::Tags::parse(octets).expect("a frame");
    assert_eq!(tags.ethertype, ethernet::IPV6);
    let packet = ipv6::Packet::parse(&octets[tags.header()..]).expect("a packet");
    let (ip, message) = (*packet.header(), packet.payload());
    assert_eq!((ip.destination, ip.hop_limit), (ipv6::ALL_NODES, 255));
    let (header, payload) = icmpv6::Header::parse(message, (ip.source, ip.destination)).expect("a message");
    assert_eq!(header.kind, nd::ROUTER_ADVERT);
    let (advert, _) = RouterAdvert::parse(&header, payload).expect("an advertisement");
    let mac = nd::mac_option(&payload[8..], nd::option::SOURCE_MAC).expect("options");
    (advert, mac, ip.source, vlan::ids(tags.tags()).collect())
}

#[test]
fn each_interface_that_advertises_itself_says_that_it_is_no_default_router() {
    let plan = plan(
        "[router.nic.ra]\nmanaged = true\n\
         [[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 7\nouter = 9\n\
         address = [\"fe80::5/64\", \"2001:db8:2::1/64\"]\n[router.interface.ra]\nhop_limit = 32\n",
    );
    let said: Vec<_> = last_adverts(&plan, &plan.nics[0]).iter().map(|octets| read(octets)).collect();
    let own = RouterAdvert { hop_limit: 64, managed: true, ..RouterAdvert::default() };
    let of_vlan = RouterAdvert { hop_limit: 32, ..RouterAdvert::default() };
    let given = u128::from_be_bytes([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    let expected = [(own, Some(OWN), ipv6::link_local(OWN), vec![]), (of_vlan, Some(OWN), given, vec![9, 7])];
    assert_eq!(said, expected);
    assert!(said.iter().all(|(advert, ..)| advert.lifetime == 0));
}

#[test]
fn a_router_that_is_no_default_router_says_nothing() {
    for more in ["", "[router.nic.ra]\nlifetime = 0\n"] {
        let plan = plan(more);
        assert_eq!(last_adverts(&plan, &plan.nics[0]), Vec::<Vec<u8>>::new(), "{more}");
    }
}
