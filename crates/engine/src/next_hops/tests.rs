use super::*;

fn router() -> Router {
    let text = "[[router]]\nname = 'a'\n\
        [[router.nic]]\nname = 'x'\nattach = 'null'\naddress = '192.0.2.1/24'\n\
        [[router.interface]]\nname = 'v'\nnic = 'x'\nvlan = 7\naddress = '198.51.100.1/24'\n";
    config::parse(text, "f.toml").expect("a good file").routers.remove(0)
}

#[test]
fn gateways_that_come_and_go_are_told_by_name() {
    let (plan, four) = (router(), |last: u8| (0, IpAddr::from([192, 0, 2, last])));
    let behind_vlan = (1, IpAddr::from([198, 51, 100, 9]));
    let (before, now) = (BTreeSet::from([four(2), four(3)]), BTreeSet::from([four(3), behind_vlan]));
    let lines = told(&plan, &before, &now);
    let expected = [
        "next hop 198.51.100.9 behind v is not reached: its flows take the others of their routes",
        "next hop 192.0.2.2 behind x is reached again and has its flows back",
    ];
    assert_eq!(lines, expected);
    assert!(told(&plan, &now, &now).is_empty());
}

#[test]
fn an_interface_for_a_vlan_is_as_good_as_its_nic() {
    let plan = router();
    assert_eq!([0, 1, 2].map(|link| nic_of(&plan, link)), [0, 0, 2]);
}

#[test]
fn only_gateways_have_an_address() {
    let hops = [NextHop::Connected { nic: 1 }, NextHop::Local, NextHop::Group];
    assert!(hops.into_iter().all(|hop| gateway(hop).is_none()));
    let six = NextHop::Gateway6 { nic: 3, gateway: 1 };
    assert_eq!(gateway(six), Some((3, "::1".parse().expect("an address"))));
}
