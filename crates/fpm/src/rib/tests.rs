use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fpm_peer::{By, MAIN, Stream};
use netlink::{NextHop, RouteId};
use proptest::prelude::*;

use super::*;
use crate::decode::messages;
use crate::frames::Frames;

mod room;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

fn prefix(ip: [u8; 4], len: u8) -> Prefix {
    Prefix::new(ip, len).expect("a prefix")
}

fn ten(net: u8) -> Prefix {
    prefix([10, net, 0, 0], 16)
}

fn key(to: Prefix) -> Key {
    Key { table: MAIN, to }
}

fn hop(via: IpAddr, index: u32) -> NextHop {
    NextHop { via: Some(via), index, weight: 1 }
}

fn takes(rib: &mut Rib, stream: &Stream) {
    let mut frames = Frames::default();
    assert_eq!(frames.push(stream.octets()), stream.octets().len());
    while let Some(payload) = frames.take().expect("a sound stream") {
        for message in messages(payload) {
            // Whether a route is refused is seen in its target.
            let _ = rib.take(&message.expect("sound messages").0);
        }
    }
}

/// A data path that knows only what it is told.
#[derive(Debug, Default, PartialEq)]
struct Told {
    groups: BTreeMap<u32, Option<Vec<NextHop>>>,
    routes: BTreeMap<Key, Target>,
    /// Number of changes in the last batch: groups, routes.
    groups_changed: usize,
    routes_changed: usize,
}

impl Told {
    fn update(&mut self, rib: &mut Rib) {
        (self.groups_changed, self.routes_changed) = (0, 0);
        rib.changes(&mut |change| match change {
            Change::Group(GroupId(group), paths) => {
                self.groups_changed += 1;
                self.groups.insert(group, owned(paths));
            }
            Change::Route(key, target) => {
                self.routes_changed += 1;
                if let Target::Group(GroupId(group)) = target {
                    assert!(self.groups.contains_key(&group), "a route by a group that was not told");
                }
                self.routes.insert(key, target);
            }
            Change::NoRoute(key) => {
                self.routes_changed += 1;
                assert!(self.routes.remove(&key).is_some(), "what was not there is told to be gone");
            }
            Change::NoGroup(GroupId(group)) => {
                let used = self.routes.values().any(|target| *target == Target::Group(GroupId(group)));
                assert!(!used && self.groups.remove(&group).is_some());
            }
        });
    }

    fn hops(&self, to: Prefix) -> Option<Vec<NextHop>> {
        let Target::Group(GroupId(group)) = self.routes.get(&key(to))? else { return None };
        self.groups[group].clone()
    }
}

fn owned(paths: Paths<'_>) -> Option<Vec<NextHop>> {
    match paths {
        Paths::Hops(hops) => Some(hops.to_vec()),
        Paths::Blackhole => None,
    }
}

fn world() -> (Rib, Told, Stream) {
    (Rib::default(), Told::default(), Stream::default())
}

#[test]
fn a_delete_and_an_add_of_one_batch_are_one_replacement() {
    let (mut rib, mut told, mut stream) = world();
    takes(&mut rib, stream.add(ten(1), By::Hop(hop(A, 1))));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(1)), Some(vec![hop(A, 1)]));
    let mut stream = Stream::default();
    takes(&mut rib, stream.replace(ten(1), By::Hop(hop(B, 1))));
    told.update(&mut rib);
    assert_eq!((told.routes_changed, told.hops(ten(1))), (1, Some(vec![hop(B, 1)])));
    takes(&mut rib, Stream::default().replace(ten(1), By::Hop(hop(B, 1))));
    told.update(&mut rib);
    assert_eq!((told.routes_changed, told.groups_changed), (0, 0), "a replacement by the same is none");
    takes(&mut rib, Stream::default().delete(ten(1)));
    told.update(&mut rib);
    assert_eq!((told.routes.len(), told.groups.len(), rib.len()), (0, 0, 0));
}

