//! Thread of a control plane. It does all that may wait for the kernel or for FRR, so that the event loop need not: it follows the
//! namespace, serves zebra, watches over the daemons, and answers questions.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::{ControlQuestion, Outcome, Ticket};
use config::Router;
use config::learned::Lesson;
use engine::GroupRoutes;
use frr::Options;
use netlink::{Change, Kept, Mirror, News};
use netns::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use telemetry::Kind;
use uplink::Tap;

use super::cables::Cables;
use super::counts::Counts;
use super::daemons::Daemons;
use super::data_path::{DataPath, Site};
use super::kernel_table::{self, KernelTable};
use super::last_moment::LastMoment;
use super::namespace::ControlNamespace;
use crate::bell::{Listener, Ringer};

/// Longest sleep, in milliseconds: the end of a process rings no bell.
const LOOK: u64 = 500;
/// Longest sleep at the end, when only processes are waited for, in milliseconds.
const LAST_LOOK: u64 = 20;
/// What the thread is told.
pub(super) enum Order {
    /// Settings of the router, with handles for its shadows, by NIC, where it has some, and the table of a group whose members have one.
    Follow(Box<Router>, BTreeMap<String, Tap>, Option<Arc<GroupRoutes>>),
    /// Cables that lack a carrier, or take less than their NICs.
    Cables(Cables),
    /// FRR's file may have changed.
    Reload,
    /// A data plane is there that knows nothing.
    TellAnew,
    /// A lesson was taken.
    HasLearned,
    /// A client asks.
    Ask(Question),
    /// The end.
    End(End),
}

/// How a control plane ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its router goes on without one.
    Without,
    /// Its router ends as well.
    Together,
    /// Its router is not in its namespace any more: there is nobody to whom the daemons could speak.
    LeftBehind,
}

/// A question of a client.
pub(super) struct Question {
    pub(super) ticket: Ticket,
    pub(super) question: ControlQuestion,
    /// Number of the last change of the router's table, and of networks for which it has no room.
    pub(super) epoch: u32,
    pub(super) late: u64,
}

/// What the thread reports.
pub(super) enum Report {
    /// News for the router.
    Lesson(Lesson),
    /// News were written into the table of a group, which has no room for so many networks.
    Written {
        late: u64,
        /// Number of the last change of the table.
        epoch: u32,
        /// True if it has everything by now.
        is_whole: bool,
    },
    /// An event.
    Event(Kind, String),
    /// Answer to a question.
    Answer(Ticket, Outcome),
}

/// Where a control plane is.
pub(super) enum Place {
    /// In a namespace of its own, beside the machine that forwards, with what counts there.
    Beside(ControlNamespace, Counts),
    /// In the namespace of a kernel router, which forwards itself.
    Inside(Namespace),
}

impl Place {
    const fn namespace(&self) -> &Namespace {
        match self {
            Self::Beside(namespace, _) => namespace.namespace(),
            Self::Inside(namespace) => namespace,
        }
    }
}

/// A control plane.
pub(super) struct ControlPlane {
    pub(super) router: Router,
    pub(super) namespace: Namespace,
    pub(super) mirror: Mirror,
    /// True if changes of the mirror were missed.
    is_behind: bool,
    pub(super) forwarder: Forwarder,
    pub(super) daemons: Daemons,
    started: Instant,
    orders: Listener<Order>,
    pub(super) reports: Ringer<Report>,
    /// Questions that other threads work on: one clone each.
    pub(super) asking: Arc<()>,
    end: LastMoment,
    /// True if zebra's routes are not to stay in the kernel that forwards by them.
    takes_routes: bool,
}

/// What forwards by the routes that are found.
pub(super) enum Forwarder {
    /// The router's machine.
    Machine(Box<DataPath>),
    /// The kernel, in the namespace itself.
    Kernel(Box<KernelTable>),
}

