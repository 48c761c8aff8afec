//! A control plane's side of a machine that forwards: the router's settings come into a namespace that forwards nothing, and what is
//! found there goes to the data plane, which writes it into the router's table.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::Router;
use config::learned::Lesson;
use engine::GroupRoutes;
use fpm::{MOST_GROUPS, MOST_ROUTES, Turn, Zebra};
use frr::{Daemon, Programs};
use netlink::{Mirror, Route};
use telemetry::Kind;
use uplink::Tap;

use super::bfd::{Bfd, News};
use super::cables::Cables;
use super::counts::Counts;
use super::daemons::Daemons;
use super::namespace::ControlNamespace;
use super::routes::{MOST_LESSONS, Routes, links};
use super::settle::settle;
use super::shortage::{Act, Shortage};
use super::static_neighbours::Neighbours;
use super::thread::Report;
use crate::bell::Ringer;

/// Pauses between attempts to bring settings into force, in milliseconds: the first, and the longest.
const PAUSE: [u64; 2] = [1_000, 30_000];
/// Milliseconds between two dumps of the kernel's routes.
const DUMPS: u64 = 500;

/// See the module.
pub(super) struct DataPath {
    namespace: ControlNamespace,
    shadows: BTreeMap<String, Tap>,
    /// Cables that lack a carrier, or take less than their NICs.
    cables: Cables,
    /// Settings that are in force in the namespace.
    settled: Option<Router>,
    settling: Option<Settling>,
    pub(super) routes: Routes,
    neighbours: Neighbours,
    /// The table of a group whose members have one, which is written here; without one the data plane is told.
    table: Option<Arc<GroupRoutes>>,
    /// True if there may be more to write.
    has_more: bool,
    zebra: Option<Zebra>,
    /// True if zebra has more to say.
    is_busy: bool,
    bfd: Bfd,
    /// No dump before, in milliseconds.
    next_dump: u64,
    shortage: Shortage,
}

/// Attempt to bring settings into force.
struct Settling {
    at: u64,
    pause: u64,
}

/// What is beside it in its control plane.
#[derive(Clone, Copy)]
pub(super) struct Site<'s> {
    pub(super) router: &'s Router,
    pub(super) mirror: &'s Mirror,
    pub(super) daemons: &'s Daemons,
    pub(super) reports: &'s Ringer<Report>,
}

impl Site<'_> {
    fn tell(&self, kind: Kind, line: String) {
        self.reports.send(Report::Event(kind, line));
    }
}

impl DataPath {
    /// Looks at the namespace of a router.
    ///
    /// # Errors
    /// No descriptors are left.
    pub(super) fn new(
        router: &Router,
        mirror: &Mirror,
        namespace: ControlNamespace,
        counts: Counts,
    ) -> Result<Self> {
        let bfd = Bfd::new(router.name.clone(), namespace.namespace().clone(), counts.bfd.clone());
        let neighbours = Neighbours::open(namespace.namespace())?;
        Ok(Self {
            namespace,
            shadows: BTreeMap::new(),
            cables: Cables::default(),
            settled: None,
            settling: None,
            routes: Routes::new(router, mirror, counts),
            neighbours,
            table: None,
            has_more: false,
            zebra: None,
            is_busy: false,
            bfd,
            next_dump: 0,
            shortage: Shortage::default(),
        })
    }

    /// Follows settings, with handles for the shadows.
    pub(super) fn follow(
        &mut self,
        before: &Router,
        site: Site<'_>,
        (shadows, now): (BTreeMap<String, Tap>, u64),
    ) {
        if links(before) != links(site.router) {
            self.routes.follow(site.router, site.mirror);
        }
        // What the file says is left out.
        self.neighbours.look_again();
        self.shadows = shadows;
        self.set_carriers(site);
        self.settling = Some(Settling { at: now, pause: PAUSE[0] });
        self.settle(site, now);
    }

    /// Shows the daemons which cables lack a carrier, and, when settings are brought into force next, which take less than their NICs.
    pub(super) fn show_cables(&mut self, site: Site<'_>, cables: Cables, now: u64) {
        if self.cables.narrow != cables.narrow {
            self.settling = Some(Settling { at: now, pause: PAUSE[0] });
        }
        self.cables = cables;
        self.set_carriers(site);
    }

