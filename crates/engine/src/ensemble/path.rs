//! The paths between balancers that are virtual machines and members: in each round probes enter and leave by each link, through its
//! carrier and different members in turn. If none comes back although the balancer itself forwards, the path behind it is cut, and others
//! carry its links. It is tried again after a pause that doubles with each failure.

use std::time::Duration;

use group::{Member as Number, State, Through, probe};

use super::front::SILENT;
use super::machines::Machines;
use super::round::Board;
use super::seat::Aside;
use super::{Core, News};

/// Number of probes that test the path and belong to no member's round.
pub(super) const OF_PATH: u32 = u32::MAX;
/// Members tested per round and link: enough that some probes come back even if queues are full.
const ASKED: usize = 3;
/// Pause without links of a balancer after the path behind it was cut for the first time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// State of the path behind a balancer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    /// End of its pause without links; `None`: it may have some.
    until: Option<Duration>,
    /// Duration of the last pause, and when it was over.
    pause: Duration,
    over: Duration,
}

impl Path {
    /// Starts a pause because the path is cut.
    fn cut(&mut self, now: Duration) {
        let is_again = now.saturating_sub(self.over) < LONGEST_PAUSE;
        self.pause = if is_again { self.pause * 2 } else { FIRST_PAUSE }.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.until = Some(now + self.pause);
    }

    /// Returns true, once, if its pause is over.
    fn is_over(&mut self, now: Duration) -> bool {
        let is_over = self.until.is_some_and(|until| now >= until);
        if is_over {
            (self.until, self.over) = (None, now);
        }
        is_over
    }
}

impl Core {
    /// Sends probes through some of the members that get frames; each is to come back by the link that it entered by.
    pub(super) fn ask_paths(&self, board: &Board, now: Duration) {
        let Some(machines) = self.machines.as_ref().filter(|_| !self.links.is_empty()) else { return };
        // Members that are starting may not forward yet.
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

    /// Takes the links for a while from balancers behind which the path is cut, if another one serves, and takes back those whose pause is
    /// over.
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
