//! Ways of packets that the data plane traces, where others have the routes: this process those of groups with one table, the process of
//! a router its own.

use std::time::Instant;

use config::Router;
use config::way::{Way, WayQuestion};
use link::{ToPlane, TracedPacket};

use super::Supervisor;

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
        if let Some(process) = self.isolated.get_mut(&name).filter(|process| process.is_up()) {
            process.asked_ways = process.asked_ways.saturating_add(1);
            return self.say_to(Some(&name), &ToPlane::FindWay { of, question }, Vec::new(), now);
        }
        self.say_to(None, &ToPlane::FoundWay { of, way: None }, Vec::new(), now);
    }

    /// Tells the data plane what the process of a router has found, which speaks for that router alone, and only when it was asked: it
    /// cannot keep the data plane busy.
    pub(super) fn found_way(&mut self, name: &str, of: TracedPacket, way: Option<Way>, now: Instant) {
        let process = self.isolated.get_mut(name).filter(|process| process.asked_ways > 0);
        let Some(process) = process.filter(|_| of.router == name) else { return };
        process.asked_ways -= 1;
        self.say_to(None, &ToPlane::FoundWay { of, way }, Vec::new(), now);
    }
}