impl ControlPlane {
    /// Looks at the namespace of a router.
    ///
    /// # Errors
    /// No descriptors are left, or the kernel lacks a kind of socket.
    pub(super) fn new(
        router: Router,
        place: Place,
        (orders, reports): (Listener<Order>, Ringer<Report>),
    ) -> Result<Self> {
        let namespace = place.namespace().clone();
        // Stations on the links could keep it busy with neighbours, which have a mirror of their own.
        let kept = Kept { routes: |route| !fpm::is_zebras(route), neighbours: false, ..Kept::default() };
        let mirror = namespace.within(|| Mirror::open_with(kept))?;
        let mirror = mirror.context("following the interfaces of its namespace")?;
        if let Err(error) = spare(&mirror) {
            let what = format!("the kernel reports zebra's routes twice, which takes time: {error}");
            reports.send(Report::Event(Kind::ControlPlane, what));
        }
        let is_machine = matches!(place, Place::Beside(..));
        let options = Options { fpm: is_machine, bfd: is_machine };
        let daemons = Daemons::new(router.name.clone(), namespace.clone(), options);
        let forwarder = match place {
            Place::Beside(own, counts) => {
                Forwarder::Machine(Box::new(DataPath::new(&router, &mirror, own, counts)?))
            }
            Place::Inside(_) => Forwarder::Kernel(Box::default()),
        };
        Ok(Self {
            router,
            namespace,
            mirror,
            is_behind: false,
            forwarder,
            daemons,
            started: Instant::now(),
            orders,
            reports,
            asking: Arc::default(),
            end: LastMoment::default(),
            takes_routes: false,
        })
    }

    /// Serves until it is told to end.
    pub(super) fn serve(mut self) {
        while self.turn() {
            self.wait();
        }
        if self.takes_routes {
            self.forget_zebra();
        }
    }

    /// Does what is due. Returns false at the end.
    fn turn(&mut self) -> bool {
        let now = self.now();
        self.obey(now);
        if let Some((path, site)) = self.machine() {
            path.settle(site, now);
        }
        self.watch(now);
        if let Some((path, _)) = self.machine() {
            path.hear_zebra(now);
        }
        self.attend_daemons(now);
        self.attend_forwarder(now);
        !self.end.is_reached(now, self.daemons.is_stopped())
    }

    /// The data path of a machine, with what is beside it.
    fn machine(&mut self) -> Option<(&mut DataPath, Site<'_>)> {
        let Self { router, mirror, daemons, reports, forwarder, .. } = self;
        match forwarder {
            Forwarder::Machine(path) => Some((path.as_mut(), Site { router, mirror, daemons, reports })),
            Forwarder::Kernel(_) => None,
        }
    }

