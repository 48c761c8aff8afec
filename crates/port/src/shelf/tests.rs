use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use ring::{BURST, Bytes};

use super::*;
use crate::boundary::Sink;
use crate::{IngressSink, ingress};

/// Queues on a shelf, and what fills them.
struct Link {
    shelf: Arc<Shelf>,
    sinks: Vec<Arc<IngressSink>>,
}

impl Link {
    fn new(queues: usize, queue_len: u32) -> Self {
        let (sinks, sources): (Vec<_>, Vec<_>) =
            (0..queues).map(|_| ingress(queue_len).expect("a queue")).unzip();
        let sources = sources.into_iter().map(|source| Box::new(source) as Box<dyn Source>).collect();
        Self { shelf: Shelf::new(sources), sinks }
    }

    fn reader(&self, number: u16) -> Vec<ShelfQueue> {
        self.shelf.reader(number).expect("a reader")
    }

    fn send(&self, queue: usize, number: u32) -> bool {
        let mut octets = number.to_be_bytes();
        self.sinks[queue].deliver(&[Frame::new(Bytes::from_slice(&mut octets))]) == 1
    }
}

/// Numbers of all frames that a source shows until there are none.
fn read(source: &mut ShelfQueue) -> Vec<u32> {
    let mut numbers = Vec::new();
    let mut take = |frames: &[Frame<'_>]| {
        numbers.extend(frames.iter().filter_map(|frame| frame.octets().read(0).map(u32::from_be_bytes)));
    };
    while source.drain(BURST, &mut take) != 0 {}
    numbers
}

fn is_rung(source: &ShelfQueue) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (Bell::Event(bell) | Bell::Readable(bell)) = source.bell() else { return false };
    poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], Some(&Timespec::default())) == Ok(1)
}

#[test]
fn a_queue_is_read_by_its_owner_alone() {
    let link = Link::new(2, 10);
    let (mut a, mut b) = (link.reader(0), link.reader(1));
    assert!(link.send(0, 10) && link.send(1, 11));
    assert_eq!((read(&mut a[0]), read(&mut b[0])), (vec![], vec![]), "nobody owns it");
    link.shelf.assign(0, Some(0));
    link.shelf.assign(1, Some(1));
    assert_eq!((link.shelf.owner(0), link.shelf.owner(1), link.shelf.owner(2)), (Some(0), Some(1), None));
    assert_eq!((read(&mut b[0]), read(&mut a[0])), (vec![], vec![10]));
    assert_eq!((read(&mut a[1]), read(&mut b[1])), (vec![], vec![11]));
    assert!(!link.shelf.is_free(0) && !link.shelf.is_free(1));
    assert_eq!(link.shelf.loads(), [1, 1]);
    link.shelf.assign(5, Some(1));
}

/// A queue that says whether it waits.
struct Moody(Arc<AtomicBool>);

impl Source for Moody {
    fn drain(&mut self, _: usize, _: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        0
    }

