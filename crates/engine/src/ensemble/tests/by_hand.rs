//! Rounds at times that the test chooses: members that come up, are late, wake or answer nothing any more.

use super::*;

/// Takes the probes out of a queue that leads into a member, as it forwards them.
fn forwarded(told: &mut dyn Source) -> Vec<[u8; 60]> {
    let mut probes = Vec::new();
    told.drain(BURST, &mut |frames| {
        for frame in frames {
            let mut octets = [0; 60];
            frame.octets().copy_to_slice(&mut octets);
            route(&mut octets);
            probes.push(octets);
        }
    });
    probes
}

/// A member, and the queues into its NICs.
type MemberByHand = (Arc<Member>, [port::IngressSource; 2]);

/// A group whose rounds the test keeps itself, all of them at the same time, and this many members, each with the queues into its NICs.
fn by_hand(group: &Group, members: u16) -> (Arc<Core>, Vec<MemberByHand>) {
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = plan(FILE).switches.iter().map(switch).collect();
    let mut supplies = HostServices::default();
    let core = Ensemble::core(group, (&switches, &mut supplies, None)).expect("it can be had");
    let member = |number: u16| {
        let member = core.add_member(group, (&group.member(number.into()), number)).expect("a member");
        let nics = [0, 1].map(|nic| {
            let (inlet, told) = port::ingress(seat::INLET).expect("a queue");
            member.open(nic, (inlet, None));
            told
        });
        (member, nics)
    };
    let members = (0..members).map(member).collect();
    (core, members)
}

/// A member forwards all probes that wait for it. Returns how often the bell has rung.
fn answers(core: &Core, number: u16, nics: &mut [port::IngressSource; 2]) -> usize {
    let mut rings = 0;
    for (nic, told) in nics.iter_mut().enumerate() {
        for mut octets in forwarded(told) {
            core.note_probe(1 - nic, Some(number), &Frame::new(Bytes::from_slice(&mut octets)));
            rings += usize::from(core.bell.has_rung());
        }
    }
    rings
}

#[test]
fn a_member_that_comes_up_gets_frames_when_its_probes_are_back_and_not_when_the_round_ends() {
    let group = plan(FILE).groups.remove(0);
    let (core, mut members) = by_hand(&group, 1);
    let state = || core.state_of(0, 0).unwrap_or_default();
    core.round(Duration::ZERO);
    assert_eq!(state(), "starting, 0 of 8 queues");
    let mut probes: Vec<[u8; 60]> = members[0].1.iter_mut().flat_map(|told| forwarded(told)).collect();
    assert_eq!(probes.len(), 2, "one into each NIC");
    let mut is_back = |nic: usize| {
        let frame = Frame::new(Bytes::from_slice(&mut probes[nic]));
        core.note_probe(1 - nic, Some(0), &frame);
        core.bell.has_rung()
    };
    assert!(!is_back(0) && !is_back(0), "the other one is missing");
    assert!(is_back(1));
    assert!(!is_back(0) && !is_back(1), "a member cannot ring as often as it likes");
    core.round(Duration::ZERO);
    assert_eq!(state(), "serving, 8 of 8 queues");
    core.follow(&group);
    assert!(core.bell.has_rung(), "who is to wake by another plan need not wait, either");
}

#[test]
fn a_member_whose_probes_come_back_late_is_not_given_up_where_its_rounds_are_late_as_well() {
    let group = plan(FILE).groups.remove(0);
    let (core, mut members) = by_hand(&group, 1);
    let nics = &mut members[0].1;
    core.round(Duration::ZERO);
    assert_eq!(answers(&core, 0, nics), 1);
    let mut on_the_way: Vec<(usize, [u8; 60])> = Vec::new();
    // Each probe comes back after the next one was sent, and each round 10 ms after it was due.
    for round in 1..=300 {
        core.round(Duration::from_millis(20) * round);
        for (nic, octets) in &mut on_the_way {
            core.note_probe(1 - *nic, Some(0), &Frame::new(Bytes::from_slice(octets)));
        }
        let sent = |(nic, told): (usize, &mut port::IngressSource)| {
            forwarded(told).into_iter().map(move |octets| (nic, octets)).collect::<Vec<_>>()
        };
        on_the_way = nics.iter_mut().enumerate().flat_map(sent).collect();
        assert_eq!(on_the_way.len(), 2, "it is probed in each round");
    }
    assert_eq!(core.state_of(0, 0).as_deref(), Some("serving, 8 of 8 queues"));
    assert_eq!(core.counters.suspected.get(), 0);
}

#[test]
fn a_group_in_which_nobody_serves_tells_so_and_when_members_serve_again() {
    let group = plan(FILE).groups.remove(0);
    let (core, mut members) = by_hand(&group, 2);
    let mut now = Duration::ZERO;
    let mut rounds = |count: u32, answers_come: bool| {
        for _ in 0..count {
            if answers_come {
                for (number, (_, nics)) in (0..).zip(&mut members) {
                    answers(&core, number, nics);
                }
            }
            core.round(now);
            now += Duration::from_millis(10);
        }
    };
    let told = || -> Vec<(String, News)> {
        let is_of_group = |(_, news): &(String, News)| match news {
            News::Told(line) => line.contains("serves:") || line.ends_with("serve again"),
            News::Silent(_) => false,
        };
        core.take_news().into_iter().filter(is_of_group).collect()
    };
    rounds(1, false);
    rounds(3, true);
    assert_eq!(core.state_of(1, 0).as_deref(), Some("serving, 4 of 8 queues"));
    assert_eq!(told(), []);
    rounds(4, false);
    assert_eq!(core.state_of(1, 0).as_deref(), Some("suspect, 4 of 8 queues"));
    let suspect = "no member of the group serves: suspect ones keep their flows";
    assert_eq!(told(), [("core_0".to_owned(), News::Told(suspect.to_owned()))]);
    rounds(4, true);
    assert_eq!(core.state_of(1, 0).as_deref(), Some("serving, 4 of 8 queues"));
    assert_eq!(told(), [("core_0".to_owned(), News::Told("2 members serve again".to_owned()))]);
    // Whoever ends them knows.
    core.leave(Aside::Planned, |_| true);
    rounds(1, false);
    assert_eq!(told(), []);
}

#[test]
fn a_spare_member_moves_no_queue_when_it_comes_up_and_wakes_at_once() {
    let group = Group { parked: 1, ..plan(FILE).groups.remove(0) };
    let (core, mut members) = by_hand(&group, 2);
    let states = || [0, 1].map(|number| core.state_of(number, 0).unwrap_or_default());
    let mut answer = |number: u16| answers(&core, number, &mut members[usize::from(number)].1);
    core.round(Duration::ZERO);
    assert_eq!(answer(0), 1);
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 8 of 8 queues", "starting, 0 of 8 queues"]);
    let moved = core.counters.places_moved.get();
    assert_eq!(answer(1), 1);
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    assert_eq!(core.counters.places_moved.get(), moved);
    let is_up = |(name, news): &(String, News)| {
        name == "core_1" && matches!(news, News::Told(line) if line == "it is up, and parked")
    };
    assert!(core.take_news().iter().any(is_up));
    core.follow(&Group { parked: 0, ..group.clone() });
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 8 of 8 queues", "starting, 0 of 8 queues"]);
    core.bell.has_rung();
    assert_eq!(answer(1), 1);
    core.round(Duration::ZERO);
    assert_eq!(states(), ["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
}
