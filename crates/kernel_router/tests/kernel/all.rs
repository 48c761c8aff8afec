//! Many routers.

use kernel_router::{PeerNamespace, Router, RouterConfig};

use crate::host::{Host, has, interface, veth};

#[test]
fn a_hundred_routers_are_there_at_once_and_gone_at_once() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let edge = |n: u8| {
        let wan = interface("wan", veth(&format!("wan{n}"), PeerNamespace::Home), [10, 0, n, 1]);
        let lan = interface("lan", veth(&format!("lan{n}"), PeerNamespace::Home), [10, 1, n, 1]);
        RouterConfig::new(&format!("r{n}"), vec![wan, lan])
    };
    let routers: Vec<Router> = (0..100).map(|n| host.start(edge(n)).expect("started")).collect();
    for router in &routers {
        assert!(router.health().expect("looks").iter().all(|(_, health)| health.is_there));
    }
    assert!(has(&host.kernel(), "wan99"));
    drop(routers);
    let kernel = host.kernel();
    assert!((0..100).all(|n| !has(&kernel, &format!("wan{n}"))));
}