    fn waits(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_reader_that_holds_a_queue_is_told_by_it_whether_it_waits() {
    let waits = Arc::new(AtomicBool::new(true));
    let shelf = Shelf::new(vec![Box::new(Moody(waits.clone()))]);
    assert_eq!(shelf.queues(), 1);
    let mut queue = shelf.reader(0).expect("a reader").remove(0);
    waits.store(false, Ordering::Relaxed);
    assert!(queue.waits(), "as it was when it came");
    shelf.assign(0, Some(0));
    queue.drain(BURST, &mut |_| {});
    assert!(!queue.waits());
    waits.store(true, Ordering::Relaxed);
    assert!(queue.waits());
}

#[test]
fn a_queue_changes_hands_when_its_old_owner_puts_it_back() {
    let link = Link::new(1, 10);
    let (mut a, mut b) = (link.reader(0).remove(0), link.reader(1).remove(0));
    link.shelf.assign(0, Some(0));
    assert!(link.send(0, 1));
    assert_eq!(read(&mut a), [1]);
    link.shelf.assign(0, Some(1));
    assert!(link.send(0, 2));
    assert!(read(&mut b).is_empty(), "the old one still holds it");
    assert!(!link.shelf.is_free(0) && is_rung(&b));
    assert!(read(&mut a).is_empty());
    assert!(link.shelf.is_free(0));
    assert_eq!(read(&mut b), [2]);
    // Back before the old owner has seen anything: it goes on.
    link.shelf.assign(0, Some(0));
    link.shelf.assign(0, Some(1));
    assert!(link.send(0, 3));
    assert_eq!((read(&mut a), read(&mut b)), (vec![], vec![3]));
}

#[test]
fn a_reader_that_goes_leaves_its_queues_behind() {
    let link = Link::new(1, 10);
    link.shelf.assign(0, Some(0));
    let (mut a, mut b) = (link.reader(0).remove(0), link.reader(1).remove(0));
    assert!(link.send(0, 1) && link.send(0, 2));
    assert_eq!(a.drain(1, &mut |frames| assert_eq!(frames.len(), 1)), 1);
    link.shelf.assign(0, Some(1));
    drop(a);
    assert!(is_rung(&b), "whoever is named is told");
    assert_eq!(read(&mut b), [2]);
    drop(b);
    let mut again = link.reader(1).remove(0);
    assert!(link.send(0, 3));
    assert_eq!(read(&mut again), [3], "one of the number of the one before");
}

#[test]
fn a_sleeper_is_woken_when_a_queue_becomes_its() {
    let link = Link::new(1, 10);
    let mut b = link.reader(1).remove(0);
    assert!(!b.arm() && !is_rung(&b));
    link.shelf.assign(0, Some(1));
    assert!(is_rung(&b));
    b.disarm();
    assert!(!link.shelf.is_free(0), "it has the queue");
    assert!(!b.arm() && !is_rung(&b));
    assert!(link.send(0, 1));
    assert!(is_rung(&b), "by the queue's own bell");
    b.disarm();
    assert_eq!(read(&mut b), [1]);
}

#[test]
fn what_a_reader_takes_is_told_to_a_queue_that_comes_later() {
    struct Told(Arc<Mutex<Offloads>>);
    impl Source for Told {
        fn drain(&mut self, _: usize, _: &mut dyn FnMut(&[Frame<'_>])) -> usize {
            0
        }

        fn waits(&self) -> bool {
            false
        }

        fn set_sink_offloads(&mut self, takes: Offloads) {
            *self.0.lock().expect("it is whole") = takes;
        }
    }
    let told = Arc::new(Mutex::new(Offloads::NONE));
    let shelf = Shelf::new(vec![Box::new(Told(told.clone()))]);
    let mut source = shelf.reader(0).expect("a reader").remove(0);
    assert!(!source.waits());
    source.set_sink_offloads(Offloads::ALL);
    assert_eq!(*told.lock().expect("it is whole"), Offloads::NONE);
    shelf.assign(0, Some(0));
    source.tend();
    assert_eq!(*told.lock().expect("it is whole"), Offloads::ALL);
}

/// What may happen to a link.
#[derive(Clone, Debug)]
enum Act {
    Send(usize),
    Assign(usize, Option<u16>),
    /// A reader makes a pass over its queues, with so many frames for each.
    Pass(u16, usize),
    /// A reader ends, and another one of its number begins.
    Renew(u16),
}

const QUEUES: usize = 4;
const READERS: u16 = 3;

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..QUEUES).prop_map(Act::Send),
        2 => (0..QUEUES, prop::option::weighted(0.9, 0..READERS)).prop_map(|(queue, owner)| Act::Assign(queue, owner)),
        6 => (0..READERS, 0..4_usize).prop_map(|(reader, budget)| Act::Pass(reader, budget)),
        1 => (0..READERS).prop_map(Act::Renew),
    ]
}

proptest! {
    #[test]
    fn each_frame_is_read_once_and_in_order(acts in prop::collection::vec(act(), 0..200)) {
        let link = Link::new(QUEUES, 300);
        let mut readers: Vec<Vec<ShelfQueue>> = (0..READERS).map(|number| link.reader(number)).collect();
        let (mut sent, mut came) = (vec![0_u32; QUEUES], vec![Vec::new(); QUEUES]);
        let pass = |sources: &mut Vec<ShelfQueue>, budget, came: &mut Vec<Vec<u32>>| {
            for (source, came) in sources.iter_mut().zip(came) {
                source.drain(budget, &mut |frames| {
                    came.extend(frames.iter().filter_map(|frame| frame.octets().read(0).map(u32::from_be_bytes)));
                });
            }
        };
        for act in acts {
            match act {
                Act::Send(queue) => {
                    prop_assert!(link.send(queue, sent[queue]));
                    sent[queue] += 1;
                }
                Act::Assign(queue, owner) => link.shelf.assign(queue, owner),
                Act::Pass(reader, budget) => pass(&mut readers[usize::from(reader)], budget, &mut came),
                Act::Renew(reader) => {
                    readers[usize::from(reader)].clear();
                    readers[usize::from(reader)] = link.reader(reader);
                }
            }
        }
        (0..QUEUES).for_each(|queue| link.shelf.assign(queue, Some(0)));
        for reader in [1, 2, 0, 0] {
            (0..5).for_each(|_| pass(&mut readers[reader], BURST, &mut came));
        }
        for (came, sent) in came.iter().zip(&sent) {
            prop_assert_eq!(came, &(0..*sent).collect::<Vec<_>>());
        }
    }
}

#[test]
fn readers_in_threads_lose_nothing_while_queues_change_hands() {
    const FRAMES: u32 = 20_000;
    let link = Link::new(QUEUES, FRAMES / QUEUES as u32);
    let is_done = AtomicBool::new(false);
    let came = Mutex::new(vec![Vec::new(); QUEUES]);
    std::thread::scope(|scope| {
        for number in 0..READERS {
            let (mut sources, is_done, came) = (link.reader(number), &is_done, &came);
            scope.spawn(move || {
                loop {
                    let is_last = is_done.load(Ordering::SeqCst);
                    for (queue, source) in sources.iter_mut().enumerate() {
                        source.drain(BURST, &mut |frames| {
                            let mut came = came.lock().expect("no reader has failed");
                            let numbers = frames.iter().filter_map(|frame| frame.octets().read(0));
                            came[queue].extend(numbers.map(u32::from_be_bytes));
                        });
                    }
                    if is_last {
                        return;
                    }
                }
            });
        }
        for number in 0..FRAMES {
            let queue = number as usize % QUEUES;
            assert!(link.send(queue, number));
            if number % 7 == 0 {
                link.shelf.assign(queue, Some((number / 7 % 5) as u16 % READERS));
            }
        }
        is_done.store(true, Ordering::SeqCst);
    });
    let mut left = link.reader(0);
    let mut came = came.into_inner().expect("no reader has failed");
    for (queue, came) in came.iter_mut().enumerate() {
        link.shelf.assign(queue, Some(0));
        came.extend(read(&mut left[queue]));
        let due: Vec<u32> = (0..FRAMES).filter(|number| *number as usize % QUEUES == queue).collect();
        assert_eq!(*came, due, "queue {queue}");
    }
}