#[test]
fn a_changed_object_moves_all_its_routes_by_one_change() {
    let (mut rib, mut told, mut stream) = world();
    stream.hop(1, hop(A, 1)).hop(2, hop(B, 2)).group(9, &[(1, 1), (2, 3)]);
    for net in 0..100 {
        stream.add(ten(net), By::Group(9));
    }
    takes(&mut rib, &stream);
    told.update(&mut rib);
    let both = vec![hop(A, 1), NextHop { weight: 3, ..hop(B, 2) }];
    assert_eq!((told.routes.len(), told.groups.len()), (100, 1));
    assert_eq!(told.hops(ten(7)), Some(both));
    takes(&mut rib, Stream::default().hop(1, hop(A, 5)));
    told.update(&mut rib);
    assert_eq!((told.groups_changed, told.routes_changed), (1, 0));
    assert_eq!(told.hops(ten(7)).map(|hops| hops[0]), Some(hop(A, 5)));
    takes(&mut rib, Stream::default().group(9, &[(2, 1)]));
    told.update(&mut rib);
    assert_eq!((told.groups_changed, told.hops(ten(8))), (1, Some(vec![hop(B, 2)])));
}

#[test]
fn a_next_hop_that_does_not_answer_is_left_out_at_once() {
    let (mut rib, mut told, mut stream) = world();
    stream.hop(1, hop(A, 1)).hop(2, hop(B, 2)).group(9, &[(1, 1), (2, 1)]).add(ten(1), By::Group(9));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    assert!(rib.judge(1, A, false));
    assert!(!rib.judge(1, A, false), "known already");
    told.update(&mut rib);
    assert_eq!((told.groups_changed, told.routes_changed), (1, 0));
    assert_eq!(told.hops(ten(1)), Some(vec![hop(B, 2)]));
    takes(&mut rib, Stream::default().add(ten(2), By::Hop(hop(A, 1))));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(2)), Some(vec![]), "no way is left: unreachable");
    assert!(rib.judge(1, A, true));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(1)), Some(vec![hop(A, 1), hop(B, 2)]));
    assert_eq!(told.hops(ten(2)), Some(vec![hop(A, 1)]));
}

#[test]
fn a_route_may_come_before_its_object_and_outlive_it() {
    let (mut rib, mut told, mut stream) = world();
    takes(&mut rib, stream.add(ten(1), By::Group(9)));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(1)), Some(vec![]));
    takes(&mut rib, Stream::default().hop(9, hop(A, 1)));
    told.update(&mut rib);
    assert_eq!((told.routes_changed, told.hops(ten(1))), (0, Some(vec![hop(A, 1)])));
    takes(&mut rib, Stream::default().delete_group(9));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(1)), Some(vec![hop(A, 1)]));
    takes(&mut rib, Stream::default().hop(9, hop(B, 1)));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(1)), Some(vec![hop(A, 1)]), "the number means another group now");
    takes(&mut rib, Stream::default().replace(ten(1), By::Group(9)));
    told.update(&mut rib);
    assert_eq!((told.hops(ten(1)), told.groups.len()), (Some(vec![hop(B, 1)]), 1));
}

#[test]
fn after_a_reconnect_nothing_changes_until_something_does() {
    let (mut rib, mut told, mut stream) = world();
    stream.group(9, &[(1, 1), (2, 1)]).hop(1, hop(A, 1)).hop(2, hop(B, 2)).hop(3, hop(B, 3));
    stream.add(ten(1), By::Group(9)).add(ten(2), By::Group(3)).add(ten(3), By::Hop(hop(A, 1)));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    rib.mark();
    told.update(&mut rib);
    assert_eq!((rib.stale(), told.routes_changed, told.groups_changed), (3, 0, 0));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    assert_eq!((rib.stale(), rib.len(), told.routes_changed, told.groups_changed), (0, 3, 0, 0), "{told:?}");
}

#[test]
fn numbers_of_a_former_session_mean_nothing() {
    let (mut rib, mut told, mut stream) = world();
    stream.hop(1, hop(A, 1)).add(ten(1), By::Group(1)).add(ten(2), By::Group(1));
    takes(&mut rib, &stream);
    told.update(&mut rib);
    rib.mark();
    takes(&mut rib, Stream::default().hop(1, hop(B, 2)).replace(ten(2), By::Group(1)));
    told.update(&mut rib);
    assert_eq!(told.hops(ten(1)), Some(vec![hop(A, 1)]), "stale, but as it was");
    assert_eq!(told.hops(ten(2)), Some(vec![hop(B, 2)]));
    assert_eq!(rib.stale(), 1);
}

