//! A port with all eight functions of an igb, each of which may vanish.

use support::address_of_igb;

use super::*;

fn wish(router: u32, held: Option<Address>) -> FunctionRequest {
    FunctionRequest { nic: format!("r{router}.wan"), interface: "eth0".to_owned(), function: None, held }
}

/// Numbers of the functions of eight routers, each of which holds one or none.
fn assigned(sysfs: &Sysfs, wishes: &[FunctionRequest]) -> Result<Vec<u32>, String> {
    let assigned = assign(&sysfs.ports(), wishes).map_err(|error| error.to_string())?;
    Ok(assigned.into_iter().map(|one| one.number).collect())
}

fn eight(held: impl Fn(u32) -> Option<Address>) -> Vec<FunctionRequest> {
    (0..8).map(|router| wish(router, held(router))).collect()
}

#[test]
fn eight_routers_have_a_function_each_and_a_ninth_has_none() {
    let tree = Tree::of_qemus_igb();
    let sysfs = sysfs(&tree);
    let port = sysfs.port_of("eth0").expect("a port");
    assert_eq!((port.count(), port.max_functions), (8, 8));
    let addresses: Vec<String> = port.functions.iter().map(|function| function.address.to_string()).collect();
    assert_eq!(addresses, (0..8).map(address_of_igb).collect::<Vec<_>>());
    assert_eq!(assigned(&sysfs, &eight(|_| None)), Ok((0..8).collect()));
    let nine: Vec<FunctionRequest> = (0..9).map(|router| wish(router, None)).collect();
    let line = assigned(&sysfs, &nine).expect_err("there are eight");
    assert!(line.contains("free for r8.wan: all 8") && line.lines().count() == 1, "{line}");
    assert_eq!(plan_function_count(&port, 8, &[0]).expect("nothing changes"), [0; 0]);
    assert!(plan_function_count(&port, 4, &[3]).is_err(), "a function is in use");
}

#[test]
fn a_function_that_vanishes_costs_its_router_and_no_other() {
    let tree = Tree::of_qemus_igb();
    let sysfs = sysfs(&tree);
    let held = |router: u32| Some(address(&address_of_igb(router)));
    // Their interfaces are in the routers.
    (0..8).for_each(|number| tree.move_away(&address_of_igb(number), &format!("eth0v{number}")));
    assert_eq!(assigned(&sysfs, &eight(held)), Ok((0..8).collect()), "each keeps its own");
    tree.remove_function("0000:01:00.0", 5, &address_of_igb(5));
    let line = assigned(&sysfs, &eight(held)).expect_err("one is gone");
    assert!(line.contains("free for r5.wan: all 7") && line.lines().count() == 1, "{line}");
    let others: Vec<FunctionRequest> = eight(held).into_iter().filter(|wish| wish.nic != "r5.wan").collect();
    assert_eq!(assigned(&sysfs, &others), Ok(vec![0, 1, 2, 3, 4, 6, 7]));
    tree.add_function_of_igb(5);
    assert_eq!(assigned(&sysfs, &eight(held)), Ok((0..8).collect()), "it is back");
}

#[test]
fn when_all_vanish_each_is_found_again_after_they_are_back() {
    let tree = Tree::of_qemus_igb();
    let sysfs = sysfs(&tree);
    // `echo 0 > sriov_numvfs`.
    (0..8).rev().for_each(|number| tree.remove_function_of_igb(number));
    let port = sysfs.port_of("eth0").expect("a port");
    assert_eq!((port.count(), port.max_functions), (0, 8));
    let line = assigned(&sysfs, &eight(|_| None)).expect_err("there is none");
    assert!(line.contains("`eth0` has none of its up to 8"), "{line}");
    assert_eq!(plan_function_count(&port, 8, &[]).expect("allowed"), [8]);
    (0..8).for_each(|number| tree.add_function_of_igb(number));
    let held = |router: u32| Some(address(&address_of_igb(7 - router)));
    assert_eq!(assigned(&sysfs, &eight(held)), Ok((0..8).rev().collect()), "each has its own again");
}
