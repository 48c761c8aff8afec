//! Rounds: probes are sent, members are judged, queues are reassigned. Traffic moves in the same round, and the code that starts and ends
//! members is told.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use config::Spread;
use group::health::Rules;
use group::member::Event;
use group::{Assignment, Judge, Member as Number, Pace, Probe, Roster, Shares, State, Through, probe};

use super::machines::Machines;
use super::seat::{Aside, Member};
use super::service::Service;
use super::{Core, EnsembleCounters, Ensembles, News};

/// Time after which a member that forwards nothing is restarted: longer than a busy host keeps it from a CPU.
const SILENT: Duration = Duration::from_secs(2);
/// Time that a parked member has to wake before the next one is woken in its place.
const WAKES: Duration = Duration::from_secs(1);
// One bit for each NIC of a member or of a balancer.
const _: () = assert!(probe::MOST_NICS as u32 <= u32::BITS && bootinfo::MAX_NICS as u32 <= u32::BITS);
/// Rounds after which a balancer is suspect: one less than for members, which would be blamed for it with the third.
const MISSED_BY_BALANCER: u32 = 2;

/// Stands for no member in place of a number.
pub(super) const NO_LEAD: u32 = u32::MAX;

/// Existing members by number.
type Members = BTreeMap<u16, Arc<Member>>;

/// States of the members or the balancers of a group, and what is assigned to them.
pub(super) struct Board {
    /// Part of the report about one that forwards nothing, or is gone.
    leaves: &'static str,
    roster: Roster,
    judge: Judge,
    /// The last probe of each.
    under_way: BTreeMap<Number, Last>,
    /// Assignment of the queues of each link to members.
    owners: Vec<Assignment>,
    /// Shares by which they were assigned.
    shares: Shares,
    service: Service,
    news: Vec<(Number, News)>,
}

/// The last probe of a member.
pub(super) struct Last {
    pub(super) number: u32,
    /// Frames that the member had forwarded then.
    pub(super) passed: u64,
    /// NICs that it entered, one bit each; `None`: it was not sent, because frames were forwarded.
    pub(super) entered: Option<u32>,
}

impl Board {
    /// Creates a board without members, for links with these numbers of queues.
    pub(super) fn new(queues: impl Iterator<Item = usize>) -> Self {
        Self {
            leaves: "what it had goes to other members",
            roster: Roster::default(),
            judge: Judge::new(Rules { silent: SILENT, ..Rules::default() }),
            under_way: BTreeMap::new(),
            owners: queues.map(Assignment::new).collect(),
            shares: Shares::new(),
            service: Service::default(),
            news: Vec::new(),
        }
    }

    /// Creates a board without balancers.
    pub(super) fn of_balancers() -> Self {
        let rules = Rules { silent: SILENT, missed: MISSED_BY_BALANCER, ..Rules::default() };
        let leaves = "its links go to other balancers";
        Self { leaves, judge: Judge::new(rules), ..Self::new(std::iter::empty()) }
    }

    /// Returns the state of one.
    pub(super) fn state(&self, number: Number) -> Option<State> {
        self.roster.state(number)
    }

    /// Returns true if the one with this number forwards, so that it gets frames.
    pub(super) fn serves(&self, number: u16) -> bool {
        self.state(Number(number)) == Some(State::Serving)
    }

    /// Returns the numbers of those that may get frames: those that serve, else suspects, else those that leave.
    pub(super) fn able(&self) -> impl Iterator<Item = u16> + use<> {
        self.roster.shares().into_keys().map(|number| number.0)
    }

    /// Returns when the next round is due, if any is watched.
    pub(super) fn due(&self) -> Option<Duration> {
        self.judge.due()
    }

    /// Watches one again that was to leave.
    pub(super) fn restart(&mut self, number: Number, passed: u64, now: Duration) {
        if self.state(number) == Some(State::Leaving) {
            self.note(number, Event::Stay, now);
            self.judge.watch(number, Pace::Starting, passed, now);
        }
    }

