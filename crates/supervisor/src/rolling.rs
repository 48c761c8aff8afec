//! `ringroad restart GROUP`: all members of a group are started anew, one after the other, each when the one before serves again
//! ([`group::Rolling`]). A member that is about to be restarted gets no new frames first, and has a moment for those that it has.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use api::{Answer, Request, RouterStatus, Ticket};
use config::Plan;
use group::rolling::Rules;
use group::{Member, Roster, Step, member::Event};
use link::ToPlane;

use super::Supervisor;
use super::request_router::Requester;

/// Between two looks at the members.
const LOOK: Duration = Duration::from_millis(50);
/// What a member has for the frames in its rings.
const DRAIN: Duration = Duration::from_millis(100);
/// For how long a member may not have said that it leaves, after it was told to: the data plane may be making other changes.
const HEEDS: Duration = Duration::from_secs(10);

/// A restart that is under way.
pub(super) struct Rolling {
    ticket: Ticket,
    group: String,
    began: Instant,
    rolling: group::Rolling,
    /// When members are looked at next.
    due: Instant,
    /// Whether somebody was asked how they are, and has not answered yet.
    is_asked: bool,
    /// A member that was told to leave, and since when; nothing else happens before it says so, is removed, or was waited for long
    /// enough.
    leaving: Option<(Member, Instant)>,
    /// A kernel router that is being started anew, and gets frames again when that is done.
    restarting: Option<String>,
    restarted: usize,
}

impl Rolling {
    /// Whether a member was told to leave that is there, and has not said yet that it does.
    fn waits_for_word(&self, roster: &Roster, now: Instant) -> bool {
        let Some((member, since)) = self.leaving else { return false };
        let has_said = roster.state(member).is_none_or(|state| state == group::State::Leaving);
        !has_said && now.saturating_duration_since(since) < HEEDS
    }
}

/// How members are, as the data plane tells it.
fn roster(group: &str, routers: &[RouterStatus]) -> Roster {
    let mut roster = Roster::default();
    for router in routers {
        let number = router.name.strip_prefix(group).and_then(|rest| rest.strip_prefix('_')?.parse().ok());
        let (Some(number), Some(told)) = (number.map(Member), router.member.as_deref()) else { continue };
        roster.add(number, 1, Duration::ZERO);
        let events: &[Event] = match told.split(',').next() {
            Some("serving") => &[Event::Answers],
            Some("suspect") => &[Event::Answers, Event::Missed],
            Some("parked") => &[Event::Answers, Event::Park],
            Some("leaving") => &[Event::Leave],
            Some("dead") => &[Event::Ended],
            _ => &[],
        };
        for event in events {
            // Each leads to another state.
            let _ = roster.note(number, *event, Duration::ZERO);
        }
    }
    roster
}

/// Why a group cannot be restarted now.
fn check(plan: &Plan, name: &str) -> Result<()> {
    let Some(group) = plan.group(name) else { bail!("there is no group {name:?}") };
    if group.members < 2 {
        let key = group.members_key();
        bail!("group {name} has one member, and none could forward meanwhile: set {key}=2 first");
    }
    if group.awake() < 2 {
        let key = config::GroupKind::AWAKE_KEY;
        bail!("group {name} has one member awake, and none could forward meanwhile: set {key}=2 first");
    }
    if plan.members(name).any(config::Router::is_stopped) {
        bail!("group {name}: a member is stopped: start it first");
    }
    Ok(())
}

impl Supervisor {
    /// A client wants all members of a group to be started anew.
    pub(super) fn restart_group(&mut self, ticket: Ticket, name: &str, now: Instant) {
        let refusal = match check(&self.running.plan, name) {
            Err(error) => Some(error),
            Ok(()) if self.rolling.is_some() => {
                Some(anyhow!("a group is restarted already: try again later"))
            }
            Ok(()) if !self.is_up() => Some(anyhow!("{}: try again in a second", self.why_not_up())),
            Ok(()) => None,
        };
        if let Some(error) = refusal {
            return self.reply(ticket, Err(api::Error::new(format!("{error:#}"))), now);
        }
        let mut members = Roster::default();
        let numbers = self.running.plan.members(name).filter_map(|router| Some(router.membership()?.1));
        numbers.for_each(|number| members.add(Member(number as u16), 1, Duration::ZERO));
        self.rolling = Some(Rolling {
            ticket,
            group: name.to_owned(),
            began: now,
            rolling: group::Rolling::new(&members, Rules { drain: DRAIN, ..Rules::default() }),
            due: now,
            is_asked: false,
            leaving: None,
            restarting: None,
            restarted: 0,
        });
    }

