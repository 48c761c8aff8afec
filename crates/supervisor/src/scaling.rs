//! `scale` of a group: its number of members that are awake follows the load ([`group::scale`]).
//!
//! The load of a member is that of its busiest thread: what a frame costs it, of the passes that were timed, times the frames that it has
//! moved. Polling in vain is not among it. Frames that are lost before the members ask for one more, whatever that says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use api::{Counters, Request, Ticket};
use config::{Group, Plan, Scale};
use group::scale::{Rules, WHOLE};
use group::{Bounds, Controller, Load};
use telemetry::Kind;

use super::Supervisor;
use super::change::{QueuedRequest, RequestedChange};
use super::costs;
use super::parking::Naps;
use super::request_router::Requester;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);

/// What follows the load.
#[derive(Default)]
pub(super) struct Scaling {
    /// By group.
    controllers: BTreeMap<String, (Scale, Controller)>,
    /// What was counted at the last look.
    last: Option<Counters>,
    /// When the next one is.
    due: Option<Instant>,
    /// What moments are counted from.
    began: Option<Instant>,
    is_asked: bool,
    /// The number that was told last, by group.
    told: BTreeMap<String, u32>,
    /// What parked members save.
    naps: Naps,
}

fn bounds(scale: Scale) -> Bounds {
    Bounds { min: scale.min as usize, max: scale.max as usize, target: scale.target.into() }
}

/// What the members of a group do between two readings, where the time-stamp counter has so many cycles in a second.
fn load(group: &Group, (before, after): (&Counters, &Counters), hertz: f64) -> Load {
    let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 * 1e-9;
    let grown = |name: &str| {
        let value = |counters: &Counters| counters.counters.get(name).copied().unwrap_or(0);
        value(after).saturating_sub(value(before)) as f64
    };
    // Cycles of all frames of a thread, as a part of those that it could have had.
    let busy = |thread: &str, frames: f64| {
        let timed = grown(&format!("{thread}.work.frames"));
        let each = if timed > 0.0 { grown(&format!("{thread}.work.cycles")) / timed } else { 0.0 };
        each * frames / (hertz * seconds).max(1.0)
    };
    let member = |number: u32| {
        let name = group.member(number);
        let thread = |(thread, _): &(String, _)| {
            let own = thread.split_once('/').map_or("", |(_, own)| own);
            let moved = if own.starts_with("vcpu") {
                format!("{name}.{own}.forwarded")
            } else {
                format!("{name}/{own}.frames")
            };
            busy(&format!("{name}/{own}"), grown(&moved))
        };
        group.pattern.threads().iter().map(thread).fold(0.0, f64::max).min(1.0)
    };
    let busy: f64 = (0..group.members).map(member).sum();
    let is_losing = losses(group).any(|name| grown(&name) > 0.0);
    Load { busy: (busy * WHOLE as f64).round() as u64, is_losing }
}

/// Names of the counters of frames that were lost because members did not fetch them in time: before a NIC of the group, and of members.
fn losses(group: &Group) -> impl Iterator<Item = String> {
    let before = ["tap.kernel.drop_full", "queue.drop_full", "balancer.drop_full"];
    group.pattern.nics.iter().flat_map(move |nic| {
        let of_link = before.map(|what| format!("{}.{}.{what}", group.name, nic.name));
        let of_member = move |number| format!("{}.{}.rx.drop_no_buffer", group.member(number), nic.name);
        of_link.into_iter().chain((0..group.members).map(of_member))
    })
}

impl Scaling {
    /// How many members each group is to have awake whose number is another one now.
    fn wanted(
        &mut self,
        plan: &Plan,
        counters: &Counters,
        hertz: f64,
        now: Duration,
    ) -> Vec<(String, u32, u64)> {
        let mut wanted = Vec::new();
        let before = self.last.replace(counters.clone());
        self.controllers.retain(|name, _| plan.group(name).is_some_and(|group| group.scale.is_some()));
        for group in &plan.groups {
            let (Some(scale), Some(before)) = (group.scale, &before) else { continue };
            let fresh = || (scale, Controller::new(bounds(scale), Rules::default()));
            let (known, controller) = self.controllers.entry(group.name.clone()).or_insert_with(fresh);
            if *known != scale {
                *known = scale;
                controller.set_bounds(bounds(scale));
            }
            let load = load(group, (before, counters), hertz);
            let members = controller.wanted(group.awake() as usize, load, now) as u32;
            if members != group.awake() {
                wanted.push((group.name.clone(), members, load.busy));
            }
        }
        wanted
    }
}

impl Supervisor {
    /// Looks at the load of groups that follow it, where it is time to.
    pub(super) fn attend_scaling(&mut self, now: Instant) {
        // What a spare member saves is of no interest.
        let is_watched = |group: &Group| group.scale.is_some() || group.parked > group.spares();
        if !self.running.plan.groups.iter().any(is_watched) && self.scaling.naps.is_empty() {
            self.scaling = Scaling::default();
            return;
        }
        if self.may_look_at_load() && self.scaling.due.is_none_or(|due| now >= due) {
            self.scaling.is_asked = true;
            self.scaling.due = Some(now + LOOK);
            self.ask_all(Request::Counters { router: None }, Requester::Scaling, now);
        }
    }

    /// Whether nobody looks at it, or is changing how many members there are.
    fn may_look_at_load(&self) -> bool {
        let is_up = self.lifecycle.was_up && self.is_up();
        is_up && !self.scaling.is_asked && self.changes.is_idle() && self.rolling.is_none()
    }

    /// When it is time to.
    pub(super) fn scaling_due(&self) -> Option<Instant> {
        self.scaling.due.filter(|_| self.may_look_at_load())
    }