    /// Adds an event of one.
    pub(super) fn tell(&mut self, number: Number, news: News) {
        self.news.push((number, news));
    }

    /// Notes the probe of a round, sent or not needed.
    pub(super) fn send(&mut self, number: Number, last: Last) {
        self.under_way.insert(number, last);
    }

    /// Returns the number of its last probe.
    pub(super) fn last(&self, number: Number) -> Option<u32> {
        self.under_way.get(&number).map(|last| last.number)
    }

    /// Takes the events since the last call.
    pub(super) fn take_news(&mut self) -> Vec<(Number, News)> {
        std::mem::take(&mut self.news)
    }

    /// Ends the rounds that are due; returns the probes of the next ones.
    pub(super) fn judge(
        &mut self,
        members: &Members,
        now: Duration,
        counters: &EnsembleCounters,
    ) -> Vec<Probe> {
        let passed = |number: Number| members.get(&number.0).map_or(0, |member| member.passed());
        let round = self.judge.round(now, passed);
        counters.rounds.add(round.probes.len() as u64);
        counters.rounds_excused.add(round.excused as u64);
        for (number, event) in &round.events {
            match event {
                Event::Missed => counters.suspected.add(1),
                Event::Silent => counters.given_up.add(1),
                _ => {}
            }
            self.note(*number, *event, now);
        }
        round.probes
    }

    /// Begins to watch members that are new, or were given up and may come back, and forgets those that are gone; returns their probes.
    pub(super) fn enrol(&mut self, members: &Members, now: Duration) -> Vec<Probe> {
        let gone: Vec<Number> = self
            .roster
            .iter()
            .map(|(number, _)| number)
            .filter(|number| !members.contains_key(&number.0))
            .collect();
        for number in gone {
            self.roster.remove(number);
            self.judge.forget(number);
            self.under_way.remove(&number);
        }
        let mut probes = Vec::new();
        for member in members.values() {
            let number = Number(member.number);
            if member.is_aside() {
                self.part_with(number, now);
                continue;
            }
            let is_new = match self.roster.state(number) {
                None => {
                    self.roster.add(number, 1, now);
                    true
                }
                Some(State::Dead) => self.roster.note(number, Event::Start, now).is_some(),
                Some(_) => false,
            };
            if is_new {
                member.forget_probes();
                probes.push(self.judge.watch(number, Pace::Starting, member.passed(), now));
            }
        }
        probes
    }

    /// Gives a member no frames, and stops probing it.
    pub(super) fn part_with(&mut self, number: Number, now: Duration) {
        self.roster.add(number, 1, now);
        self.judge.forget(number);
        self.under_way.remove(&number);
        self.note(number, Event::Leave, now);
    }

    /// Notes probes that have come back.
    pub(super) fn hear(&mut self, members: &Members, now: Duration) {
        let answered = self.under_way.iter().filter_map(|(number, last)| {
            let (member, entered) = (members.get(&number.0)?, last.entered?);
            let is_in_time = member.has_answered(last.number, entered);
            let probe = if is_in_time { last.number } else { member.last_answered(entered)? };
            Some((*number, probe))
        });
        for (number, probe) in answered.collect::<Vec<_>>() {
            if let Some(event) = self.judge.answered(number, probe) {
                self.note(number, event, now);
            }
        }
    }

    /// Notes members whose process has ended.
    pub(super) fn bury(&mut self, members: &Members, now: Duration) {
        for member in members.values() {
            let number = Number(member.number);
            let is_up =
                matches!(self.roster.state(number), Some(State::Serving | State::Suspect | State::Parked));
            if is_up && member.is_gone() {
                self.judge.forget(number);
                self.under_way.remove(&number);
                self.note(number, Event::Ended, now);
            }
        }
    }