#[test]
fn stale_routes_go_when_the_kernel_does_not_have_them() {
    let (mut rib, mut told, mut stream) = world();
    stream.add(ten(1), By::Hop(hop(A, 1))).add(ten(2), By::Hop(hop(A, 1))).add(ten(3), By::Hop(hop(A, 1)));
    takes(&mut rib, &stream);
    rib.mark();
    takes(&mut rib, Stream::default().add(ten(3), By::Hop(hop(A, 1))));
    rib.seen(key(ten(1)));
    assert_eq!(rib.sweep(false), 0, "the dump was interrupted");
    rib.seen_in_kernel(&kernel_route(ten(2), 20, 186, &[hop(A, 1)]));
    rib.seen_in_kernel(&kernel_route(ten(1), 0, 3, &[hop(A, 1)]));
    rib.seen(key(ten(9)));
    assert_eq!(rib.sweep(true), 1, "the former dump counts for nothing");
    told.update(&mut rib);
    let left: Vec<_> = told.routes.keys().map(|key| key.to).collect();
    assert_eq!(left, [ten(2), ten(3)]);
    assert_eq!((rib.stale(), rib.len()), (1, 2));
    assert!(rib.get(key(ten(2))).expect("it is there").is_stale);
}

fn kernel_route(to: Prefix, metric: u32, protocol: u8, hops: &[NextHop]) -> Route {
    let id = RouteId { table: MAIN, to, tos: 0, metric };
    Route { id, kind: RouteKind::Unicast, next_hops: hops.to_vec(), group: None, protocol }
}

#[test]
fn the_kernels_own_routes_precede_zebras() {
    let (mut rib, mut told, mut stream) = world();
    takes(&mut rib, stream.add(ten(1), By::Hop(hop(A, 1))));
    let [near, far] = [kernel_route(ten(1), 0, 3, &[hop(B, 2)]), kernel_route(ten(1), 9, 3, &[hop(B, 3)])];
    rib.add_local(&far);
    rib.add_local(&near);
    rib.add_local(&near);
    told.update(&mut rib);
    assert_eq!((told.hops(ten(1)), told.groups.len()), (Some(vec![hop(B, 2)]), 3));
    assert_eq!(rib.find(MAIN, [10, 1, 9, 9].into()).map(|found| found.origin), Some(Origin::Kernel));
    rib.remove_local(&near);
    told.update(&mut rib);
    assert_eq!(told.hops(ten(1)), Some(vec![hop(B, 3)]));
    rib.remove_local(&far);
    rib.remove_local(&far);
    told.update(&mut rib);
    assert_eq!((told.hops(ten(1)), told.groups.len()), (Some(vec![hop(A, 1)]), 1));
    rib.add_local(&kernel_route(ten(2), 20, 186, &[hop(A, 1)]));
    told.update(&mut rib);
    assert_eq!(told.routes.len(), 1, "what zebra has written to the kernel is zebra's");
}

#[test]
fn where_the_kernel_forwards_its_routes_are_all_there_whoever_wrote_them() {
    let mut rib = Rib::default();
    rib.add_any(&kernel_route(ten(1), 20, 188, &[hop(A, 1)]));
    rib.add_any(&kernel_route(ten(1), 0, 2, &[hop(B, 2)]));
    rib.add_any(&kernel_route(ten(2), 20, 186, &[hop(A, 1)]));
    rib.changes(&mut |_| {});
    let found = |ip: [u8; 4]| rib.find(MAIN, ip.into()).map(|found| (found.protocol, found.is_stale));
    assert_eq!(found([10, 1, 9, 9]), Some((2, false)), "the one with the smaller metric");
    assert_eq!(found([10, 2, 9, 9]), Some((186, false)));
    let listed: Vec<u8> = rib.iter().map(|found| found.protocol).collect();
    assert_eq!(listed, [2, 186]);
}

