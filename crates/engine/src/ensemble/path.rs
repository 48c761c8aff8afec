//! The paths between balancers that are virtual machines and members: each round something goes in and out by each link, through its carrier
//! and one member after the other. Where nothing comes back although the balancer itself passes what it gets, the path behind it is cut, and
//! its links go to others; it is tried again after a time that doubles with each failure.

use std::time::Duration;

use group::{Member as Number, State, Through, probe};

use super::front::SILENT;
use super::machines::Machines;
use super::round::Board;
use super::seat::Aside;
use super::{Core, News};

/// As the number of a probe: it is for the path, and of no member's round.
pub(super) const OF_PATH: u32 = u32::MAX;
/// Members that are asked in a round by each link: enough that some answer come where queues are full.
const ASKED: usize = 3;
/// For how long a balancer is without links after the path behind it was cut for the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// For how long at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// What is known of the path behind a balancer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    /// Until when it is without links; none: it may have some.
    until: Option<Duration>,
    /// For how long it was the last time, and when that was over.
    pause: Duration,
    over: Duration,
}

impl Path {
    /// The path is cut; until when the balancer is without links.
    fn cut(&mut self, now: Duration) {
        let is_again = now.saturating_sub(self.over) < LONGEST_PAUSE;
        self.pause = if is_again { self.pause * 2 } else { FIRST_PAUSE }.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.until = Some(now + self.pause);
    }

    /// Whether its pause is over now.
    fn is_over(&mut self, now: Duration) -> bool {
        let is_over = self.until.is_some_and(|until| now >= until);
        if is_over {
            (self.until, self.over) = (None, now);
        }
        is_over
    }
}

impl Core {
    /// Sends what is to come back by the link that it enters by, through some of the members that get frames.
    pub(super) fn ask_paths(&self, board: &Board, now: Duration) {
        let Some(machines) = self.machines.as_ref().filter(|_| !self.links.is_empty()) else { return };
        // Of those that come up nobody knows yet what they do.
        let able = |number: u16| matches!(board.state(Number(number)), Some(State::Serving | State::Suspect));
        let members: Vec<_> = self.live().into_values().filter(|member| able(member.number)).collect();
        let first = machines.turn(ASKED);
        let usable = self.usable_cables(now);
        machines.note_asked(!members.is_empty());
        for nic in usable {
            let from = self.links.get(usize::from(nic)).map_or(probe::SOURCE, |link| link.probes_from);
            for member in
                members.iter().cycle().skip(first % members.len().max(1)).take(ASKED.min(members.len()))
            {
                let through = Through { member: Number(member.number), nic, number: OF_PATH };
                let octets = self.probes.frame(through, from, nic, member.station(nic.into()));
                self.send_through(member, nic.into(), octets);
            }
        }
    }

    /// Sets balancers aside for a while behind which the path is cut, as far as others can do without them, and has those back whose time
    /// is over.
    pub(super) fn judge_paths(
        &self,
        machines: &Machines,
        board: &mut Board,
        (now, usable): (Duration, &[u8]),
    ) {
        let live = machines.live();
        let mut paths = machines.paths();
        paths.retain(|number, _| live.contains_key(number));
        for (number, path) in paths.iter_mut() {
            let Some(machine) = live.get(number).filter(|_| path.is_over(now)) else { continue };
            machine.take_back(Aside::Path);
            if !machine.is_aside() {
                board.restart(Number(*number), machine.passed(), now);
            }
        }
        let (round, was_asked) = machines.listened(now);
        for (nic, front) in self.fronts() {
            if !was_asked || !usable.contains(&(nic as u8)) {
                front.forget_silence();
                continue;
            }
            let silence = front.listen(round);
            let carrier = front.carrier().filter(|carrier| board.serves(*carrier) && silence >= SILENT);
            let Some(machine) = carrier.and_then(|carrier| live.get(&carrier)) else { continue };
            if live.keys().filter(|other| board.serves(**other)).count() < 2 {
                continue;
            }
            paths.entry(machine.number).or_default().cut(now);
            machine.set_aside(Aside::Path);
            let nic = self.links.get(nic).map_or("", |link| link.nic.as_str());
            let what = format!("nothing comes back from members by {nic}: its links go to other balancers");
            board.part_with(Number(machine.number), now);
            board.tell(Number(machine.number), News::Told(what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_cut_again_and_again_is_tried_less_often() {
        let (mut path, mut now) = (Path::default(), Duration::from_secs(100));
        let mut pauses = Vec::new();
        for _ in 0..8 {
            path.cut(now);
            let until = path.until.expect("it pauses");
            assert!(
                !path.is_over(until - Duration::from_millis(1))
                    && path.is_over(until)
                    && !path.is_over(until)
            );
            pauses.push((until - now).as_secs());
            now = until + Duration::from_millis(200);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32, 32]);
        path.cut(now + LONGEST_PAUSE);
        assert_eq!(path.pause, FIRST_PAUSE, "it was good for long");
    }
}