    /// Milliseconds since the start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn obey(&mut self, now: u64) {
        self.orders.quiet();
        loop {
            match self.orders.next() {
                Ok(None) => return,
                Ok(Some(Order::Follow(router, shadows, table))) => {
                    self.on_routes(|path| path.write_into(table));
                    self.follow(*router, shadows, now);
                }
                Ok(Some(Order::Cables(cables))) => self.show_cables(cables, now),
                Ok(Some(Order::Reload)) => self.reload(now),
                Ok(Some(Order::TellAnew)) => self.on_routes(DataPath::tell_anew),
                Ok(Some(Order::HasLearned)) => self.on_routes(|path| path.routes.has_learned()),
                Ok(Some(Order::Ask(question))) => self.answer(question),
                Ok(Some(Order::End(how))) => return self.end(how, now),
                Err(_) => return self.end(End::Together, now),
            }
        }
    }

    fn end(&mut self, how: End, now: u64) {
        self.end.set(how, now);
        self.takes_routes |= how == End::Without && self.daemons.is_wanted();
        self.daemons.stop();
    }

    /// zebra will not come back: its routes go.
    fn forget_zebra(&mut self) {
        match &mut self.forwarder {
            Forwarder::Machine(path) => path.forget_zebra(),
            Forwarder::Kernel(_) => {
                if let Err(error) = kernel_table::remove_zebras(self.mirror.kernel()) {
                    let what = format!("routes of FRR stay in the kernel: {error}");
                    self.reports.send(Report::Event(Kind::Notice, what));
                }
            }
        }
    }

    fn on_routes(&mut self, work: impl FnOnce(&mut DataPath)) {
        if let Some((path, _)) = self.machine() {
            work(path);
        }
    }

    fn follow(&mut self, router: Router, shadows: BTreeMap<String, Tap>, now: u64) {
        let before = std::mem::replace(&mut self.router, router);
        if let Some((path, site)) = self.machine() {
            path.follow(&before, site, (shadows, now));
        }
        if self.daemons.path() != self.path() {
            self.reload(now);
        }
    }

    fn show_cables(&mut self, cables: Cables, now: u64) {
        if let Some((path, site)) = self.machine() {
            path.show_cables(site, cables, now);
        }
    }

    /// Has FRR follow what its file says by now.
    fn reload(&mut self, now: u64) {
        let path = self.path().map(Path::to_owned);
        let (was_wanted, reports) = (self.daemons.is_wanted(), &self.reports);
        self.daemons.follow(path, now, &mut |kind, line| reports.send(Report::Event(kind, line)));
        if was_wanted && !self.daemons.is_wanted() {
            self.forget_zebra();
        }
    }

    /// FRR's file.
    fn path(&self) -> Option<&Path> {
        self.router.control.as_ref()?.frr.as_deref()
    }

    /// Takes what the kernel reports.
    fn watch(&mut self, now: u64) {
        let news = self.mirror.update();
        let Self { router, mirror, is_behind, forwarder, daemons, .. } = self;
        // What was reported is lost if it fails: everything is taken once it can be read again.
        let was_behind = std::mem::replace(is_behind, news.is_err());
        let has_caught_up = was_behind && !*is_behind;
        let mut news = news.unwrap_or_default();
        if has_caught_up {
            news.extend(mirror.links().iter().cloned().map(|link| News::Link(Change::Set(link))));
        }
        daemons.watch_links(&news, now);
        let Forwarder::Machine(path) = forwarder else { return };
        if has_caught_up {
            path.routes.resynchronize(mirror);
        } else {
            news.iter().for_each(|one| path.routes.take(one, mirror));
        }
        let links_are_new = news.iter().any(|one| matches!(one, News::Link(_)));
        path.watch_neighbours(router, links_are_new);
    }

    fn attend_daemons(&mut self, now: u64) {
        let reports = &self.reports;
        if self.daemons.turn(now, &mut |kind, line| reports.send(Report::Event(kind, line))) {
            self.on_routes(DataPath::daemons_are_settled);
        }
    }

    fn attend_forwarder(&mut self, now: u64) {
        let Some((path, site)) = self.machine() else {
            if let Forwarder::Kernel(table) = &mut self.forwarder {
                table.forget(now);
            }
            return;
        };
        path.attend_bfd(site, now);
        path.finish(site.mirror, now);
        path.watch_room(site, now);
        path.tell(site.reports);
    }

    /// Waits until there is something to do.
    fn wait(&self) {
        let now = self.now();
        let (forwarder, blocked) = match &self.forwarder {
            Forwarder::Machine(path) => (path.due(&self.daemons, now), path.blocked()),
            Forwarder::Kernel(table) => (table.due(), None),
        };
        let due = [self.daemons.due(now), self.end.due(), forwarder].into_iter().flatten().min();
        let longest = if self.end.due().is_some() { LAST_LOOK } else { LOOK };
        let left = due.map_or(longest, |due| due.saturating_sub(now).min(longest));
        let read = self.watched().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let write = blocked.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT));
        let mut fds: Vec<PollFd<'_>> = read.chain(write).collect();
        match poll(&mut fds, Timespec::try_from(Duration::from_millis(left)).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }

    fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = [self.orders.watched(), self.mirror.descriptor()];
        let path = match &self.forwarder {
            Forwarder::Machine(path) => Some(path.watched()),
            Forwarder::Kernel(_) => None,
        };
        own.into_iter().chain(path.into_iter().flatten()).chain(self.daemons.descriptors())
    }
}

/// Spares the mirror zebra's routes, which may be a million, and come by FPM or are read when they are asked for.
fn spare(mirror: &Mirror) -> std::io::Result<()> {
    let filter = bpf::load(bpf::Purpose::SocketFilter, &control::without_routes_of_zebra())?;
    bpf::attach_to_socket(filter.as_fd(), mirror.descriptor())
}
