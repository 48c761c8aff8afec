//! Thread of a control plane. It does all that may wait for the kernel or for FRR, so that the event loop need not: it follows the
//! namespace, serves zebra, watches over the daemons, and answers questions.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::{ControlQuestion, Outcome, Ticket};
use config::Router;
use config::learned::Lesson;
use fpm::{Turn, Zebra};
use netlink::{Mirror, Route};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use telemetry::Kind;
use uplink::Tap;

use super::bell::{Listener, Ringer};
use super::bfd::{Bfd, News};
use super::counts::Counts;
use super::daemons::Daemons;
use super::namespace::ControlNamespace;
use super::routes::Routes;
use super::settle::settle;

/// Longest sleep, in milliseconds: the end of a process rings no bell.
const LOOK: u64 = 500;
/// The same at the end, which waits for processes alone.
const LAST_LOOK: u64 = 20;
/// Time for the daemons to end, in milliseconds.
const GRACE: u64 = 4_000;
/// Pauses between attempts to bring settings into force, in milliseconds: the first, and the longest.
const PAUSE: [u64; 2] = [1_000, 30_000];
/// Milliseconds between two dumps of the kernel's routes.
const DUMPS: u64 = 500;

/// What the thread is told.
pub(super) enum Order {
    /// Settings of the router, with handles for its shadows, by NIC.
    Follow(Box<Router>, BTreeMap<String, Tap>),
    /// FRR's file may have changed.
    Reload,
    /// A data plane is there that knows nothing.
    TellAnew,
    /// A lesson was taken.
    HasLearned,
    /// A client asks.
    Ask(Question),
    /// The end.
    End,
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
    /// An event.
    Event(Kind, String),
    /// Answer to a question.
    Answer(Ticket, Outcome),
}

/// A control plane.
pub(super) struct ControlPlane {
    pub(super) router: Router,
    /// Settings that are in force in the namespace.
    settled: Option<Router>,
    settling: Option<Settling>,
    pub(super) namespace: ControlNamespace,
    shadows: BTreeMap<String, Tap>,
    pub(super) mirror: Mirror,
    /// True if changes of the mirror were missed.
    is_behind: bool,
    pub(super) routes: Routes,
    zebra: Option<Zebra>,
    /// True if zebra has more to say.
    is_busy: bool,
    pub(super) daemons: Daemons,
    bfd: Bfd,
    /// No dump before, in milliseconds.
    next_dump: u64,
    started: Instant,
    orders: Listener<Order>,
    pub(super) reports: Ringer<Report>,
    /// Questions that other threads work on: one clone each.
    pub(super) asking: Arc<()>,
    /// When the thread ends, whatever still runs.
    ends: Option<u64>,
}

/// Attempt to bring settings into force.
struct Settling {
    at: u64,
    pause: u64,
}

impl ControlPlane {
    /// Looks at the namespace of a router.
    ///
    /// # Errors
    /// No descriptors are left, or the kernel lacks a kind of socket.
    pub(super) fn new(
        router: Router,
        namespace: ControlNamespace,
        (orders, reports): (Listener<Order>, Ringer<Report>),
        counts: Counts,
    ) -> Result<Self> {
        let mirror = namespace.namespace().within(|| Mirror::open_with(|route| !fpm::is_zebras(route)))?;
        let mirror = mirror.context("following the interfaces of its namespace")?;
        if let Err(error) = spare(&mirror) {
            let what = format!("the kernel reports zebra's routes twice, which takes time: {error}");
            reports.send(Report::Event(Kind::ControlPlane, what));
        }
        let bfd = Bfd::new(router.name.clone(), namespace.namespace().clone(), counts.bfd.clone());
        let routes = Routes::new(&router, &mirror, counts);
        let daemons = Daemons::new(router.name.clone(), namespace.namespace().clone());
        Ok(Self {
            router,
            settled: None,
            settling: None,
            namespace,
            shadows: BTreeMap::new(),
            mirror,
            is_behind: false,
            routes,
            zebra: None,
            is_busy: false,
            daemons,
            bfd,
            next_dump: 0,
            started: Instant::now(),
            orders,
            reports,
            asking: Arc::default(),
            ends: None,
        })
    }