    /// Asks how members are, where it is time to.
    pub(super) fn attend_rolling(&mut self, now: Instant) {
        if self.rolling.is_some() && !self.is_up() {
            let why = self.why_not_up();
            return self
                .end_rolling(Err(anyhow!("{why}: the members that are left were not restarted")), now);
        }
        let Some(rolling) = &mut self.rolling else { return };
        if !rolling.is_asked && now >= rolling.due {
            rolling.is_asked = true;
            rolling.due = now + LOOK;
            self.ask_all(Request::Ps {}, Requester::Rolling, now);
        }
    }

    /// When that is.
    pub(super) fn rolling_due(&self) -> Option<Instant> {
        self.rolling.as_ref().filter(|rolling| !rolling.is_asked).map(|rolling| rolling.due)
    }

    /// Nobody has said how members are.
    pub(super) fn rolling_is_not_told(&mut self) {
        self.rolling.iter_mut().for_each(|rolling| rolling.is_asked = false);
    }

    /// Goes on, now that it is known how members are.
    pub(super) fn roll(&mut self, routers: &[RouterStatus], now: Instant) {
        let Some(rolling) = &mut self.rolling else { return };
        rolling.is_asked = false;
        let roster = roster(&rolling.group, routers);
        if rolling.waits_for_word(&roster, now) {
            return;
        }
        let leaving = rolling.leaving;
        let is_empty = |_| leaving.is_some_and(|(_, since)| now.saturating_duration_since(since) >= DRAIN);
        let name = |member: Member| format!("{}_{}", rolling.group, member.0);
        let passed = now.saturating_duration_since(rolling.began);
        match rolling.rolling.step(&roster, passed, is_empty) {
            Step::Wait => {}
            Step::Drain(member) => {
                let router = name(member);
                rolling.leaving = Some((member, now));
                self.say_to(None, &ToPlane::Drain { router, is_on: true }, Vec::new(), now);
            }
            Step::Restart(member) => {
                let router = name(member);
                rolling.leaving = None;
                rolling.restarted += 1;
                self.restart_member(router, now);
            }
            Step::Done => {
                let message =
                    format!("group {}: {} members were started anew", rolling.group, rolling.restarted);
                self.end_rolling(Ok(message), now);
            }
            Step::Lend(_) | Step::Return(_) => {
                let why = "no other member serves, and the rest was not restarted: try again when one does";
                self.end_rolling(Err(anyhow!(why)), now);
            }
            Step::Failed(member) => {
                let why = format!("{} does not come back, and the rest was not restarted", name(member));
                self.end_rolling(Err(anyhow!(why)), now);
            }
        }
    }

    /// Ends a member and has it started at once; it is watched again from then on.
    fn restart_member(&mut self, router: String, now: Instant) {
        let request = Request::Restart { router: router.clone() };
        if self.is_for_kernel(&request) {
            self.rolling.iter_mut().for_each(|rolling| rolling.restarting = Some(router.clone()));
            return self.request_kernel(Ticket::NOBODY, request, now);
        }
        if let Some(isolated) = self.isolated.get_mut(&router) {
            let plane = isolated.lifecycle.plane.take();
            isolated.counted.clear();
            isolated.make_due();
            self.placement.forget(Some(&router));
            self.forget_questions_of(Some(&router), now);
            plane.into_iter().for_each(|plane| self.kill(Some(&router), plane, now));
        } else {
            self.ask_plane(request, Requester::Rolling, now);
        }
        self.say_to(None, &ToPlane::Drain { router, is_on: false }, Vec::new(), now);
    }

