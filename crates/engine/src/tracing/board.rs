//! Where a trace can look: a tap point in each direction of each NIC, by name.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use frame::Mac;
use port::{Sink, TapPoint};

/// What a frame passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// Into the queue between a switch and a NIC.
    Queue,
    /// Into the router's receive ring.
    Rx,
    /// Out of the router's transmit ring.
    Tx {
        /// To a switch, from where it may go to another router.
        to_switch: bool,
    },
}

/// One spot of one NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the router.
    pub router: String,
    /// Name of its NIC.
    pub nic: String,
    /// What is passed.
    pub spot: Spot,
    /// The NIC's Ethernet address.
    pub mac: Mac,
}

impl Place {
    /// As it is printed: `edge.wan.rx`.
    pub fn name(&self) -> String {
        let spot = match self.spot {
            Spot::Queue => "queue",
            Spot::Rx => "rx",
            Spot::Tx { .. } => "tx",
        };
        format!("{}.{}.{spot}", self.router, self.nic)
    }

    /// The NIC, as it is printed: `edge.wan`.
    pub fn nic_name(&self) -> String {
        format!("{}.{}", self.router, self.nic)
    }
}

/// A place with its tap point.
pub(super) type Point = (Arc<Place>, Arc<TapPoint>);
/// A place with its tap point, as long as somebody else keeps that.
type Known = (Arc<Place>, Weak<TapPoint>);

/// All places of an instance. A place is there as long as frames pass it.
#[derive(Clone, Default)]
pub struct TapBoard {
    points: Arc<Mutex<Vec<Known>>>,
    /// Somebody looks.
    taken: Arc<AtomicBool>,
}

impl TapBoard {
    /// Puts a tap point before a sink.
    pub fn point(&self, place: Place, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        let point = Arc::new(TapPoint::new(sink));
        let mut points = self.lock();
        points.retain(|(_, point)| point.strong_count() > 0);
        points.push((Arc::new(place), Arc::downgrade(&point)));
        point
    }

    /// The places of one NIC.
    pub(crate) fn nic(&self, router: &str, nic: &config::Nic) -> NicTaps<'_> {
        let (router, mac) = (router.to_owned(), Mac(nic.mac.0));
        NicTaps { board: self, router, nic: nic.name.clone(), mac }
    }

    /// For whoever asks first, until [`TapBoard::let_go`].
    pub(super) fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }

    /// Nobody looks any more.
    pub(super) fn let_go(&self) {
        for (_, point) in self.points() {
            point.disable();
        }
        self.taken.store(false, Ordering::Release);
    }

    /// Where frames come to a router by a NIC, and where they leave it, as far as frames pass there now.
    pub(crate) fn ends_of(&self, router: &str, nic: &str) -> Vec<Arc<TapPoint>> {
        let is_end =
            |place: &Place| place.router == router && place.nic == nic && !matches!(place.spot, Spot::Queue);
        self.points().into_iter().filter(|(place, _)| is_end(place)).map(|(_, point)| point).collect()
    }

    /// Every place there is now.
    pub(super) fn points(&self) -> Vec<Point> {
        let points = self.lock();
        points.iter().filter_map(|(place, point)| Some((place.clone(), point.upgrade()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts tap points before the sinks of one NIC.
pub(crate) struct NicTaps<'b> {
    board: &'b TapBoard,
    router: String,
    nic: String,
    mac: Mac,
}

impl NicTaps<'_> {
    /// Before a sink that takes what passes `spot`.
    pub(crate) fn at(&self, spot: Spot, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        let place = Place { router: self.router.clone(), nic: self.nic.clone(), spot, mac: self.mac };
        self.board.point(place, sink)
    }
}
