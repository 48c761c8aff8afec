//! Ways of packets that the data plane traces, where others have the routes: this process those of groups with one table, the process of
//! a router its own.

use std::time::Instant;

use config::Router;
use config::way::{Way, WayQuestion};
use link::{ToPlane, TracedPacket};

use super::Supervisor;
use super::router_process::RouterProcess;

impl Supervisor {
    /// Finds the way of a packet for the data plane, or asks the process of its router.
    pub(super) fn find_way(&mut self, of: TracedPacket, question: WayQuestion, now: Instant) {
        let router = self.running.plan.routers.iter().find(|router| router.name == of.router);
        let group = router.and_then(Router::membership).map(|(group, _)| group);
        if let Some(routes) = group.and_then(|group| self.resources.tables.routes_of(group)) {
            let way = routes.find_way(&question);
            return self.say_to(None, &ToPlane::FoundWay { of, way }, Vec::new(), now);
        }
        let name = of.router.clone();
        if self.isolated.get(&name).is_some_and(RouterProcess::is_up) {
            return self.say_to(Some(&name), &ToPlane::FindWay { of, question }, Vec::new(), now);
        }
        self.say_to(None, &ToPlane::FoundWay { of, way: None }, Vec::new(), now);
    }

    /// Tells the data plane what the process of a router has found, which speaks for that router alone.
    pub(super) fn found_way(&mut self, name: &str, of: TracedPacket, way: Option<Way>, now: Instant) {
        if of.router == name {
            self.say_to(None, &ToPlane::FoundWay { of, way }, Vec::new(), now);
        }
    }
}