    /// Applies an event to a member's state, and reports the change.
    pub(super) fn note(&mut self, number: Number, event: Event, now: Duration) {
        let since = self.roster.since(number);
        let Some((before, after)) = self.roster.note(number, event, now) else { return };
        let leaves = self.leaves;
        let news = match (before, after) {
            (State::Serving, State::Suspect) => News::Told(format!("it forwards no probe: {leaves}")),
            (State::Serving | State::Suspect | State::Parked, State::Dead) if event == Event::Ended => {
                News::Told(format!("nobody is at its NICs any more: {leaves}"))
            }
            (State::Suspect, State::Serving) => News::Told("it forwards again".to_owned()),
            // One that has started in this round had no frames yet.
            (State::Serving, State::Parked) if since == Some(now) => {
                News::Told("it is up, and parked".to_owned())
            }
            (State::Serving, State::Parked) => News::Told(format!("it is parked: {leaves}")),
            (State::Parked, State::Starting) => News::Told("it wakes".to_owned()),
            (State::Suspect | State::Parked, State::Dead) => {
                News::Silent(format!("it has forwarded nothing for {} s", SILENT.as_secs()))
            }
            _ => return,
        };
        self.news.push((number, news));
    }

    /// Parks the serving members with these numbers, and wakes all others; returns their first probes. For each other member that does not
    /// serve, one of these is kept awake to stand in for it, unless it is known not to serve either.
    fn park(&mut self, parked: &Range<u32>, members: &Members, now: Duration) -> Vec<Probe> {
        let is_to_sleep = |number: Number| parked.contains(&u32::from(number.0));
        let states: Vec<(Number, State)> = self.roster.iter().collect();
        let serving = states
            .iter()
            .filter(|(number, state)| u32::from(number.0) < parked.start && *state == State::Serving);
        let mut lacking = (parked.start as usize).saturating_sub(serving.count());
        let mut probes = Vec::new();
        for (number, state) in states {
            let sleeps = is_to_sleep(number) && lacking == 0;
            if is_to_sleep(number) && self.stands_in(number, state, now) {
                lacking = lacking.saturating_sub(1);
            }
            let (event, pace) = match state {
                State::Serving if sleeps => (Event::Park, Pace::Parked),
                State::Parked if !sleeps => (Event::Wake, Pace::Starting),
                _ => continue,
            };
            let passed = members.get(&number.0).map_or(0, |member| member.passed());
            self.note(number, event, now);
            probes.push(self.judge.watch(number, pace, passed, now));
        }
        probes
    }

    /// Returns true if a member serves in place of another one, or will do so soon.
    fn stands_in(&self, number: Number, state: State, now: Duration) -> bool {
        match state {
            State::Serving | State::Parked => true,
            State::Starting => {
                self.roster.since(number).is_some_and(|since| now.saturating_sub(since) < WAKES)
            }
            State::Suspect | State::Dead | State::Leaving => false,
        }
    }

    /// Reports when no member serves any more, and when members do again.
    fn look_at_service(&mut self) {
        let news = self.service.note(&self.roster);
        self.news.extend(news.map(|(first, line)| (first, News::Told(line))));
    }

    /// Returns true if a probe is needed: forwarded frames are equal evidence.
    pub(super) fn needs(&self, number: Number, passed: u64) -> bool {
        let is_busy = self.under_way.get(&number).is_some_and(|last| last.passed != passed);
        !(is_busy && self.roster.state(number) == Some(State::Serving))
    }
}

impl Core {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the member that advertises the group as a router: the first of those that get frames. Never waits.
    pub(super) fn lead(&self) -> Option<u16> {
        u16::try_from(self.lead.load(Ordering::Relaxed)).ok()
    }

    /// Returns true if a member forwards, so that it gets frames.
    pub(super) fn is_serving(&self, number: u16) -> bool {
        self.board().serves(number)
    }

