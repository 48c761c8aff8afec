//! Descriptors and deadlines that the event loop waits for.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::plane::Plane;
use super::router_process::RouterProcess;
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
        fds.extend(self.lifecycle.plane.iter().flat_map(Plane::watched).map(add));
        let ends = self.children.watched().chain(self.killed.watched());
        fds.extend(ends.map(|fd| add((fd, PollFlags::IN))));
        fds.extend(self.resources.bells().map(|fd| add((fd, PollFlags::IN))));
        if self.is_up() {
            let asked = self.brokers().flat_map(|broker| broker.asked(now));
            fds.extend(asked.map(|fd| add((fd, PollFlags::IN))));
        }
        fds.extend(
            self.isolated
                .values()
                .filter_map(|isolated| isolated.lifecycle.plane.as_ref())
                .flat_map(Plane::watched)
                .map(add),
        );
        fds.extend(self.threads().map(|fd| add((fd, PollFlags::IN))));
        fds.extend(self.lock.watched().map(|fd| add((fd, PollFlags::IN))));
        fds.extend(self.request_router.server.descriptors().into_iter().map(add));
        fds.extend(self.metrics.watched().map(add));
        let outputs = self.events.waiting().into_iter().chain(self.display.waiting());
        fds.extend(outputs.map(|fd| add((fd, PollFlags::OUT))));
        let timeout = Timespec::try_from(self.time_until_due(now)).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Memory is short for the moment: attend to everything, but not in a tight loop.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }

    /// Event descriptors of threads that have finished work whose result the loop continues with.
    fn threads(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let mended = self.link_repair.watched().filter(|_| self.may_mend());
        let (links, changes) = (self.link_monitor.watched(), self.changes.watched());
        let kernels = self.kernels.watched();
        let all = [self.resources.watched(), self.link_jobs.watched(), links, mended, changes, kernels];
        all.into_iter().flatten().chain(self.controls.watched())
    }

    /// Time until the next deadline.
    pub(super) fn time_until_due(&self, now: Instant) -> Duration {
        let due = [
            self.lifecycle.again.filter(|_| self.may_start()),
            self.times.tick,
            self.times.end,
            self.times.ending,
            self.metrics.deadline(),
            self.placement.due(),
            self.accounting.due(),
            self.lock.due(),
            self.ceilings.due(),
            self.kernels.due(),
            self.gathers_due(),
            self.rolling_due(),
            self.scaling_due(),
            self.spares_due(),
            self.killed.due(),
            self.children.killed.due(),
        ];
        // Without a data plane none of the routers' processes is started.
        let again = |isolated: &RouterProcess| isolated.lifecycle.again.filter(|_| self.is_up());
        let lives = self.isolated.values().map(|isolated| &isolated.lifecycle).chain([&self.lifecycle]);
        let planes = lives.filter_map(|lifecycle| lifecycle.plane.as_ref());
        let planes = planes.flat_map(|plane| [plane.due(), plane.work_due(now), plane.stderr.due()]);
        let brokers = self.brokers().map(|broker| broker.due(now).filter(|_| self.is_up()));
        let left = due
            .into_iter()
            .chain(self.isolated.values().map(again))
            .chain(planes)
            .chain(brokers)
            .flatten()
            .min()
            .map(|due| due.saturating_duration_since(now));
        left.map_or(SECOND, |left| left.min(SECOND)).min(self.request_router.server.patience())
    }
}
