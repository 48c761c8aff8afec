//! Tap points of a trace: one in each direction of each NIC, by name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use frame::Mac;
use port::{Sink, TapPoint};

/// Position of a tap point on a frame's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// Entry of the ingress queue between a switch and a NIC.
    Queue,
    /// Entry of the router's receive ring.
    Rx,
    /// Exit of the router's transmit ring.
    Tx {
        /// The frame goes to a switch, and may go from there to another router.
        to_switch: bool,
    },
}

/// One spot at one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the router.
    pub router: String,
    /// Name of its NIC.
    pub nic: String,
    /// The spot.
    pub spot: Spot,
    /// The NIC's Ethernet address.
    pub mac: Mac,
}

impl Place {
    /// Returns the printed form: `edge.wan.rx`.
    pub fn name(&self) -> String {
        let spot = match self.spot {
            Spot::Queue => "queue",
            Spot::Rx => "rx",
            Spot::Tx { .. } => "tx",
        };
        format!("{}.{}.{spot}", self.router, self.nic)
    }

    /// Returns the printed form of the NIC: `edge.wan`.
    pub fn nic_name(&self) -> String {
        format!("{}.{}", self.router, self.nic)
    }
}

/// A place with its tap point.
pub(super) type Point = (Arc<Place>, Arc<TapPoint>);
/// A place with its tap point, as long as another owner keeps the latter.
type Known = (Arc<Place>, Weak<TapPoint>);

/// All places of an instance. A place exists as long as frames can pass it.
#[derive(Clone, Default)]
pub struct TapBoard {
    points: Arc<Mutex<Vec<Known>>>,
    /// True while a trace uses the board.
    taken: Arc<AtomicBool>,
}

impl TapBoard {
    /// Inserts a tap point before a sink.
    pub fn point(&self, place: Place, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        let point = Arc::new(TapPoint::new(sink));
        let mut points = self.lock();
        points.retain(|(_, point)| point.strong_count() > 0);
        points.push((Arc::new(place), Arc::downgrade(&point)));
        point
    }

    /// Returns the taps of one NIC.
    pub(crate) fn nic(&self, router: &str, nic: &config::Nic) -> NicTaps<'_> {
        let (router, mac) = (router.to_owned(), Mac(nic.mac.0));
        NicTaps { board: self, router, nic: nic.name.clone(), mac }
    }

    /// Takes the board exclusively; returns true for the first caller, until [`TapBoard::let_go`].
    pub(super) fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }

    /// Disables all tap points and releases the board.
    pub(super) fn let_go(&self) {
        for (_, point) in self.points() {
            point.disable();
        }
        self.taken.store(false, Ordering::Release);
    }

    /// Returns the tap points at which frames enter a router, or the members of a group, by a NIC, and leave it, as
    /// far as they exist now.
    pub(crate) fn ends_of(&self, router: &str, nic: &str) -> Vec<Arc<TapPoint>> {
        let is_its = |place: &Place| config::is_forwarding_for(&place.router, router) && place.nic == nic;
        let is_end = |place: &Place| is_its(place) && !matches!(place.spot, Spot::Queue);
        self.points().into_iter().filter(|(place, _)| is_end(place)).map(|(_, point)| point).collect()
    }

    /// Returns all current places.
    pub(super) fn points(&self) -> Vec<Point> {
        let points = self.lock();
        points.iter().filter_map(|(place, point)| Some((place.clone(), point.upgrade()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inserts tap points before the sinks of one NIC.
pub(crate) struct NicTaps<'b> {
    board: &'b TapBoard,
    router: String,
    nic: String,
    mac: Mac,
}

impl NicTaps<'_> {
    /// Inserts one before a sink at the position `spot`.
    pub(crate) fn at(&self, spot: Spot, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        let place = Place { router: self.router.clone(), nic: self.nic.clone(), spot, mac: self.mac };
        self.board.point(place, sink)
    }
}
