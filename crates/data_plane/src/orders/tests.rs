use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use config::Engine;
use link::{Link, Orders, Supply};
use uplink::{Description, Opened};

use super::{Wire, understand};

fn orders(supplies: Vec<Supply>) -> Orders {
    let mut plan = config::parse(FILE, "x.toml").expect("a good file");
    let _ = plan.choose_engines(&config::HostFacts::default());
    Orders { run: "lab".to_owned(), plan: plan.of_data_plane(), apart: None, supplies }
}

fn wire() -> Arc<Wire> {
    Arc::new(Wire::new(Link::new(Link::pair().expect("descriptors").1)).expect("descriptors"))
}

fn nulls(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| File::open("/dev/null").expect("null").into()).collect()
}

const FILE: &str = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"tap:t0\"\n\
                    address = \"192.0.2.1/24\"\n";

fn tap(queues: usize) -> Supply {
    let what = Description::Tap {
        interface: "t0".to_owned(),
        queues,
        traits: uplink::Traits::default(),
        wishes: false,
    };
    Supply::Uplink { nic: "edge.wan".to_owned(), what }
}

fn supplies() -> Vec<Supply> {
    vec![
        tap(2),
        Supply::Uplink { nic: "edge.lan".to_owned(), what: Description::Capture },
        Supply::Lock,
        Supply::Lock,
    ]
}

#[test]
fn each_descriptor_is_taken_for_what_it_is_said_to_be() {
    let order = understand(orders(supplies()), nulls(5), &wire()).expect("understood");
    let Some(Opened::Tap(tap)) = order.supplies.opened.get("edge.wan") else { panic!("a TAP") };
    assert_eq!((tap.name(), tap.descriptors().len()), ("t0", 2));
    assert!(matches!(order.supplies.opened.get("edge.lan"), Some(Opened::Capture(_))));
    assert!(order.supplies.kvm.is_none());
    assert_eq!(order.locks.len(), 2);
    assert_eq!(order.plan.routers[0].engine, Some(Engine::Kvm));
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |supplies, count| understand(orders(supplies), nulls(count), &wire()).is_err();
    assert!(refused(supplies(), 4), "a descriptor is missing");
    assert!(refused(vec![Supply::Kvm], 1), "that is not KVM");
    assert!(refused(vec![tap(0)], 0));
}