    /// Shows the daemons which cables are pulled, or lead nowhere.
    fn set_carriers(&self, site: Site<'_>) {
        for nic in &site.router.nics {
            let Some(shadow) = self.shadows.get(&nic.name) else { continue };
            let is_there =
                !nic.is_pulled() && !site.router.is_stopped() && !self.cables.lacking.contains(&nic.name);
            if let Err(error) = shadow.set_carrier(is_there) {
                let what = format!("NIC {}: its daemons do not see its cable: {error}", nic.name);
                site.tell(Kind::Notice, what);
            }
        }
    }

    /// Brings settings into force, if that is due.
    pub(super) fn settle(&mut self, site: Site<'_>, now: u64) {
        let Some(Settling { pause, .. }) = self.settling.take_if(|settling| settling.at <= now) else {
            return;
        };
        match self.try_settle(site) {
            Ok(()) => self.settled = Some(site.router.clone()),
            Err(error) => {
                // Told once; later attempts are silent.
                if pause == PAUSE[0] {
                    let what = "its namespace is not as the file says";
                    site.tell(Kind::Notice, format!("{what}: {error:#}; it is tried again"));
                }
                self.settling = Some(Settling { at: now + pause, pause: (pause * 2).min(PAUSE[1]) });
            }
        }
    }

    fn try_settle(&mut self, site: Site<'_>) -> Result<()> {
        settle(&self.namespace, self.settled.as_ref(), &self.cables.fit(site.router))?;
        let has_frr = site.router.control.as_ref().is_some_and(|control| control.frr.is_some());
        if has_frr && self.zebra.is_none() {
            let programs = Programs::find(Path::new("/"), [Daemon::Zebra]);
            self.routes.session.set_answering(programs.is_ok_and(|programs| programs.reads_answers()));
            let place = (Ipv4Addr::LOCALHOST, fpm::PORT);
            let listener = self.namespace.namespace().within(|| TcpListener::bind(place))?;
            let zebra = listener.and_then(Zebra::new);
            self.zebra = Some(zebra.with_context(|| format!("taking zebra's routes at port {}", fpm::PORT))?);
        }
        Ok(())
    }

    /// Takes which static neighbours the namespace has by now; if links have changed, those are at others.
    pub(super) fn watch_neighbours(&mut self, router: &Router, links_are_new: bool) {
        if links_are_new {
            self.neighbours.look_again();
        }
        if let Some(mirror) = self.neighbours.news() {
            self.routes.note_neighbours(router, mirror);
        }
    }