    /// Serves until it is told to end.
    pub(super) fn serve(mut self) {
        while self.turn() {
            self.wait();
        }
    }

    /// Does what is due. Returns false at the end.
    fn turn(&mut self) -> bool {
        let now = self.now();
        self.obey(now);
        self.settle(now);
        self.watch();
        self.hear_zebra(now);
        self.attend_daemons(now);
        self.attend_bfd(now);
        self.dump(now);
        self.routes.flush();
        self.routes.count();
        while let Some(lesson) = self.routes.lesson() {
            self.reports.send(Report::Lesson(lesson));
        }
        !self.ends.is_some_and(|end| now >= end || self.daemons.is_stopped())
    }

    /// Milliseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn tell(&self, kind: Kind, line: String) {
        self.reports.send(Report::Event(kind, line));
    }

    fn obey(&mut self, now: u64) {
        self.orders.quiet();
        loop {
            match self.orders.next() {
                Ok(None) => return,
                Ok(Some(Order::Follow(router, shadows))) => self.follow(*router, shadows, now),
                Ok(Some(Order::Reload)) => self.reload(now),
                Ok(Some(Order::TellAnew)) => self.routes.tell_anew(),
                Ok(Some(Order::HasLearned)) => self.routes.has_learned(),
                Ok(Some(Order::Ask(question))) => self.answer(question),
                Ok(Some(Order::End)) | Err(_) => {
                    self.ends.get_or_insert(now + GRACE);
                    return self.daemons.stop();
                }
            }
        }
    }

    fn follow(&mut self, router: Router, shadows: BTreeMap<String, Tap>, now: u64) {
        let links = |router: &Router| -> Vec<String> {
            (0..).map_while(|number| router.link_name(number).map(str::to_owned)).collect()
        };
        let has_others = links(&router) != links(&self.router);
        (self.router, self.shadows) = (router, shadows);
        if has_others {
            self.routes.follow(&self.router, &self.mirror);
        }
        self.set_carriers();
        self.settling = Some(Settling { at: now, pause: PAUSE[0] });
        self.settle(now);
        if self.daemons.path() != self.path() {
            self.reload(now);
        }
    }

    /// Has FRR follow what its file says by now.
    fn reload(&mut self, now: u64) {
        let path = self.path().map(Path::to_owned);
        let reports = &self.reports;
        self.daemons.follow(path, now, &mut |kind, line| reports.send(Report::Event(kind, line)));
        if !self.daemons.is_wanted() {
            self.routes.forget_zebra();
        }
    }

    /// FRR's file.
    fn path(&self) -> Option<&Path> {
        self.router.control.as_ref()?.frr.as_deref()
    }

    /// Shows the daemons which cables are pulled.
    fn set_carriers(&self) {
        for nic in &self.router.nics {
            let Some(shadow) = self.shadows.get(&nic.name) else { continue };
            let is_there = !nic.is_pulled() && !self.router.is_stopped();
            if let Err(error) = shadow.set_carrier(is_there) {
                self.tell(
                    Kind::Notice,
                    format!("NIC {}: its daemons do not see its cable: {error}", nic.name),
                );
            }
        }
    }

    fn settle(&mut self, now: u64) {
        let Some(Settling { pause, .. }) = self.settling.take_if(|settling| settling.at <= now) else {
            return;
        };
        match self.try_settle() {
            Ok(()) => self.settled = Some(self.router.clone()),
            Err(error) => {
                // Told once; later attempts are silent.
                if pause == PAUSE[0] {
                    let what = "its namespace is not as the file says";
                    self.tell(Kind::Notice, format!("{what}: {error:#}; it is tried again"));
                }
                self.settling = Some(Settling { at: now + pause, pause: (pause * 2).min(PAUSE[1]) });
            }
        }
    }

    fn try_settle(&mut self) -> Result<()> {
        settle(&self.namespace, self.settled.as_ref(), &self.router)?;
        if self.path().is_some() && self.zebra.is_none() {
            let place = (Ipv4Addr::LOCALHOST, fpm::PORT);
            let listener = self.namespace.namespace().within(|| TcpListener::bind(place))?;
            let zebra = listener.and_then(Zebra::new);
            self.zebra = Some(zebra.with_context(|| format!("taking zebra's routes at port {}", fpm::PORT))?);
        }
        Ok(())
    }

    /// Takes what the kernel reports.
    fn watch(&mut self) {
        match self.mirror.update() {
            Ok(_) if std::mem::take(&mut self.is_behind) => self.routes.resynchronize(&self.mirror),
            Ok(news) => news.iter().for_each(|one| self.routes.take(one, &self.mirror)),
            // What was reported is lost: everything is taken once it can be read again.
            Err(_) => self.is_behind = true,
        }
    }

    fn hear_zebra(&mut self, now: u64) {
        let Some(zebra) = &mut self.zebra else { return };
        let before = self.routes.session.counters().frames.get();
        let turn = zebra.turn(&mut self.routes.session);
        self.is_busy = matches!(turn, Ok(Turn::More));
        if self.routes.session.counters().frames.get() != before {
            self.routes.has_changed();
        }
        if turn.is_err() {
            self.zebra = None;
            self.routes.session.closed();
            self.settling = Some(Settling { at: now + PAUSE[0], pause: PAUSE[0] });
        }
    }

    fn attend_daemons(&mut self, now: u64) {
        let reports = &self.reports;
        if self.daemons.turn(now, &mut |kind, line| reports.send(Report::Event(kind, line))) {
            self.routes.session.kernel_changed();
            self.bfd.settle();
        }
    }

    /// Follows bfdd, and takes the verdicts of its sessions.
    fn attend_bfd(&mut self, now: u64) {
        if !self.daemons.has_bfd() {
            if self.bfd.end() {
                self.routes.forget_verdicts();
            }
            return;
        }
        if let Err(error) = self.bfd.follow(self.daemons.running(), now) {
            self.tell(Kind::Notice, format!("BFD does not run: {error:#}; it is tried again"));
        }
        for news in self.bfd.news() {
            match news {
                News::Verdict { index, remote, is_alive } => {
                    self.routes.judge((index, remote), is_alive, &self.mirror);
                }
                News::Notice(line) => self.tell(Kind::Notice, line),
                News::Closed => {}
            }
        }
    }

    /// Looks which of zebra's former routes the kernel still has, when zebra has nothing more to say.
    fn dump(&mut self, now: u64) {
        if self.is_busy || now < self.next_dump || !self.routes.session.wants_dump() {
            return;
        }
        let rib = self.routes.session.rib_mut();
        let whole = self.mirror.kernel().each::<Route>(&mut |route| rib.seen_in_kernel(&route));
        self.routes.session.dumped(whole.unwrap_or(false));
        self.routes.has_changed();
        self.next_dump = now + DUMPS;
    }

    /// Waits until there is something to do.
    fn wait(&self) {
        let now = self.now();
        let dump = self.routes.session.wants_dump().then_some(self.next_dump);
        let settling = self.settling.as_ref().map(|settling| settling.at);
        let bfd = self.bfd.due(self.daemons.running());
        let due = [self.daemons.due(now), settling, self.ends, dump, bfd].into_iter().flatten().min();
        let longest = if self.ends.is_some() { LAST_LOOK } else { LOOK };
        let left = due.map_or(longest, |due| due.saturating_sub(now).min(longest));
        let left = Duration::from_millis(if self.is_busy { 0 } else { left });
        let add = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds: Vec<PollFd<'_>> = self.watched().map(add).collect();
        match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }

    fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = [self.orders.watched(), self.mirror.descriptor()];
        let zebra = self.zebra.iter().flat_map(Zebra::descriptors);
        own.into_iter().chain(zebra).chain(self.daemons.descriptors()).chain(self.bfd.watched())
    }
}

/// Spares the mirror zebra's routes, which may be a million, and come by FPM.
fn spare(mirror: &Mirror) -> std::io::Result<()> {
    let filter = bpf::load(bpf::Purpose::SocketFilter, &control::without_routes_of_zebra())?;
    bpf::attach_to_socket(filter.as_fd(), mirror.descriptor())
}