#[test]
fn fates_and_the_longest_match() {
    let (mut rib, mut told, mut stream) = world();
    stream.add(prefix([0; 4], 0), By::Hop(hop(A, 1))).add(ten(1), By::Blackhole);
    stream.add(prefix([10, 1, 2, 0], 24), By::Hop(hop(B, 2))).add_of(2, ten(7), By::Blackhole);
    takes(&mut rib, &stream);
    told.update(&mut rib);
    let to = |ip: [u8; 4]| rib.find(MAIN, ip.into()).map(|found| (found.key.to.len, found.target));
    assert_eq!(to([10, 1, 9, 9]), Some((16, Target::Blackhole)));
    assert_eq!(to([10, 1, 2, 9]).map(|(len, _)| len), Some(24));
    assert_eq!(to([8, 8, 8, 8]).map(|(len, _)| len), Some(0));
    assert_eq!(rib.find(MAIN, "2001:db8::1".parse().expect("an address")), None);
    assert_eq!(rib.find(99, [10, 1, 2, 9].into()), None);
    assert_eq!(rib.iter().count(), 3, "the kernel's routes come from the kernel");
}

#[test]
fn parts_of_a_network_are_listed_page_by_page() {
    let (mut rib, mut told, mut stream) = world();
    let six = Prefix::new(std::net::Ipv6Addr::UNSPECIFIED, 0).expect("a prefix");
    let all = [
        prefix([0; 4], 0),
        prefix([10, 0, 0, 0], 8),
        ten(0),
        ten(1),
        prefix([10, 1, 2, 0], 24),
        prefix([11, 0, 0, 0], 8),
        six,
    ];
    for to in all.iter().rev() {
        stream.add(*to, By::Blackhole);
    }
    takes(&mut rib, &stream);
    told.update(&mut rib);
    let list = |net, after| rib.within(MAIN, net, after).map(|found| found.key.to).collect::<Vec<_>>();
    assert_eq!(list(all[0], None), all[..6], "of one family");
    assert_eq!(list(six, None), [six]);
    assert_eq!(list(all[1], None), all[1..5]);
    assert_eq!(list(all[1], Some(all[2])), all[3..5]);
    assert_eq!(list(all[1], Some(all[0])), all[1..5], "a page does not begin before the network");
    assert_eq!(list(ten(1), None), all[3..5]);
    assert_eq!((list(ten(7), None).len(), rib.within(99, all[0], None).count()), (0, 0));
    assert_eq!(rib.iter().map(|found| found.key.to).collect::<Vec<_>>(), all);
}

#[test]
fn a_refused_route_hides_what_was_there() {
    let (mut rib, mut told, mut stream) = world();
    takes(&mut rib, stream.add(ten(1), By::Hop(hop(A, 1))));
    told.update(&mut rib);
    let hops = [hop(B, 1)];
    let mut stream = Stream::default();
    stream.add(ten(1), By::Hops(&hops));
    let mut frames = Frames::default();
    frames.push(stream.octets());
    let payload = frames.take().expect("sound").expect("whole");
    let (Message::Route(route), _) = messages(payload).next().expect("one").expect("sound") else { panic!() };
    let refused = RouteMessage { refused: Some(Refused::Encapsulation), ..route };
    assert_eq!(rib.take(&Message::Route(refused)), Err(Refused::Encapsulation));
    told.update(&mut rib);
    assert_eq!(told.routes[&key(ten(1))], Target::Refused(Refused::Encapsulation));
    assert!(told.groups.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, u8),
    AddBy(u8, u32),
    Replace(u8, u32),
    Delete(u8),
    Hop(u32, u8),
    Group(u32, Vec<(u32, u16)>),
    NoGroup(u32),
    Local(u8, u8, bool),
    Judge(u8, bool),
    Reconnect,
    Sweep,
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    let net = 0u8..4;
    prop_oneof![
        (net.clone(), 0u8..4).prop_map(|(net, hop)| Step::Add(net, hop)),
        (net.clone(), 1u32..6).prop_map(|(net, id)| Step::AddBy(net, id)),
        (net.clone(), 1u32..6).prop_map(|(net, id)| Step::Replace(net, id)),
        net.clone().prop_map(Step::Delete),
        (1u32..4, 0u8..4).prop_map(|(id, hop)| Step::Hop(id, hop)),
        (4u32..6, prop::collection::vec((1u32..6, 1u16..3), 0..3)).prop_map(|(id, of)| Step::Group(id, of)),
        (1u32..6).prop_map(Step::NoGroup),
        (net, 0u8..4, any::<bool>()).prop_map(|(net, hop, add)| Step::Local(net, hop, add)),
        (0u8..4, any::<bool>()).prop_map(|(hop, alive)| Step::Judge(hop, alive)),
        Just(Step::Reconnect),
        Just(Step::Sweep),
        Just(Step::Publish),
    ]
}

