//! Cables of NICs at the host's interfaces: where one was pulled out, plugged in again, or has another host at its end by
//! now, the router asks its neighbours there again who they are, instead of sending to those who were there.

use std::collections::BTreeMap;
use std::time::Instant;

use link::ToPlane;
use uplink::Cable;

use super::Supervisor;

/// What was seen of the cables.
#[derive(Debug, Default)]
pub(super) struct Cables {
    /// By NIC (`edge.wan`). None: its interface is gone.
    seen: BTreeMap<String, Option<Cable>>,
}

impl Cables {
    /// NICs whose cables are not as they were at the last look. One that is seen for the first time is none of them, and one
    /// that is gone only when it is there again.
    fn changed(&mut self, seen: BTreeMap<String, Option<Cable>>) -> Vec<String> {
        let changed = seen.iter().filter_map(|(nic, now)| {
            let before = self.seen.get(nic)?;
            (now.is_some() && before != now).then(|| nic.clone())
        });
        let changed = changed.collect();
        self.seen = seen;
        changed
    }
}

impl Supervisor {
    /// Tells routers of cables that have changed.
    pub(super) fn heed_cables(&mut self, seen: Option<BTreeMap<String, Option<Cable>>>, now: Instant) {
        // Without a socket nothing is known; it is tried again.
        let Some(seen) = seen else { return };
        for nic in self.cables.changed(seen) {
            self.plugged(nic, now);
        }
    }

    /// Tells a router that another host may be at the other end of the cable of its NIC (`edge.wan`).
    pub(super) fn plugged(&mut self, nic: String, now: Instant) {
        let apart = self.running.plan.apart().map(|router| router.name.clone());
        let whom = apart.into_iter().find(|name| nic.split_once('.').is_some_and(|(of, _)| of == name));
        self.say_to(whom.as_deref(), &ToPlane::Plugged { nic }, Vec::new(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(running: bool, last: u8) -> BTreeMap<String, Option<Cable>> {
        [("edge.wan".to_owned(), Some(Cable { running, mac: Some([2, 0, 0, 0, 0, last]) }))].into()
    }

    fn gone() -> BTreeMap<String, Option<Cable>> {
        [("edge.wan".to_owned(), None)].into()
    }

    #[test]
    fn a_cable_has_changed_when_its_carrier_or_the_host_at_its_end_has() {
        let mut cables = Cables::default();
        for (look, changed) in [
            (seen(true, 1), false),
            (seen(true, 1), false),
            (seen(false, 1), true),
            (seen(false, 1), false),
            (seen(false, 2), true),
            (seen(true, 2), true),
            (seen(true, 3), true),
            (gone(), false),
            (seen(true, 3), true),
            (BTreeMap::new(), false),
            (seen(true, 4), false),
        ] {
            let expected = if changed { vec!["edge.wan".to_owned()] } else { Vec::new() };
            assert_eq!(cables.changed(look.clone()), expected, "{look:?}");
        }
    }
}