    /// Nobody has said what was counted.
    pub(super) fn scaling_is_not_told(&mut self) {
        self.scaling.is_asked = false;
        self.scaling.last = None;
    }

    /// Has groups have as many members as their load needs.
    pub(super) fn scale(&mut self, counters: &Counters, now: Instant) {
        self.scaling.is_asked = false;
        let began = *self.scaling.began.get_or_insert(now);
        let passed = now.saturating_duration_since(began);
        for (member, line) in self.scaling.naps.look(&self.running.plan, counters) {
            self.tell_of(&member, Kind::Notice, line, now);
        }
        let wanted = self.scaling.wanted(&self.running.plan, counters, costs::hertz(), passed);
        for (name, members, busy) in wanted {
            let Some(group) = self.running.plan.group(&name).cloned() else { continue };
            let load = busy as f64 / WHOLE as f64;
            let what = format!("{members} members instead of {}, for a load of {load:.2}", group.awake());
            let wanted = RequestedChange::awake(&group, members);
            // What is refused is tried again and again, and told once.
            if self.scaling.told.insert(name.clone(), members) != Some(members) {
                self.tell_of(&name, Kind::Notice, what, now);
            }
            self.want(Ticket::NOBODY, QueuedRequest::Change(wanted), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(members: u32) -> Plan {
        let text = format!(
            "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = {members}\nscale = {{ min = 1, max = 4 }}\n\
             [[group.nic]]\nname = 'x'\nattach = 'tap:x'\n"
        );
        config::parse(&text, "f.toml").expect("a good file")
    }

    /// After so many seconds in which each vCPU was busy for this part of its time, in thousandths.
    fn counters(seconds: u64, busy: &[u64]) -> Counters {
        let mut counters = BTreeMap::new();
        for (number, busy) in busy.iter().enumerate() {
            let frames = 1000 * busy * seconds;
            counters.insert(format!("core_{number}.vcpu0.forwarded"), frames);
            counters.insert(format!("core_{number}/vcpu0.work.frames"), frames / 8);
            counters.insert(format!("core_{number}/vcpu0.work.cycles"), frames / 8 * 1000);
        }
        Counters { at_ns: seconds * 1_000_000_000, counters, ..Counters::default() }
    }

    #[test]
    fn the_load_is_what_frames_cost() {
        let (plan, hertz) = (plan(2), 1e9);
        let between = |busy: &[u64]| {
            let nothing: Vec<u64> = busy.iter().map(|_| 0).collect();
            load(&plan.groups[0], (&counters(1, &nothing), &counters(1 + 1, busy)), hertz).busy
        };
        // Of two seconds' frames in one.
        assert_eq!(between(&[200, 100]), 2 * 300);
        assert_eq!(between(&[0, 0]), 0);
        assert_eq!(between(&[900, 900]), 2000, "no thread is busier than its time");
    }

    #[test]
    fn members_follow_the_load() {
        let mut scaling = Scaling::default();
        let mut look = |members: u32, second: u64, busy: &[u64]| {
            let now = Duration::from_secs(second);
            scaling.wanted(&plan(members), &counters(second, busy), 1e9, now)
        };
        assert!(look(1, 1, &[950]).is_empty());
        assert!(look(1, 2, &[950]).is_empty(), "not at once");
        let more = look(1, 3, &[950]);
        assert_eq!(more, [("core".to_owned(), 2, 950)]);
        for second in 4..9 {
            assert!(look(2, second, &[100, 100]).is_empty());
        }
        let fewer = (9..40).map(|second| look(2, second, &[100, 100])).find(|wanted| !wanted.is_empty());
        assert_eq!(fewer.map(|wanted| wanted[0].1), Some(1));
    }

    /// As [`counters`], and so many frames were lost until then, as this counts.
    fn with_lost(seconds: u64, busy: &[u64], (name, lost): (&str, u64)) -> Counters {
        let mut counters = counters(seconds, busy);
        counters.counters.insert(name.to_owned(), lost);
        counters
    }

    #[test]
    fn frames_lost_before_members_are_a_loss_and_what_is_lost_elsewhere_is_none() {
        let plan = plan(2);
        let is_losing = |name: &str, lost: (u64, u64)| {
            let (before, after) =
                (with_lost(1, &[0, 0], (name, lost.0)), with_lost(2, &[9, 9], (name, lost.1)));
            load(&plan.groups[0], (&before, &after), 1e9).is_losing
        };
        for name in [
            "core.x.tap.kernel.drop_full",
            "core.x.queue.drop_full",
            "core.x.balancer.drop_full",
            "core_1.x.rx.drop_no_buffer",
        ] {
            assert!(is_losing(name, (3, 4)), "{name}");
            assert!(!is_losing(name, (4, 4)), "{name} stands still");
            assert!(!is_losing(name, (4, 1)), "{name} began anew");
        }
        // Behind the members, of a member that there is none of, of a frame that no member can take, and of others.
        for name in [
            "core.x.tap.write.drop_full",
            "core_9.x.rx.drop_no_buffer",
            "core.x.tap.read.drop_too_long",
            "edge.x.queue.drop_full",
        ] {
            assert!(!is_losing(name, (3, 4)), "{name}");
        }
    }

    #[test]
    fn a_member_that_is_not_busy_gets_company_while_frames_are_lost() {
        let mut scaling = Scaling::default();
        let mut look = |second: u64, lost: u64| {
            let counters = with_lost(second, &[100], ("core.x.tap.kernel.drop_full", lost));
            scaling.wanted(&plan(1), &counters, 1e9, Duration::from_secs(second))
        };
        assert!(look(1, 0).is_empty());
        assert!(look(2, 10).is_empty(), "not at once");
        assert_eq!(look(3, 20), [("core".to_owned(), 2, 100)]);
    }
}
