use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use config::Engine;
use link::{Link, PlanWithSupplies, Supply, SupplyKind};
use serde_json::{Value, json};

use super::{LinkEndpoint, understand};

fn orders(supplies: Vec<Supply>) -> PlanWithSupplies {
    let mut plan = config::parse(FILE, "x.toml").expect("a good file");
    let _ = plan.choose_engines(&config::HostFacts::default());
    PlanWithSupplies { run: "lab".to_owned(), plan: plan.of_data_plane(), isolated: None, supplies }
}

fn wire() -> Arc<LinkEndpoint> {
    Arc::new(LinkEndpoint::new(Link::new(Link::pair().expect("descriptors").1)).expect("descriptors"))
}

fn nulls(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| File::open("/dev/null").expect("null").into()).collect()
}

const FILE: &str = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"tap:t0\"\n\
                    address = \"192.0.2.1/24\"\n";

fn supply(need: SupplyKind, of: &str, what: Value, descriptors: usize) -> Supply {
    Supply { need, of: of.to_owned(), what, descriptors }
}

fn supplies() -> Vec<Supply> {
    vec![
        supply(SupplyKind::Uplink, "edge.wan", json!("t0"), 2),
        supply(SupplyKind::Uplink, "edge.lan", json!("x.pcap"), 1),
        supply(SupplyKind::Locks, "", Value::Null, 2),
    ]
}

#[test]
fn each_descriptor_is_taken_for_what_it_is_said_to_be() {
    let order = understand(orders(supplies()), nulls(5), &wire()).expect("understood");
    let supplied = |nic: &str| order.supplies.opened.get(nic).expect("supplied");
    let (tap, capture) = (supplied("edge.wan"), supplied("edge.lan"));
    assert_eq!((&tap.what, tap.descriptors.len()), (&json!("t0"), 2));
    assert_eq!((&capture.what, capture.descriptors.len()), (&json!("x.pcap"), 1));
    assert!(order.supplies.kvm.is_none());
    assert_eq!(order.locks.len(), 2);
    assert_eq!(order.plan.routers[0].engine, Some(Engine::Kvm));
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |supplies, count| understand(orders(supplies), nulls(count), &wire()).is_err();
    assert!(refused(supplies(), 4), "a descriptor is missing");
    assert!(refused(vec![supply(SupplyKind::Kvm, "", Value::Null, 1)], 1), "that is not KVM");
}