    /// Takes what zebra says.
    pub(super) fn hear_zebra(&mut self, now: u64) {
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

    /// Tells that routes of zebra were refused, and has it send everything once there is room for them.
    pub(super) fn watch_room(&mut self, site: Site<'_>, now: u64) {
        let rib = self.routes.session.rib();
        match self.shortage.look(rib.is_short(), rib.has_room_again(), now) {
            Some(Act::Tell) => site.tell(
                Kind::Notice,
                format!(
                    "FRR has more routes than are taken, {MOST_ROUTES} of each family in a table by {MOST_GROUPS} groups of next \
                     hops: the others are taken when an eighth is free"
                ),
            ),
            Some(Act::Ask) => {
                if let Some(zebra) = &mut self.zebra {
                    zebra.begin_anew(&mut self.routes.session);
                }
            }
            None => {}
        }
    }

    /// zebra will not come back: its routes go, and none comes that is on its way.
    pub(super) fn forget_zebra(&mut self) {
        if let Some(zebra) = &mut self.zebra {
            zebra.hang_up(&mut self.routes.session);
        }
        self.routes.forget_zebra();
    }

    /// What the daemons have not sent again by now will not come any more.
    pub(super) fn daemons_are_settled(&mut self) {
        self.routes.session.kernel_changed();
        self.bfd.settle();
    }

    /// Follows bfdd, and takes the verdicts of its sessions.
    pub(super) fn attend_bfd(&mut self, site: Site<'_>, now: u64) {
        if !site.daemons.has_bfd() {
            if self.bfd.end() {
                self.routes.forget_verdicts();
            }
            return;
        }
        if let Err(error) = self.bfd.follow(site.daemons.running(), now) {
            site.tell(Kind::Notice, format!("BFD does not run: {error:#}; it is tried again"));
        }
        for news in self.bfd.news() {
            match news {
                News::Verdict { index, remote, is_alive } => {
                    self.routes.judge((index, remote), is_alive, site.mirror);
                }
                News::Notice(line) => site.tell(Kind::Notice, line),
                News::Closed => {}
            }
        }
    }

    /// Ends a turn: what has changed is to be told.
    pub(super) fn finish(&mut self, mirror: &Mirror, now: u64) {
        self.dump(mirror, now);
        self.routes.flush();
        self.routes.count();
    }

    /// Has what is found be written into this table from now on, or be told to the data plane.
    pub(super) fn write_into(&mut self, table: Option<Arc<GroupRoutes>>) {
        let [before, now] = [&self.table, &table].map(|table| table.as_ref().map(Arc::as_ptr));
        if before != now {
            self.table = table;
            self.routes.tell_anew();
        }
    }

    /// A new data plane knows nothing.
    pub(super) fn tell_anew(&mut self) {
        if self.table.is_some() {
            self.routes.tell_names();
        } else {
            self.routes.tell_anew();
        }
    }

    /// Tells what has changed, or writes it: some of it at a time, as orders are to be obeyed in between.
    pub(super) fn tell(&mut self, reports: &Ringer<Report>) {
        self.has_more = false;
        for _ in 0..MOST_LESSONS {
            let Some(lesson) = self.routes.lesson() else { return };
            if let Some(table) = &self.table {
                write(table, lesson, reports);
                self.routes.has_learned();
            } else {
                reports.send(Report::Lesson(lesson));
            }
        }
        self.has_more = self.table.is_some();
    }

    /// Looks which of zebra's former routes the kernel still has, when zebra has nothing more to say.
    fn dump(&mut self, mirror: &Mirror, now: u64) {
        if self.is_busy || now < self.next_dump || !self.routes.session.wants_dump() {
            return;
        }
        let rib = self.routes.session.rib_mut();
        let whole = mirror.kernel().each::<Route>(&mut |route| rib.seen_in_kernel(&route));
        self.routes.session.dumped(whole.unwrap_or(false));
        self.routes.has_changed();
        self.next_dump = now + DUMPS;
    }

    /// When there is something to do, in milliseconds.
    pub(super) fn due(&self, daemons: &Daemons, now: u64) -> Option<u64> {
        let busy = self.is_busy.then_some(now);
        let dump = self.routes.session.wants_dump().then_some(self.next_dump);
        let settling = self.settling.as_ref().map(|settling| settling.at);
        let bfd = self.bfd.due(daemons.running());
        let more = self.has_more.then_some(now);
        [busy, dump, settling, bfd, more].into_iter().flatten().min()
    }

    /// Descriptor to poll for writing, while answers wait for zebra.
    pub(super) fn blocked(&self) -> Option<BorrowedFd<'_>> {
        self.zebra.as_ref()?.blocked(&self.routes.session)
    }

    /// Descriptors to poll for reading.
    pub(super) fn watched(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.zebra
            .iter()
            .flat_map(Zebra::descriptors)
            .chain(self.bfd.watched())
            .chain([self.neighbours.watched()])
    }
}

/// Writes what was found into the table of a group. The data plane is told the rest, which is no route.
pub(super) fn write(table: &GroupRoutes, lesson: Lesson, reports: &Ringer<Report>) {
    let late = table.learn(&lesson) as u64;
    reports.send(Report::Written { late, epoch: table.epoch(), is_whole: lesson.ends });
    let Lesson { addresses, macs, .. } = lesson;
    if addresses.is_some() || macs.is_some() {
        reports.send(Report::Lesson(Lesson { addresses, macs, ..Lesson::default() }));
    }
}

#[cfg(test)]
mod tests;
