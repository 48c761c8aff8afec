//! Descriptors and deadlines that the event loop waits for.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use uplink::Passage;

use super::apart::Apart;
use super::plane::Plane;
use super::{SECOND, Supervisor};

impl Supervisor {
    /// Waits until a descriptor is ready or a deadline passes.
    pub(super) fn wait(&self, now: Instant) {
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        if self.stop.is_asked() {
            // It stays readable after the first signal.
            fds.clear();
        }
        let add = |(fd, flags)| PollFd::from_borrowed_fd(fd, flags);
        fds.extend(self.life.plane.iter().flat_map(Plane::watched).map(add));
        let ends = self.children.watched().chain(self.dying.watched());
        fds.extend(ends.map(|fd| add((fd, PollFlags::IN))));
        fds.extend(self.resources.bells().map(|fd| add((fd, PollFlags::IN))));
        if self.is_up() {
            fds.extend(self.resources.passages().flat_map(Passage::asked).map(|fd| add((fd, PollFlags::IN))));
        }
        fds.extend(
            self.apart
                .values()
                .filter_map(|apart| apart.life.plane.as_ref())
                .flat_map(Plane::watched)
                .map(add),
        );
        fds.extend(self.threads().map(|fd| add((fd, PollFlags::IN))));
        fds.extend(self.lock.watched().map(|fd| add((fd, PollFlags::IN))));
        fds.extend(self.desk.server.descriptors().into_iter().map(add));
        fds.extend(self.metrics.watched().map(add));
        let outputs = self.events.waiting().into_iter().chain(self.display.waiting());
        fds.extend(outputs.map(|fd| add((fd, PollFlags::OUT))));
        let timeout = Timespec::try_from(self.patience(now)).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Memory is short for the moment: attend to everything, but not in a tight loop.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }

    /// Event descriptors of threads that have finished work whose result the loop continues with.
    fn threads(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let mended = self.mending.watched().filter(|_| !self.resources.are_away());
        let (links, changes) = (self.watching.watched(), self.changes.watched());
        let all = [self.resources.watched(), self.tending.watched(), links, mended, changes];
        all.into_iter().flatten()
    }

    /// Time until the next deadline.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let due = [
            self.life.again.filter(|_| self.may_start()),
            self.times.tick,
            self.times.end,
            self.times.ending,
            self.metrics.deadline(),
            self.placing.due(),
            self.accounting.due(),
            self.lock.due(),
            self.ceilings.due(),
            self.gathers_due(),
            self.dying.due(),
            self.children.dying.due(),
        ];
        // Without a data plane none of the routers' processes is started.
        let again = |apart: &Apart| apart.life.again.filter(|_| self.is_up());
        let lives = self.apart.values().map(|apart| &apart.life).chain([&self.life]);
        let planes = lives.filter_map(|life| life.plane.as_ref());
        let planes = planes.flat_map(|plane| [plane.due(), plane.work_due(now), plane.stderr.due()]);
        let left = due
            .into_iter()
            .chain(self.apart.values().map(again))
            .chain(planes)
            .flatten()
            .min()
            .map(|due| due.saturating_duration_since(now));
        left.map_or(SECOND, |left| left.min(SECOND)).min(self.desk.server.patience())
    }
}
