//! What control planes count. Their threads write it, and any other reads it at any time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bfd::BfdCounters;
use control::ControlCounters;
use fpm::FpmCounters;
use ledger::Group;
use telemetry::{Metric, Page};

/// Routes and groups of a control plane, as gauges; see [`Sizes`].
const SIZES: [Metric; 4] = [
    Metric {
        name: "control_plane_routes",
        help: "Routes of the control plane that the router is to have.",
        counter: false,
    },
    Metric {
        name: "control_plane_groups",
        help: "Groups of next hops that these routes share.",
        counter: false,
    },
    Metric {
        name: "control_plane_stale_routes",
        help: "Routes that zebra has not sent since it was started last.",
        counter: false,
    },
    Metric {
        name: "control_plane_late_routes",
        help: "Networks for which the router's table has no room at present.",
        counter: false,
    },
];

/// Counters of a control plane.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) fpm: Arc<FpmCounters>,
    pub(super) routes: Arc<ControlCounters>,
    pub(super) bfd: Arc<BfdCounters>,
    pub(super) sizes: Arc<Sizes>,
}

/// What there is now.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    routes: AtomicU64,
    groups: AtomicU64,
    stale: AtomicU64,
}

impl Sizes {
    /// Notes how many routes and groups there are, and how many of zebra's routes are stale.
    pub(super) fn note(&self, routes: usize, groups: usize, stale: usize) {
        let places = [&self.routes, &self.groups, &self.stale];
        for (place, size) in places.into_iter().zip([routes, groups, stale]) {
            place.store(size as u64, Relaxed);
        }
    }
}

impl Counts {
    /// Adds the counters under their full names: `edge.fpm.frames`.
    pub(super) fn list(&self, router: &str, all: &mut BTreeMap<String, u64>) {
        let groups: [(&str, &dyn Group); 3] =
            [("fpm", &*self.fpm), ("control", &*self.routes), ("bfd", &*self.bfd)];
        for (part, group) in groups {
            group.each(&mut |field, value| {
                all.insert(format!("{router}.{part}.{field}"), value);
            });
        }
    }

    /// Adds the gauges; so many networks are late.
    pub(super) fn show(&self, router: &str, late: u64, page: &mut Page) {
        let Sizes { routes, groups, stale } = &*self.sizes;
        let [routes, groups, stale] = [routes, groups, stale].map(|size| size.load(Relaxed));
        for (metric, size) in SIZES.into_iter().zip([routes, groups, stale, late]) {
            page.add(metric, &[("router", router)], size as f64);
        }
    }
}

/// Adds the help texts of the counters.
pub(crate) fn describe(page: &mut Page) {
    page.describe("fpm", FpmCounters::FIELDS);
    page.describe("control_plane", ControlCounters::FIELDS);
    page.describe("bfd", BfdCounters::FIELDS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_gauges_are_metrics_of_their_router_with_help_texts() {
        let counts = Counts::default();
        counts.fpm.frames.add(3);
        counts.routes.groups_set.add(2);
        counts.sizes.note(5, 4, 1);
        let mut all = BTreeMap::new();
        counts.list("edge", &mut all);
        assert_eq!((all["edge.fpm.frames"], all["edge.control.groups_set"]), (3, 2));
        let mut page = Page::new();
        describe(&mut page);
        all.iter().for_each(|(name, value)| page.ledger(name, *value));
        counts.show("edge", 7, &mut page);
        let text = page.to_string();
        for wanted in [
            "# HELP ringroad_fpm_frames_total Frames.\n",
            "ringroad_fpm_frames_total{router=\"edge\"} 3\n",
            "ringroad_control_plane_groups_set_total{router=\"edge\"} 2\n",
            "# TYPE ringroad_control_plane_routes gauge\n",
            "ringroad_control_plane_routes{router=\"edge\"} 5\n",
            "ringroad_control_plane_groups{router=\"edge\"} 4\n",
            "ringroad_control_plane_stale_routes{router=\"edge\"} 1\n",
            "ringroad_control_plane_late_routes{router=\"edge\"} 7\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in {text}");
        }
        assert!(!text.contains("of this part"), "each counter has a text: {text}");
    }
}
