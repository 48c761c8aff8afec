use super::*;
use crate::parse;
use crate::tests::errors_of;

/// A file with a NIC without a VRF, two in VRF red and one in VRF blue, and these tables after them. All have the same networks.
fn file(tables: &str) -> String {
    let nic = |name: &str, address: &str, vrf: &str| {
        format!("[[router.nic]]\nname = '{name}'\nattach = 'null'\naddress = {address}\n{vrf}\n")
    };
    let nics = [
        nic("plain", "['192.0.2.1/24', '2001:db8:0:1::1/64']", ""),
        nic("red1", "['192.0.2.1/24', '2001:db8:0:1::1/64']", "vrf = 'red'"),
        nic("blue", "'192.0.2.9/24'", "vrf = 'blue'"),
        nic("red2", "'198.51.100.1/24'", "vrf = 'red'"),
    ];
    format!("[[router]]\nname = 'a'\n{}{tables}", nics.concat())
}

fn router(tables: &str) -> Router {
    parse(&file(tables), "f.toml").expect("a good file").routers.remove(0)
}

#[test]
fn each_vrf_has_a_table_and_its_networks_may_be_those_of_another() {
    let router =
        router("[[router.interface]]\nname = 'v'\nnic = 'blue'\nvlan = 7\naddress = '198.51.100.1/24'\n");
    assert_eq!((router.vrfs(), router.tables()), (vec!["red", "blue"], 3));
    assert_eq!([0, 1, 2, 3, 4].map(|link| router.table_of(link)), [0, 1, 2, 1, 2]);
    assert_eq!([0, 1, 2, 3].map(|table| router.vrf_name(table)), [None, Some("red"), Some("blue"), None]);
    let errors = errors_of(&file("").replace("vrf = 'blue'", "vrf = 'red'"));
    assert!(errors.contains("192.0.2.9/24 overlaps 192.0.2.0/24 of NIC \"red1\""), "{errors}");
}

#[test]
fn a_vlan_may_be_in_another_vrf_than_its_nic() {
    let vlan = |name: &str, id: u32, more: &str| {
        format!(
            "[[router.interface]]\nname = '{name}'\nnic = 'plain'\nvlan = {id}\naddress = '203.0.113.1/24'\n{more}\n"
        )
    };
    let tables = [
        vlan("one", 7, "vrf = 'red'"),
        vlan("two", 8, "vrf = 'green'"),
        vlan("three", 9, ""),
        "[[router.route]]\nto = '10.0.0.0/8'\nvia = '203.0.113.2'\nvrf = 'green'\n".to_owned(),
    ];
    let router = router(&tables.concat());
    assert_eq!((router.vrfs(), router.tables()), (vec!["red", "blue", "green"], 4));
    assert_eq!([0, 3, 4, 5, 6].map(|link| router.table_of(link)), [0, 1, 1, 3, 0]);
    assert_eq!(router.routes[0].nic, 5);
    let errors = errors_of(&file(&[vlan("one", 7, ""), vlan("two", 8, "")].concat()));
    assert!(errors.contains("overlaps 203.0.113.0/24 of \"one\""), "{errors}");
    let errors = errors_of(&file(&vlan("one", 7, "vrf = 'a b'")));
    assert!(errors.contains("vrf"), "{errors}");
}

