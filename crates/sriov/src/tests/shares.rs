//! Assignment of functions to NICs.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn wish(nic: &str, interface: &str, function: Option<u32>) -> FunctionRequest {
    FunctionRequest { nic: nic.to_owned(), interface: interface.to_owned(), function, held: None }
}

/// A port with this number of functions, whose interfaces are all in our namespace.
fn port(number: u32, functions: u32) -> Port {
    let device = |function: u32| address(&format!("000{number}:01:{:02x}.{}", function / 8, function % 8));
    let here = |function: u32| Function {
        number: function,
        address: device(function),
        interface: Some(format!("vf{number}-{function}")),
        driver: Some("igbvf".to_owned()),
    };
    Port {
        address: address(&format!("000{number}:00:00.0")),
        interface: Some(format!("eth{number}")),
        driver: Some("igb".to_owned()),
        max_functions: 8,
        functions: (0..functions).map(here).collect(),
    }
}

fn numbers(assigned: Result<Vec<Assigned>, Error>) -> Result<Vec<u32>, String> {
    let numbers = |all: Vec<Assigned>| all.into_iter().map(|one| one.number).collect();
    assigned.map(numbers).map_err(|refusal| refusal.to_string())
}

#[test]
fn numbers_are_kept_and_others_get_what_is_left() {
    let ports = [port(0, 3)];
    let wishes = [wish("a.x", "eth0", None), wish("b.x", "eth0", Some(0)), wish("c.x", "vf0-1", None)];
    assert_eq!(numbers(assign(&ports, &wishes)), Ok(vec![2, 0, 1]));
}

#[test]
fn who_has_one_keeps_it() {
    let ports = [port(0, 3)];
    let held = FunctionRequest { held: Some(ports[0].functions[0].address), ..wish("b.x", "eth0", None) };
    assert_eq!(numbers(assign(&ports, &[wish("a.x", "eth0", None), held])), Ok(vec![1, 0]));
    let gone = FunctionRequest { held: Some(address("0009:01:00.0")), ..wish("b.x", "eth0", None) };
    assert_eq!(numbers(assign(&ports, &[gone])), Ok(vec![0]), "one that has vanished is replaced");
}

#[test]
fn a_held_one_in_a_router_is_no_stranger() {
    let mut ports = [port(0, 2)];
    ports[0].functions[0].interface = None;
    let held = FunctionRequest { held: Some(ports[0].functions[0].address), ..wish("a.x", "eth0", Some(0)) };
    assert_eq!(numbers(assign(&ports, &[held, wish("b.x", "eth0", None)])), Ok(vec![0, 1]));
}

#[test]
fn refusals_are_one_line_each() {
    let mut ports = [port(0, 2), port(1, 0), port(2, 3)];
    ports[2].functions[0].interface = None;
    ports[2].functions[1].interface = None;
    ports[2].functions[1].driver = None;
    ports[2].functions[2].interface = None;
    ports[2].functions[2].driver = Some("vfio-pci".to_owned());
    let cases: [(&[FunctionRequest], &str); 8] = [
        (
            &[wish("a.x", "eth0", Some(1)), wish("b.x", "eth0", Some(1))],
            "a.x and b.x both request virtual function 1",
        ),
        (
            &[wish("a.x", "vf0-1", None), wish("b.x", "eth0", Some(1))],
            "a.x and b.x both request virtual function 1",
        ),
        (&[wish("a.x", "eth0", Some(2))], "no virtual function 2: it has 2"),
        (&[wish("a.x", "eth1", None)], "`eth1` has none of its up to 8"),
        (&[wish("a.x", "eth7", None)], "no interface `eth7`"),
        (&[wish("a.x", "eth2", Some(0))], "another namespace"),
        (&[wish("a.x", "eth2", Some(1))], "has no driver"),
        (&[wish("a.x", "eth2", Some(2))], "vfio-pci"),
    ];
    for (wishes, why) in cases {
        let line = numbers(assign(&ports, wishes)).expect_err("it cannot be");
        assert!(line.contains(why) && line.lines().count() == 1, "{line}");
    }
    let many: Vec<FunctionRequest> = ["a.x", "b.x", "c.x"].map(|nic| wish(nic, "eth0", None)).into();
    let line = numbers(assign(&ports, &many)).expect_err("there are two");
    assert!(line.contains("free for c.x: all 2"), "{line}");
}

proptest! {
    /// No function is assigned twice, each NIC gets a function of its port, and numbers are honoured. An assignment
    /// is found whenever one exists.
    #[test]
    fn each_wish_has_a_function_of_its_own(
        counts in proptest::collection::vec(1_u32..6, 2),
        wanted in proptest::collection::vec((0_usize..2, proptest::option::of(0_u32..6)), 0..8),
    ) {
        let ports = [port(0, counts[0]), port(1, counts[1])];
        let named = |(n, (port, function)): (usize, &(usize, Option<u32>))| {
            wish(&format!("r{n}.x"), &format!("eth{port}"), *function)
        };
        let wishes: Vec<FunctionRequest> = wanted.iter().enumerate().map(named).collect();
        let fixed: Vec<_> = wanted.iter().filter_map(|(port, number)| Some((*port, (*number)?))).collect();
        let distinct = fixed.iter().collect::<BTreeSet<_>>().len() == fixed.len();
        let there = fixed.iter().all(|(port, number)| *number < counts[*port]);
        let room = (0..2).all(|n| wanted.iter().filter(|(port, _)| *port == n).count() <= counts[n] as usize);
        let assigned = assign(&ports, &wishes);
        prop_assert_eq!(assigned.is_ok(), distinct && there && room);
        let assigned = assigned.unwrap_or_default();
        prop_assert!(assigned.is_empty() || assigned.len() == wishes.len());
        let all: BTreeSet<_> = assigned.iter().map(|one| one.address).collect();
        prop_assert_eq!(all.len(), assigned.len());
        for (one, (port, number)) in assigned.iter().zip(&wanted) {
            prop_assert_eq!(one.port, ports[*port].address);
            prop_assert_eq!(ports[*port].function(one.number).map(|known| known.address), Some(one.address));
            prop_assert!(number.is_none_or(|number| number == one.number));
        }
    }
}
