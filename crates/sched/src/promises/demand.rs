//! Demand for the CPUs of promises.

use std::collections::BTreeMap;
use std::time::Instant;

use super::Reading;
use super::thread_groups::ThreadGroup;
use crate::account::CoreTicks;

/// Router and CPU.
type Place = (String, u32);

/// Part of its CPU that a router gets at least when nothing else wants it: the kernel has some work of its
/// own, and so has the host of a virtual machine.
const ALL: f64 = 0.90;

/// Demand for a router's CPU between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// It slept now and then.
    Less,
    /// It never slept, and the router got almost all of it.
    Own,
    /// It never slept, and others used it as well.
    Others,
}

/// Measurements of a look.
#[derive(Clone, Debug)]
struct Look {
    at: Instant,
    /// By CPU.
    ticks: BTreeMap<u32, CoreTicks>,
    /// CPU time of a router's threads in nanoseconds.
    own: BTreeMap<Place, u64>,
}

/// Demand by the last two looks.
#[derive(Clone, Debug)]
pub(super) struct Demands {
    last: Look,
    now: BTreeMap<Place, Demand>,
}

impl Demands {
    /// Creates it without measurements.
    pub(super) fn new(now: Instant) -> Self {
        let last = Look { at: now, ticks: BTreeMap::new(), own: BTreeMap::new() };
        Self { last, now: BTreeMap::new() }
    }

    /// Measures the cores of these threads.
    pub(super) fn look(&mut self, parts: &[ThreadGroup], reading: &Reading<'_>) {
        let mut own: BTreeMap<Place, u64> = BTreeMap::new();
        for part in parts {
            *own.entry((part.router.clone(), part.cpu)).or_default() += part.time(reading);
        }
        self.take(Look { at: reading.at, ticks: reading.cores.clone(), own });
    }

    fn take(&mut self, new: Look) {
        let last = std::mem::replace(&mut self.last, new);
        let since = self.last.at.saturating_duration_since(last.at).as_nanos() as f64;
        let idle = |look: &Look, cpu| look.ticks.get(&cpu).map(|ticks| ticks.idle);
        let demand = |place: &Place, own: u64| {
            let before = last.own.get(place)?;
            let slept = idle(&last, place.1) != idle(&self.last, place.1);
            let is_all = own.saturating_sub(*before) as f64 >= ALL * since;
            Some(match (slept, is_all) {
                (true, _) => Demand::Less,
                (false, true) => Demand::Own,
                (false, false) => Demand::Others,
            })
        };
        let places = self.last.own.iter();
        self.now = places.filter_map(|(place, own)| Some((place.clone(), demand(place, *own)?))).collect();
    }

    /// Demand for a router's CPU by the last two looks.
    pub(super) fn of(&self, router: &str, cpu: u32) -> Demand {
        self.now.get(&(router.to_owned(), cpu)).copied().unwrap_or(Demand::Less)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::account::cores;

    #[test]
    fn a_cpu_is_wanted_by_others_if_it_never_sleeps_and_the_router_has_not_had_all_of_it() {
        let start = Instant::now();
        let mut demands = Demands::new(start);
        let mut look = |ms: u64, stat: &str, own_ms: u64| {
            let own = [(("edge".to_owned(), 1), own_ms * 1_000_000)].into();
            demands.take(Look { at: start + Duration::from_millis(ms), ticks: cores(stat), own });
            demands.of("edge", 1)
        };
        let stat = |ticks: u64| {
            format!("cpu 1 1 1 9 0 0 0\ncpu0 1 1 1 {} 0 0 0\ncpu1 7 7 7 {ticks} 0 0 0\nintr 5", ticks * 2)
        };
        assert_eq!(look(0, &stat(5), 0), Demand::Less, "nothing to compare with");
        assert_eq!(look(100, &stat(5), 98), Demand::Own);
        assert_eq!(look(200, &stat(5), 170), Demand::Others);
        assert_eq!(look(300, &stat(7), 240), Demand::Less);
        assert_eq!(look(400, &stat(7), 240), Demand::Others, "it had nothing of it");
        assert_eq!(demands.of("edge", 0), Demand::Less);
    }
}