    /// Ends the rounds that are due, and begins the next ones; returns when to call again, if there are members.
    pub(super) fn round(&self, now: Duration) -> Option<Duration> {
        let due = self.round_of_machines(now);
        let members = self.live();
        let mut board = self.board();
        board.hear(&members, now);
        board.bury(&members, now);
        let mut probes = board.judge(&members, now, &self.counters);
        probes.extend(board.enrol(&members, now));
        probes.extend(self.park(&mut board, &members, now));
        self.counters.links_moved.add_shared(self.balancers.look(now));
        self.deal(&mut board);
        self.tell_machines(now);
        self.send(&mut board, &members, &probes, now);
        self.ask_paths(&board, now);
        self.try_addresses(&mut board, &members, now);
        let own = board.due();
        drop(board);
        let look = self.attend_neighbours(&members, now);
        own.into_iter().chain(due).chain(look).min()
    }

    /// Parks and wakes members, as the load requires; returns their first probes.
    fn park(&self, board: &mut Board, members: &Members, now: Duration) -> Vec<Probe> {
        let parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let probes = board.park(&parked, members, now);
        for probe in &probes {
            let is_parked = board.roster.state(probe.member) == Some(State::Parked);
            let counter = if is_parked { &self.counters.parked } else { &self.counters.woken };
            counter.add(1);
        }
        probes
    }

    /// Sends probes.
    fn send(&self, board: &mut Board, members: &Members, probes: &[Probe], now: Duration) {
        let usable = self.usable(now);
        for Probe { member: number, number: probe } in probes {
            let Some(member) = members.get(&number.0) else { continue };
            let passed = member.passed();
            // A member that has answered once must not be blamed while no balancer forwards its probes.
            let is_asked = self.is_carried() || board.state(*number) != Some(State::Starting);
            let needs = board.needs(*number, passed) && is_asked;
            if needs && board.state(*number) == Some(State::Starting) {
                member.awaited.set(*probe, bits(&usable));
            }
            let entered = needs.then(|| self.probe(member, *probe, &usable));
            board.send(*number, Last { number: *probe, passed, entered });
        }
    }

    /// Returns the NICs that frames can pass: no member is blamed for a pulled cable, or for balancers that forward nothing.
    fn usable(&self, now: Duration) -> Vec<u8> {
        if self.is_carried() { self.usable_cables(now) } else { Vec::new() }
    }

    /// NICs whose cables are in.
    pub(super) fn usable_cables(&self, now: Duration) -> Vec<u8> {
        let links = (0..probe::MOST_NICS).zip(&self.links);
        links.filter(|(_, link)| link.is_usable(now)).map(|(nic, _)| nic).collect()
    }

    /// Returns true if each link that has virtual machines as balancers is carried by one that is not in doubt.
    fn is_carried(&self) -> bool {
        self.fronts().all(|(_, front)| front.is_carried() && !front.is_in_doubt())
    }

    /// Sends a probe into each of these NICs of a member; returns them, one bit each.
    fn probe(&self, member: &Member, number: u32, nics: &[u8]) -> u32 {
        let link = |nic: u8| self.links.get(usize::from(nic));
        let vrf = |nic: u8| link(nic).map_or(0, |link| link.vrf);
        for (nic, out) in probe::ways(nics, vrf) {
            let through = Through { member: Number(member.number), nic, number };
            let from = link(nic).map_or(probe::SOURCE, |link| link.probes_from);
            let octets = self.probes.frame(through, from, out, member.station(nic.into()));
            self.send_through(member, nic.into(), octets);
        }
        bits(nics)
    }

    /// Assigns queues and buckets to the members that serve, if these have changed, or the queues of a link have.
    fn deal(&self, board: &mut Board) {
        board.look_at_service();
        let shares = board.roster.shares();
        let lead = shares.keys().next().map_or(NO_LEAD, |first| first.0.into());
        self.lead.store(lead, Ordering::Relaxed);
        let is_same = shares == board.shares;
        for (link, owners) in self.links.iter().zip(&mut board.owners) {
            let places = link.way.places();
            if is_same && owners.owners().len() == places {
                continue;
            }
            let before =
                if owners.owners().len() == places { owners.clone() } else { Assignment::new(places) };
            let loads = link.way.loads();
            let after = before.dealt(&shares, |place| loads.get(place).copied().unwrap_or(0));
            self.counters.places_moved.add(link.way.deal(&before, &after, &shares));
            *owners = after;
        }
        board.shares = shares;
    }

