//! Carrier of host interfaces that NICs are attached to. When a cable is unplugged, is plugged in again, or
//! leads to another host by now, the router probes its neighbours there at once instead of sending to those
//! that were there before. The daemons of its control plane see which cables have a carrier, and which take less than their NICs.

use std::collections::BTreeMap;
use std::time::Instant;

use link::ToPlane;
use uplink::Cable;

use super::Supervisor;

/// State of the cables at the last look.
#[derive(Debug, Default)]
pub(super) struct CarrierWatch {
    /// By NIC (`edge.wan`). `None`: its interface does not exist.
    seen: BTreeMap<String, Option<Cable>>,
}

impl CarrierWatch {
    /// Returns the NICs whose cables may lead to another host than at the last look, also those whose interface vanished. A NIC seen for
    /// the first time is not among them.
    fn changed(&mut self, mut seen: BTreeMap<String, Option<Cable>>) -> Vec<String> {
        self.keep_mtus(&mut seen);
        let end = |cable: &Option<Cable>| cable.map(|cable| (cable.running, cable.mac));
        let changed = seen.iter().filter_map(|(nic, now)| {
            let before = self.seen.get(nic)?;
            (end(before) != end(now)).then(|| nic.clone())
        });
        let changed = changed.collect();
        self.seen = seen;
        changed
    }

    /// An interface whose MTU could not be read has the one of the last look.
    fn keep_mtus(&self, seen: &mut BTreeMap<String, Option<Cable>>) {
        for (nic, now) in seen {
            if let (Some(now), Some(Some(before))) = (now, self.seen.get(nic))
                && now.mac == before.mac
            {
                now.mtu = now.mtu.or(before.mtu);
            }
        }
    }

    /// Returns false if the interface of a NIC (`edge.wan`) does not exist, is down or has no carrier. A NIC without one always has.
    fn has_carrier(&self, nic: &str) -> bool {
        self.seen.get(nic).is_none_or(|cable| cable.is_some_and(|cable| cable.running))
    }

    /// Returns the MTU of the interface of a NIC (`edge.wan`) in octets, if that is known.
    fn mtu(&self, nic: &str) -> Option<u32> {
        self.seen.get(nic).copied().flatten()?.mtu
    }
}

impl Supervisor {
    /// Tells routers of cables that have changed.
    pub(super) fn handle_carrier_changes(
        &mut self,
        seen: Option<BTreeMap<String, Option<Cable>>>,
        now: Instant,
    ) {
        // Without a netlink socket nothing is known; the next look tries again.
        let Some(seen) = seen else { return };
        for nic in self.cables.changed(seen) {
            self.cable_changed(nic, now);
        }
        let cables = &self.cables;
        self.controls.show_cables(&self.running.plan, |nic| (cables.has_carrier(nic), cables.mtu(nic)));
    }

    /// Tells a router that another host may be at the other end of the cable of its NIC (`edge.wan`).
    pub(super) fn cable_changed(&mut self, nic: String, now: Instant) {
        let isolated = self.running.plan.isolated().map(|router| router.name.clone());
        let whom = isolated.into_iter().find(|name| nic.split_once('.').is_some_and(|(of, _)| of == name));
        self.say_to(whom.as_deref(), &ToPlane::Plugged { nic }, Vec::new(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(running: bool, last: u8) -> BTreeMap<String, Option<Cable>> {
        let cable = Cable { running, mac: Some([2, 0, 0, 0, 0, last]), mtu: Some(1500) };
        [("edge.wan".to_owned(), Some(cable))].into()
    }

    fn gone() -> BTreeMap<String, Option<Cable>> {
        [("edge.wan".to_owned(), None)].into()
    }

    #[test]
    fn a_nic_whose_interface_is_down_or_gone_has_no_carrier() {
        let mut cables = CarrierWatch::default();
        assert!(cables.has_carrier("edge.wan"), "nothing was seen yet");
        for (look, has_carrier) in [(seen(true, 1), true), (seen(false, 1), false), (gone(), false)] {
            cables.changed(look);
            assert_eq!(cables.has_carrier("edge.wan"), has_carrier);
            assert!(cables.has_carrier("edge.lan"), "it has no interface");
        }
        cables.changed(BTreeMap::new());
        assert!(cables.has_carrier("edge.wan"));
    }

    #[test]
    fn another_mtu_is_seen_and_leads_to_no_other_host() {
        let mut cables = CarrierWatch::default();
        assert_eq!(cables.mtu("edge.wan"), None, "nothing was seen yet");
        cables.changed(seen(true, 1));
        assert_eq!(cables.mtu("edge.wan"), Some(1500));
        let mut smaller = seen(true, 1);
        smaller.values_mut().flatten().for_each(|cable| cable.mtu = Some(1400));
        assert_eq!(cables.changed(smaller), [""; 0]);
        assert_eq!((cables.mtu("edge.wan"), cables.mtu("edge.lan")), (Some(1400), None));
        let mut unknown = seen(true, 1);
        unknown.values_mut().flatten().for_each(|cable| cable.mtu = None);
        cables.changed(unknown);
        assert_eq!(cables.mtu("edge.wan"), Some(1400), "it could not be read");
        cables.changed(gone());
        assert_eq!(cables.mtu("edge.wan"), None);
    }

    #[test]
    fn a_cable_has_changed_when_its_carrier_or_the_host_at_its_end_has() {
        let mut cables = CarrierWatch::default();
        for (look, changed) in [
            (seen(true, 1), false),
            (seen(true, 1), false),
            (seen(false, 1), true),
            (seen(false, 1), false),
            (seen(false, 2), true),
            (seen(true, 2), true),
            (seen(true, 3), true),
            (gone(), true),
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