/// One of four next hops.
fn nth(hop: u8) -> NextHop {
    NextHop { via: Some([192, 0, 2, hop].into()), index: u32::from(hop) + 1, weight: 1 }
}

fn does(rib: &mut Rib, told: &mut Told, step: &Step) {
    let mut stream = Stream::default();
    match step {
        Step::Add(net, hop) => {
            stream.add(ten(*net), By::Hop(nth(*hop)));
        }
        Step::AddBy(net, id) => {
            stream.add(ten(*net), By::Group(*id));
        }
        Step::Replace(net, id) => {
            stream.replace(ten(*net), By::Group(*id));
        }
        Step::Delete(net) => {
            stream.delete(ten(*net));
        }
        Step::Hop(id, hop) => {
            stream.hop(*id, nth(*hop));
        }
        Step::Group(id, of) => {
            stream.group(*id, of);
        }
        Step::NoGroup(id) => {
            stream.delete_group(*id);
        }
        Step::Local(net, hop, true) => {
            rib.add_local(&kernel_route(ten(*net), (*hop).into(), 3, &[nth(*hop)]))
        }
        Step::Local(net, hop, false) => {
            rib.remove_local(&kernel_route(ten(*net), (*hop).into(), 3, &[nth(*hop)]));
        }
        Step::Judge(hop, alive) => {
            let NextHop { via, index, .. } = nth(*hop);
            rib.judge(index, via.expect("a gateway"), *alive);
        }
        Step::Reconnect => rib.mark(),
        Step::Sweep => {
            rib.sweep(true);
        }
        Step::Publish => told.update(rib),
    }
    takes(rib, &stream);
}

proptest! {
    #[test]
    fn what_was_told_is_what_holds(steps in prop::collection::vec(step(), 0..80)) {
        let (mut rib, mut told, _) = world();
        for step in &steps {
            does(&mut rib, &mut told, step);
            prop_assert!(rib.stale() <= rib.len());
        }
        told.update(&mut rib);
        let listed: BTreeMap<Key, Target> = rib.iter().map(|found| (found.key, found.target)).collect();
        prop_assert_eq!(&told.routes, &listed);
        for found in rib.iter() {
            if let Target::Group(GroupId(group)) = found.target {
                prop_assert_eq!(&told.groups[&group], &owned(found.paths.expect("paths of a group")));
            }
        }
        let used: std::collections::BTreeSet<u32> = told.routes.values().filter_map(|target| match target {
            Target::Group(GroupId(group)) => Some(*group),
            _ => None,
        }).collect();
        // Groups of hidden routes (the kernel's precede them) are told as well.
        prop_assert!(used.iter().all(|group| told.groups.contains_key(group)));
        prop_assert_eq!(told.groups.len(), rib.groups());
    }

    #[test]
    fn batches_may_be_cut_anywhere(steps in prop::collection::vec(step(), 0..60), cut in 0usize..60) {
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Publish)).collect();
        let run = |cut: usize| {
            let (mut rib, mut told, _) = world();
            for (at, step) in steps.iter().enumerate() {
                if at == cut { told.update(&mut rib); }
                does(&mut rib, &mut told, step);
            }
            told.update(&mut rib);
            let meaning = |target: &Target| match target {
                Target::Group(GroupId(group)) => Err(told.groups[group].clone()),
                other => Ok(*other),
            };
            told.routes.iter().map(|(key, target)| (*key, meaning(target))).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(usize::MAX), run(cut));
    }

    #[test]
    fn a_batch_without_changes_tells_nothing(steps in prop::collection::vec(step(), 0..60)) {
        let (mut rib, mut told, _) = world();
        steps.iter().for_each(|step| does(&mut rib, &mut told, step));
        told.update(&mut rib);
        told.update(&mut rib);
        prop_assert_eq!((told.groups_changed, told.routes_changed), (0, 0));
        rib.mark();
        told.update(&mut rib);
        prop_assert_eq!((told.groups_changed, told.routes_changed), (0, 0));
    }
}
