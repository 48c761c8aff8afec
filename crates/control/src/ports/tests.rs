use super::*;

fn link(index: u32, name: &str, lower: Option<u32>) -> Link {
    let (name, is_macvlan) = (name.to_owned(), name.starts_with("vrrp"));
    Link {
        index,
        name,
        mtu: 1500,
        up: true,
        running: true,
        lower,
        is_macvlan,
        queue_len: 1000,
        ..Link::default()
    }
}

const WAN: Port = Port { nic: 0, vlan: 0 };
const TAGGED: Port = Port { nic: 0, vlan: 100 };

fn ports() -> Ports {
    Ports::new([("wan".to_owned(), WAN), ("wan.100".to_owned(), TAGGED)])
}

#[test]
fn shadows_are_ports_by_name_and_macvlans_on_them_are_too() {
    let mut ports = ports();
    assert!(!ports.take(&Change::Set(link(1, "lo", None))));
    assert!(ports.take(&Change::Set(link(5, "wan", None))));
    assert!(!ports.take(&Change::Set(link(5, "wan", None))), "nothing new");
    assert!(ports.take(&Change::Set(link(6, "wan.100", Some(5)))));
    assert!(ports.take(&Change::Set(link(7, "vrrp-5", Some(5)))));
    assert_eq!([1, 5, 6, 7].map(|index| ports.get(index)), [None, Some(WAN), Some(TAGGED), Some(WAN)]);
    assert!(!ports.take(&Change::Set(link(9, "wan.7", Some(5)))), "a VLAN that the router does not have");
    assert_eq!(ports.get(9), None);
}

#[test]
fn an_index_loses_its_meaning_with_its_interface() {
    let mut ports = ports();
    ports.take(&Change::Set(link(5, "wan", None)));
    assert!(ports.take(&Change::Set(link(5, "old", None))), "it was renamed");
    assert!(ports.take(&Change::Set(link(8, "wan", None))));
    assert!(ports.take(&Change::Gone(link(8, "wan", None))));
    assert!(!ports.take(&Change::Gone(link(8, "wan", None))));
    assert_eq!((ports.get(5), ports.get(8)), (None, None));
}
