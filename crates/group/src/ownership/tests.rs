use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

const A: Member = Member(0);
const B: Member = Member(1);

fn shares(members: &[Member]) -> Shares {
    members.iter().map(|member| (*member, 1)).collect()
}

fn even(_: usize) -> u64 {
    0
}

#[test]
fn a_queue_is_released_before_it_is_taken() {
    let mut queues = Ownership::new(2);
    let taken = [Order::Take { queue: 0, by: A }, Order::Take { queue: 1, by: A }];
    assert_eq!(queues.want(&shares(&[A]), even), taken);
    let orders = queues.want(&shares(&[A, B]), even);
    let [Order::Release { queue, by: A }] = orders[..] else { panic!("{orders:?}") };
    assert_eq!((queues.reader(queue), queues.is_settled()), (Some(A), false));
    assert_eq!(queues.released(1 - queue, A), None, "it was not told to release this one");
    assert_eq!(queues.released(queue, B), None, "it does not read this one");
    assert_eq!(queues.released(queue, A), Some(Order::Take { queue, by: B }));
    assert!(queues.is_settled() && queues.reader(queue) == Some(B));
    assert_eq!((queues.reader(2), queues.released(2, A)), (None, None));
}

#[test]
fn a_dead_member_releases_nothing() {
    let mut queues = Ownership::new(2);
    queues.want(&shares(&[A, B]), even);
    assert_eq!(queues.gone(B), [], "nobody else is to have its queue yet");
    let orders = queues.want(&shares(&[A]), even);
    assert_eq!(orders, [Order::Take { queue: 1, by: A }]);
    // Dead while it was to release.
    queues.want(&shares(&[B]), even);
    assert_eq!(queues.gone(A), [Order::Take { queue: 0, by: B }, Order::Take { queue: 1, by: B }]);
    assert!(queues.is_settled());
}

#[test]
fn who_is_to_have_a_queue_may_change_while_it_is_released() {
    let mut queues = Ownership::new(1);
    queues.want(&shares(&[A]), even);
    queues.want(&shares(&[B]), even);
    assert_eq!(
        queues.want(&shares(&[A]), even),
        [],
        "it was told to release it, and will be told to take it"
    );
    assert_eq!(queues.released(0, A), Some(Order::Take { queue: 0, by: A }));
    queues.want(&Shares::new(), even);
    assert_eq!((queues.released(0, A), queues.reader(0), queues.is_settled()), (None, None, true));
}

/// What may happen between two frames.
#[derive(Clone, Debug)]
enum Act {
    /// These members are to have the queues.
    Want(BTreeSet<u16>),
    /// The thread of a member ends, and with it what it had taken.
    Kill(u16),
    /// A frame comes to a queue.
    Frame(usize),
    /// A member reads one frame from each of its queues, and releases what it is to release.
    Work(u16),
    /// A member sends the first frame that it has.
    Send(u16),
}

const MEMBERS: u16 = 4;
const QUEUES: usize = 6;

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => prop::collection::btree_set(0..MEMBERS, 1..4).prop_map(Act::Want),
        1 => (0..MEMBERS).prop_map(Act::Kill),
        8 => (0..QUEUES).prop_map(Act::Frame),
        6 => (0..MEMBERS).prop_map(Act::Work),
        6 => (0..MEMBERS).prop_map(Act::Send),
    ]
}

/// A link, its readers, and what came out of them.
struct Link {
    ownership: Ownership,
    waiting: Vec<VecDeque<u32>>,
    /// What each member is told to read; true: to release.
    told: BTreeMap<(u16, usize), bool>,
    /// Frames that a member has and has not sent: queue and number.
    inside: BTreeMap<u16, VecDeque<(usize, u32)>>,
    sent: Vec<Vec<u32>>,
    came: u32,
    lost: u32,
    /// Queues that have changed hands.
    moved: BTreeSet<usize>,
}

impl Link {
    fn new() -> Self {
        Self {
            ownership: Ownership::new(QUEUES),
            waiting: vec![VecDeque::new(); QUEUES],
            told: BTreeMap::new(),
            inside: BTreeMap::new(),
            sent: vec![Vec::new(); QUEUES],
            came: 0,
            lost: 0,
            moved: BTreeSet::new(),
        }
    }

    fn heed(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Release { queue, by } => {
                    let told = self.told.insert((by.0, queue), true);
                    assert_eq!(told, Some(false), "only who reads a queue can release it");
                    self.moved.insert(queue);
                }
                Order::Take { queue, by } => {
                    assert!(self.told.keys().all(|(_, read)| *read != queue), "two read queue {queue}");
                    self.told.insert((by.0, queue), false);
                }
            }
        }
    }

    fn work(&mut self, member: u16) {
        let own: Vec<(usize, bool)> = self
            .told
            .iter()
            .filter(|((of, _), _)| *of == member)
            .map(|((_, queue), ends)| (*queue, *ends))
            .collect();
        for (queue, ends) in own {
            if let Some(frame) = self.waiting[queue].pop_front() {
                self.inside.entry(member).or_default().push_back((queue, frame));
            }
            if ends {
                self.told.remove(&(member, queue));
                let order = self.ownership.released(queue, Member(member));
                self.heed(order.into_iter().collect());
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Want(members) => {
                let shares = members.into_iter().map(|member| (Member(member), 1)).collect();
                let orders = self.ownership.want(&shares, even);
                self.heed(orders);
            }
            Act::Kill(member) => {
                let had = self.told.keys().filter(|(of, _)| *of == member).map(|(_, queue)| *queue);
                self.moved.extend(had);
                self.told.retain(|(of, _), _| *of != member);
                self.lost += self.inside.remove(&member).map_or(0, |frames| frames.len() as u32);
                let orders = self.ownership.gone(Member(member));
                self.heed(orders);
            }
            Act::Frame(queue) => {
                self.waiting[queue].push_back(self.came);
                self.came += 1;
            }
            Act::Work(member) => self.work(member),
            Act::Send(member) => {
                if let Some((queue, frame)) = self.inside.entry(member).or_default().pop_front() {
                    self.sent[queue].push(frame);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn one_reads_a_queue_and_what_does_not_move_stays_in_order(acts in prop::collection::vec(act(), 0..300)) {
        let mut link = Link::new();
        for act in acts {
            link.act(act);
        }
        for (queue, sent) in link.sent.iter().enumerate() {
            let in_order = sent.is_sorted_by(|a, b| a < b);
            prop_assert!(in_order || link.moved.contains(&queue), "queue {queue}: {sent:?}");
        }
        let inside: usize = link.inside.values().map(VecDeque::len).sum();
        let waiting: usize = link.waiting.iter().map(VecDeque::len).sum();
        let sent: usize = link.sent.iter().map(Vec::len).sum();
        prop_assert_eq!((inside + waiting + sent) as u32 + link.lost, link.came);
    }

    #[test]
    fn orders_that_are_carried_out_lead_to_what_is_wanted(acts in prop::collection::vec(act(), 0..100)) {
        let mut link = Link::new();
        acts.into_iter().for_each(|act| link.act(act));
        link.act(Act::Want([0, 2].into()));
        (0..MEMBERS).for_each(|member| link.work(member));
        prop_assert!(link.ownership.is_settled());
        for queue in 0..QUEUES {
            let reader = link.ownership.reader(queue);
            prop_assert_eq!(reader, link.ownership.wanted().owner(queue));
            prop_assert!(reader == Some(Member(0)) || reader == Some(Member(2)));
        }
    }
}