#[test]
fn routes_and_neighbours_belong_to_a_vrf() {
    let router = router(
        "[[router.route]]\nto = '0.0.0.0/0'\nvia = '192.0.2.2'\n\
         [[router.route]]\nto = '0.0.0.0/0'\nvia = '192.0.2.2'\nvrf = 'red'\n\
         [[router.route]]\nto = '203.0.113.0/24'\nvia = ['192.0.2.2', '198.51.100.2']\nvrf = 'red'\n\
         [[router.route]]\nto = '::/0'\nvia = '2001:db8:0:1::2'\nvrf = 'red'\n\
         [[router.route]]\nto = '10.0.0.0/8'\ntype = 'blackhole'\nvrf = 'blue'\n\
         [[router.route]]\nto = '10.0.0.0/8'\ntype = 'prohibit'\n\
         [[router.neighbour]]\naddress = '192.0.2.2'\nmac = '02:00:00:00:00:02'\nvrf = 'red'\n\
         [[router.neighbour]]\naddress = '192.0.2.2'\nmac = '02:00:00:00:00:03'\nvrf = 'blue'\n\
         [[router.neighbour]]\naddress = '2001:db8:0:1::2'\nmac = '02:00:00:00:00:04'\nvrf = 'red'\n",
    );
    let nics: Vec<usize> = router.routes.iter().map(|route| route.nic).collect();
    assert_eq!(nics, [0, 1]);
    assert_eq!(router.forwarding.spread[0].links(), [1, 3]);
    assert_eq!(router.forwarding.routes6[0].nic, 1);
    assert_eq!(router.forwarding.refused.iter().map(|route| route.table).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(router.neighbours.iter().map(|known| known.nic).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(router.forwarding.neighbours6[0].nic, 1);
}

#[test]
fn a_leak_is_refused_in_one_line() {
    let route = |more: &str| format!("[[router.route]]\nto = '0.0.0.0/0'\n{more}\n");
    let leak = "nothing leads from one VRF to another; ";
    let cases = [
        (
            route("via = '198.51.100.2'"),
            format!("198.51.100.2 is behind NIC \"red2\" in VRF \"red\"; {leak}write vrf = \"red\""),
        ),
        (route("nic = 'blue'"), format!("NIC \"blue\" is in VRF \"blue\"; {leak}write vrf = \"blue\"")),
        (
            route("via = '198.51.100.2'\nvrf = 'blue'"),
            format!("198.51.100.2 is behind NIC \"red2\" in VRF \"red\"; {leak}write"),
        ),
        (
            route("via = ['192.0.2.2', '198.51.100.2']\nvrf = 'blue'"),
            format!("198.51.100.2 is behind NIC \"red2\" in VRF \"red\"; {leak}write"),
        ),
        (route("nic = 'plain'\nvrf = 'red'"), format!("NIC \"plain\" is in no VRF; {leak}remove vrf")),
        (
            route("via = '2001:db8:0:1::2'\nvrf = 'blue'"),
            format!("2001:db8:0:1::2 is behind NIC \"plain\" in no VRF; {leak}remove vrf"),
        ),
        (
            route("via = 'fe80::2'\nnic = 'red1'"),
            format!("NIC \"red1\" is in VRF \"red\"; {leak}write vrf = \"red\""),
        ),
        (
            route("via = '192.0.2.2'\nvrf = 'green'"),
            "no NIC of the router is in a VRF \"green\"; its VRFs: red, blue".to_owned(),
        ),
        (
            "[[router.neighbour]]\naddress = '198.51.100.2'\nmac = '02:00:00:00:00:02'\n".to_owned(),
            format!("198.51.100.2 is behind NIC \"red2\" in VRF \"red\"; {leak}write vrf = \"red\""),
        ),
    ];
    for (tables, expected) in cases {
        let errors = errors_of(&file(&tables));
        assert!(errors.contains(&expected) && errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn routes_of_one_vrf_are_there_once() {
    let route = "[[router.route]]\nto = '203.0.113.0/24'\nvia = '192.0.2.2'\nvrf = 'red'\n";
    for other in [route.to_owned(), route.replace("via = '192.0.2.2'", "type = 'blackhole'")] {
        let errors = errors_of(&file(&format!("{route}{other}")));
        assert!(errors.contains("203.0.113.0/24 is routed in line"), "{errors}");
    }
    let own = "[[router.route]]\nto = '198.51.100.0/24'\nvia = '192.0.2.2'\n";
    assert_eq!(router(own).routes.len(), 1, "it is a network of another VRF");
    let errors = errors_of(&file(&format!("{own}vrf = 'red'\n")));
    assert!(
        errors.contains("198.51.100.0/24 is the network of NIC \"red2\", which needs no route"),
        "{errors}"
    );
}

#[test]
fn who_has_no_firmware_that_routes_has_no_vrf() {
    let nic = "[[router.nic]]\nname = 'x'\nattach = 'null'\nvrf = 'red'\n";
    let errors = errors_of(&format!("[[router]]\nname = 'a'\nrole = 'echo'\n{nic}"));
    assert!(errors.contains("router.nic.vrf: only a router that routes has VRFs"), "{errors}");
    let errors = errors_of(&format!("[[router]]\nname = 'a'\nengine = 'linux'\nkernel = '/k'\n{nic}"));
    assert!(errors.contains("router.nic.vrf: a Linux guest routes as it wants to"), "{errors}");
}

#[test]
fn memory_grows_with_the_vrfs() {
    let text = file("").replace("name = 'a'", "name = 'a'\nmemory = '16M'\nneighbours = 65536");
    let errors = errors_of(&text);
    assert!(errors.contains("write memory = "), "{errors}");
}
