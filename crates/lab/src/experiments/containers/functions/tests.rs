use config::Plan;
use sriov::Function as Seen;

use super::*;

/// A port with so many functions, of which the one with this number is in use elsewhere.
fn port(interface: &str, functions: u32, used: Option<u32>) -> Port {
    let bus = interface.len();
    let function = |number: u32| Seen {
        number,
        address: format!("000{bus}:01:10.{number}").parse().unwrap(),
        interface: (used != Some(number)).then(|| format!("{interface}v{number}")),
        driver: Some("igbvf".to_owned()),
    };
    Port {
        address: format!("000{bus}:01:00.0").parse().unwrap(),
        interface: Some(interface.to_owned()),
        driver: Some("igb".to_owned()),
        max_functions: 8,
        functions: (0..functions).map(function).collect(),
    }
}

fn named(functions: [(&str, u32); 2]) -> Option<[Function; 2]> {
    Some(functions.map(|(port, number)| (port.to_owned(), number)))
}

#[test]
fn a_router_is_between_two_ports_or_two_functions_of_one() {
    let (none, one, three) = (port("e", 0, None), port("en", 1, None), port("ens", 3, Some(0)));
    let all = [none.clone(), one.clone(), three.clone()];
    assert_eq!(chosen(&all), named([("en", 0), ("ens", 1)]));
    assert_eq!(chosen(&[none.clone(), three]), named([("ens", 1), ("ens", 2)]));
    assert_eq!(chosen(&[none.clone(), one]), None);
    assert_eq!(chosen(&[none]), None);
    assert_eq!(chosen(&[]), None);
    let away = Port { interface: None, ..port("eth0", 2, None) };
    assert_eq!(chosen(&[away]), None, "the port is in another namespace");
}

#[test]
fn the_file_of_the_router_names_both() {
    let functions = named([("eth0", 0), ("eth1", 3)]).unwrap();
    for engine in [Engine::Kernel, Engine::Lxc] {
        let plan: Plan = config::parse(&text(engine, &functions), "lab.toml").unwrap();
        let router = &plan.routers[0];
        assert_eq!((router.name.as_str(), router.engine), (ROUTER, Some(engine)));
        let nics: Vec<String> = router.nics.iter().map(|nic| nic.attach.to_string()).collect();
        assert_eq!(nics, ["vf:eth0", "vf:eth1"]);
        assert_eq!(router.nics[1].attach.detail(), " (function 3)");
    }
}

#[test]
fn an_engine_that_cannot_use_them_says_why() {
    let refused = ByFunctions::Refused("it needs VFIO").room().unwrap();
    assert_eq!(refused.err(), Some("it needs VFIO"));
}
