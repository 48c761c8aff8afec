mod eight;
mod numbers;
mod settings;
mod shares;

use std::fs::read_to_string;
use std::thread;
use std::time::Duration;

use support::PciTree as Tree;

use super::*;

const PORT: &str = "0000:01:00.0";

fn address(text: &str) -> Address {
    text.parse().expect("an address")
}

fn sysfs(tree: &Tree) -> Sysfs {
    Sysfs::at(tree.path())
}

#[test]
fn an_address_is_read_and_written() {
    for text in ["0000:01:10.1", "0000:ff:1f.7", "10000:00:00.0", "ffffffff:00:00.0"] {
        assert_eq!(address(text).to_string(), text);
    }
    for text in [
        "",
        "01:10.1",
        "0000:01:10",
        "0000:01:20.1",
        "0000:01:10.8",
        "0000:100:10.1",
        "0000:01:10.1 ",
        "-1:1:1.1",
    ] {
        assert!(text.parse::<Address>().is_err(), "{text:?}");
    }
    for text in ["x:y:z.a", "+000:01:10.1", "100000000:00:00.0", "eth0", "virtio0", "0000::10.1"] {
        assert!(text.parse::<Address>().is_err(), "{text:?}");
    }
}

#[test]
fn ports_and_functions_are_found() {
    let tree = Tree::of_an_82576();
    let ports = sysfs(&tree).ports();
    let known: Vec<_> = ports.iter().map(|port| (port.label(), port.max_functions, port.count())).collect();
    assert_eq!(known, [("eth0".to_owned(), 7, 3), ("eth1".to_owned(), 7, 0)]);
    let port = &ports[0];
    assert_eq!((port.address, port.driver.as_deref()), (address(PORT), Some("igb")));
    let places: Vec<_> = port.functions.iter().map(Function::place).collect();
    assert_eq!(places, [Location::Here("eth2"), Location::Elsewhere("igbvf"), Location::Idle]);
    let second = port.function(1).expect("it has three");
    assert_eq!((second.number, second.address), (1, address("0000:01:10.2")));
    assert_eq!(port.function(3), None);
}

#[test]
fn a_port_is_known_by_its_interface_and_by_those_of_its_functions() {
    let tree = Tree::of_an_82576();
    for interface in ["eth0", "eth2"] {
        assert_eq!(sysfs(&tree).port_of(interface).expect("a port").label(), "eth0");
    }
    assert_eq!(sysfs(&tree).port_of("eth1").expect("a port").count(), 0);
}

#[test]
fn what_has_no_functions_is_refused_by_what_it_lacks() {
    let tree = Tree::of_an_82576();
    let refusal = |interface: &str| sysfs(&tree).port_of(interface).expect_err("it has none").to_string();
    for (interface, why) in [
        ("eth7", "there is no interface `eth7`"),
        ("", "there is no interface"),
        ("../net/eth0", "there is no interface"),
        ("..", "there is no interface"),
        ("veth0", "not a PCI device"),
        ("eth8", "not a PCI device"),
        ("eth9", "lacks SR-IOV"),
    ] {
        let line = refusal(interface);
        assert!(line.contains(why) && line.lines().count() == 1, "{interface}: {line}");
    }
}

#[test]
fn functions_that_vanish_are_missed_and_others_stay() {
    let tree = Tree::of_an_82576();
    let sysfs = sysfs(&tree);
    tree.remove_function(PORT, 2, "0000:01:10.4");
    assert_eq!(sysfs.read(address(PORT)).expect("a port").count(), 2);
    tree.move_away("0000:01:10.0", "eth2");
    let port = sysfs.read(address(PORT)).expect("a port");
    assert_eq!(port.function(0).expect("it is there").place(), Location::Elsewhere("igbvf"));
    tree.interface("0000:01:10.0", "ens2");
    assert_eq!(sysfs.interface(address("0000:01:10.0")).as_deref(), Some("ens2"), "home, under another name");
    assert_eq!(sysfs.read(address("0000:09:00.0")), None);
}

#[test]
fn a_damaged_tree_is_no_port() {
    let tree = Tree::of_an_82576();
    let total = tree.at("devices/pci0000:00/0000:01:00.0/sriov_totalvfs");
    for text in ["", "x", "-1", "0", "99999999999"] {
        std::fs::write(&total, text).expect("a file");
        assert_eq!(sysfs(&tree).read(address(PORT)), None, "{text:?}");
    }
    assert!(Sysfs::at("/nowhere/at/all").ports().is_empty());
}

#[test]
fn an_interface_is_waited_for_and_not_for_ever() {
    let tree = Tree::of_an_82576();
    let sysfs = sysfs(&tree);
    let late = address("0000:01:10.2");
    assert_eq!(sysfs.await_interface(late, Duration::ZERO), None);
    thread::scope(|scope| {
        scope.spawn(|| tree.interface("0000:01:10.2", "eth3"));
        assert_eq!(sysfs.await_interface(late, Duration::from_secs(60)).as_deref(), Some("eth3"));
    });
}

#[test]
fn numbers_and_drivers_are_written_where_the_kernel_reads_them() {
    let tree = Tree::of_an_82576();
    let sysfs = sysfs(&tree);
    let port = sysfs.port_of("eth1").expect("a port");
    sysfs.set_function_count(&port, 4).expect("a file");
    let written = |path: &str| read_to_string(tree.at(path)).expect("a file");
    assert_eq!(written("devices/pci0000:00/0000:01:00.1/sriov_numvfs"), "4");
    sysfs.rebind(address("0000:01:10.0")).expect("files");
    for file in ["unbind", "bind"] {
        assert_eq!(written(&format!("bus/pci/drivers/igbvf/{file}")), "0000:01:10.0");
    }
    sysfs.rebind(address("0000:01:10.4")).expect("a file");
    assert_eq!(written("bus/pci/drivers_probe"), "0000:01:10.4", "one without a driver is given one");
}

#[test]
fn the_kernel_goes_through_none() {
    let tree = Tree::of_an_82576();
    let of = |interface: &str| sysfs(&tree).port_of(interface).expect("a port");
    let none = of("eth1");
    assert_eq!(plan_function_count(&none, 0, &[]).expect("allowed"), [0; 0]);
    assert_eq!(plan_function_count(&none, 7, &[]).expect("allowed"), [7]);
    let line = plan_function_count(&none, 8, &[]).expect_err("it can have seven").to_string();
    assert_eq!(line, "`eth1` can have at most 7 virtual functions, not 8");
    let mut some = of("eth0");
    assert_eq!(plan_function_count(&some, 3, &[0, 1]).expect("nothing changes"), [0; 0]);
    let line = plan_function_count(&some, 4, &[]).expect_err("one is elsewhere").to_string();
    assert!(line.contains("function 1 is in use"), "{line}");
    some.functions.remove(1);
    assert_eq!(plan_function_count(&some, 4, &[]).expect("allowed"), [0, 4]);
    assert_eq!(plan_function_count(&some, 0, &[]).expect("allowed"), [0]);
    assert!(
        plan_function_count(&some, 4, &[2])
            .expect_err("one is ours")
            .to_string()
            .contains("function 2 is in use")
    );
}