    /// A kernel router was started anew, or could not be: if it is the member that is waited for, it is watched again.
    pub(super) fn kernel_was_restarted(&mut self, router: &str, now: Instant) {
        let restarting = self.rolling.as_mut().map(|rolling| &mut rolling.restarting);
        if let Some(router) = restarting.and_then(|own| own.take_if(|own| own.as_str() == router)) {
            self.say_to(None, &ToPlane::Drain { router, is_on: false }, Vec::new(), now);
        }
    }

    fn end_rolling(&mut self, outcome: Result<String>, now: Instant) {
        let Some(Rolling { ticket, group, leaving, restarting, .. }) = self.rolling.take() else { return };
        let leaving = leaving.map(|(member, _)| format!("{group}_{}", member.0));
        for router in leaving.into_iter().chain(restarting) {
            self.say_to(None, &ToPlane::Drain { router, is_on: false }, Vec::new(), now);
        }
        let outcome = outcome.map(|message| Answer::Done { message });
        self.reply(
            ticket,
            outcome.map_err(|error| api::Error::new(format!("group {group}: {error:#}"))),
            now,
        );
    }
}

#[cfg(test)]
mod tests {
    use api::State;

    use super::*;

    fn member(name: &str, told: &str) -> RouterStatus {
        RouterStatus {
            name: name.to_owned(),
            engine: "kvm".to_owned(),
            state: State::Running,
            since_ms: 0,
            restarts: 0,
            reason: None,
            pid: None,
            member: Some(told.to_owned()),
            threads: Vec::new(),
        }
    }

    #[test]
    fn members_are_as_they_are_told() {
        let routers = [
            member("core_0", "serving, 4 of 8 queues"),
            member("core_1", "leaving, 0 of 8 queues"),
            member("core_2", "starting, 0 of 8 queues"),
            member("core_3", "suspect, 0 of 8 queues"),
            member("core_4", "parked, 0 of 8 queues"),
            member("core_10", "dead, 0 of 8 queues"),
            member("side_0", "serving, 8 of 8 queues"),
        ];
        let states: Vec<(u16, &str)> =
            roster("core", &routers).iter().map(|(member, state)| (member.0, state.name())).collect();
        let wanted =
            [(0, "serving"), (1, "leaving"), (2, "starting"), (3, "suspect"), (4, "parked"), (10, "dead")];
        assert_eq!(states, wanted);
    }

    #[test]
    fn a_member_that_was_told_to_leave_is_waited_for_while_it_is_there_and_not_for_ever() {
        let since = Instant::now();
        let rolling = Rolling {
            ticket: Ticket::NOBODY,
            group: "core".to_owned(),
            began: since,
            rolling: group::Rolling::new(&Roster::default(), Rules::default()),
            due: since,
            is_asked: false,
            leaving: Some((Member(1), since)),
            restarting: None,
            restarted: 0,
        };
        let waits = |states: &[&str], later: Duration| {
            let named = |(number, state): (usize, &&str)| member(&format!("core_{number}"), state);
            let routers: Vec<RouterStatus> = states.iter().enumerate().map(named).collect();
            rolling.waits_for_word(&roster("core", &routers), since + later)
        };
        let serving = ["serving, 4 of 8 queues"; 2];
        assert!(waits(&serving, Duration::ZERO), "what is known of it is from before");
        assert!(!waits(&["serving, 8 of 8 queues", "leaving, 0 of 8 queues"], Duration::ZERO));
        assert!(!waits(&serving[..1], Duration::ZERO), "it was removed");
        assert!(!waits(&serving, HEEDS));
    }

    #[test]
    fn a_group_of_one_is_not_restarted() {
        let file = |members: u32| {
            let text = format!(
                "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = {members}\n[[group.nic]]\nname = 'x'\n\
                 attach = 'tap:x'\n"
            );
            config::parse(&text, "f.toml").expect("a good file")
        };
        assert!(check(&file(2), "core").is_ok());
        let told = check(&file(1), "core").expect_err("it has one").to_string();
        assert_eq!(told, "group core has one member, and none could forward meanwhile: set members=2 first");
        let asleep = file(2).with_awake("core", 1).expect("it may be");
        let told = check(&asleep, "core").expect_err("one is parked").to_string();
        assert!(told.ends_with("set awake=2 first"), "{told}");
        assert!(check(&file(2), "edge").is_err());
    }
}