    /// Sets how balancers spread frames from now on.
    pub(super) fn spread_by(&self, spread: Spread) {
        let mut board = self.board();
        let changed = self.links.iter().filter(|link| link.way.spread_by(spread)).count();
        if changed > 0 {
            // All queues and buckets are assigned anew, as if other members had served before.
            board.shares = Shares::new();
            self.deal(&mut board);
        }
    }

    /// Makes the selected members leave for a reason; returns true if any of them had not left before.
    pub(super) fn leave(&self, why: Aside, is_meant: impl Fn(&str) -> bool) -> bool {
        let (members, now) = (self.live(), self.now());
        let mut board = self.board();
        let meant = members.values().filter(|member| is_meant(&member.name));
        let gone: Vec<Number> = meant
            .inspect(|member| member.set_aside(why))
            .map(|member| Number(member.number))
            .filter(|number| board.roster.state(*number) != Some(State::Leaving))
            .collect();
        gone.iter().for_each(|number| board.part_with(*number, now));
        self.deal(&mut board);
        !gone.is_empty()
    }

    /// Watches the selected members again that were to leave for this reason and for no other one.
    pub(super) fn stay(&self, why: Aside, is_meant: impl Fn(&str) -> bool) {
        let (members, now) = (self.live(), self.now());
        let mut board = self.board();
        for member in members.values().filter(|member| is_meant(&member.name)) {
            member.take_back(why);
            let number = Number(member.number);
            if !member.is_aside() {
                board.restart(number, member.passed(), now);
            }
        }
    }

    /// Takes the events of members and balancers since the last call, with the router of each.
    pub(super) fn take_news(&self) -> Vec<(String, News)> {
        let news = self.board().take_news();
        let members = self.live();
        let named = |(number, news): (Number, News)| Some((members.get(&number.0)?.name.clone(), news));
        let of_machines = self.machines.iter().flat_map(Machines::take_news);
        news.into_iter().filter_map(named).chain(of_machines).collect()
    }

    /// Describes the state of a member in one line, with its part of a link.
    pub(super) fn state_of(&self, number: u16, nic: usize) -> Option<String> {
        let board = self.board();
        let (number, owners) = (Number(number), board.owners.get(nic)?);
        let state = board.roster.state(number)?.name();
        let unit = self.links.get(nic)?.way.unit();
        Some(format!("{state}, {} of {} {unit}", owners.held(number), owners.owners().len()))
    }

    /// Returns the numbers of the members that own the queues, or buckets, of a link, in their order.
    pub(super) fn owners(&self, nic: usize) -> Vec<Option<u16>> {
        let board = self.board();
        let owners = board.owners.get(nic).map_or(&[][..], Assignment::owners);
        owners.iter().map(|owner| owner.map(|member| member.0)).collect()
    }
}

/// Returns these NICs as one bit each.
fn bits(nics: &[u8]) -> u32 {
    nics.iter().fold(0, |bits: u32, nic| bits | (1_u32 << nic))
}

impl Ensembles {
    /// Returns the numbers of the members that own the queues, or buckets, of a NIC of a group, in their order; empty if it does not exist.
    pub(crate) fn owners(&self, group: &str, nic: usize) -> Vec<Option<u16>> {
        let running = self.running();
        // While a group is being changed, the old one comes first.
        let ensemble = running.iter().rfind(|ensemble| ensemble.group.name == group);
        ensemble.map_or_else(Vec::new, |ensemble| ensemble.core.owners(nic))
    }
}
