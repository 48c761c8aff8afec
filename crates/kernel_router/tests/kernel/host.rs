//! A test's own host: a namespace that represents the host, and further namespaces.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kernel_router::{
    Interface, Leftover, MAIN, Origin, PeerNamespace, Route, Router, RouterConfig, Surroundings,
};
use netlink::{Link, Netlink, Prefix, Settings};
use netns::Namespace;

/// Longer than any operation of the kernel takes, even on a busy host.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Host {
    pub(crate) home: Namespace,
    pub(crate) others: BTreeMap<String, Namespace>,
    pub(crate) told: Vec<Leftover>,
}

impl Host {
    pub(crate) fn new(others: &[&str]) -> Self {
        let new = || Namespace::new().expect("a namespace");
        let others = others.iter().map(|name| ((*name).to_owned(), new())).collect();
        Self { home: new(), others, told: Vec::new() }
    }

    pub(crate) fn start(&mut self, wanted: RouterConfig) -> Result<Router, kernel_router::Error> {
        let site = Surroundings { home: &self.home, others: &self.others };
        Router::start(wanted, &site, &mut |leftover| self.told.push(leftover.clone()))
    }

    /// Starts a router that adopts the interfaces in a namespace.
    pub(crate) fn adopt(
        &mut self,
        namespace: Namespace,
        wanted: RouterConfig,
    ) -> Result<Router, kernel_router::Error> {
        let site = Surroundings { home: &self.home, others: &self.others };
        Router::start_with(namespace, wanted, &site, &mut |leftover| self.told.push(leftover.clone()))
    }

    pub(crate) fn apply(
        &mut self,
        router: &mut Router,
        wanted: &RouterConfig,
    ) -> Result<Vec<String>, kernel_router::Error> {
        let site = Surroundings { home: &self.home, others: &self.others };
        let steps = router.apply(wanted.clone(), &site, &mut |leftover| self.told.push(leftover.clone()))?;
        Ok(steps.iter().map(ToString::to_string).collect())
    }

    pub(crate) fn repair(&mut self, router: &mut Router) -> usize {
        let site = Surroundings { home: &self.home, others: &self.others };
        let mended = router.repair(&site, &mut |leftover| self.told.push(leftover.clone()));
        mended.expect("mended").len()
    }

    pub(crate) fn restart(&mut self, router: &mut Router) {
        let site = Surroundings { home: &self.home, others: &self.others };
        router.restart(&site, &mut |leftover| self.told.push(leftover.clone())).expect("renewed");
    }

    pub(crate) fn kernel(&self) -> Netlink {
        self.home.netlink().expect("a socket")
    }

    /// Creates a veth pair on the host, to be moved or to carry a macvlan.
    pub(crate) fn pair(&self, name: &str, other: &str) -> Link {
        let kernel = self.kernel();
        let near = Settings::default().name(name).up(true).mac([2, 0, 0, 0, 9, 9]).mtu(1400);
        kernel.make_veth(&near, &Settings::default().name(other), None).expect("a pair");
        kernel.set_link(other, &Settings::default().up(true)).expect("up");
        kernel.link(name).expect("a link")
    }
}

/// A name that neither another test of this process nor another process uses.
pub(crate) fn name(of: &str) -> String {
    format!("rr-{of}-{}", std::process::id())
}

pub(crate) fn prefix(ip: [u8; 4], len: u8) -> Prefix {
    Prefix::new(ip, len).expect("a prefix")
}

pub(crate) fn veth(peer: &str, at: PeerNamespace) -> Origin {
    Origin::Veth { peer: peer.to_owned(), at, bridge: None }
}

pub(crate) fn interface(name: &str, origin: Origin, own: [u8; 4]) -> Interface {
    Interface { addresses: vec![prefix(own, 24)], ..Interface::new(name, origin) }
}

pub(crate) fn default_route(via: [u8; 4], interface: &str) -> Route {
    let (to, via) = (prefix([0; 4], 0), Some(via.into()));
    Route { to, via, interface: interface.to_owned(), metric: 0, table: MAIN }
}

/// Returns true if there is a link of this name.
pub(crate) fn has(kernel: &Netlink, name: &str) -> bool {
    let all: Vec<Link> = kernel.all().expect("a dump");
    all.iter().any(|link| link.name == name)
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
