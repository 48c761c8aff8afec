use port::Source as _;
use port::pair::{PairPort, pair};

use super::*;

/// Creates a switch with `n` ports and the other end of a wire on each.
pub(super) fn wired(n: usize, config: Config) -> (Switch, Vec<SwitchPort>, Vec<PairPort>) {
    let switch = Switch::new("lan", config);
    let mut ways = Vec::new();
    let mut ends = Vec::new();
    for i in 0..n {
        let (near, far) = pair(256).unwrap();
        ways.push(switch.add_port(&format!("p{i}"), near.sink).unwrap());
        ends.push(far);
    }
    (switch, ways, ends)
}

fn frame(to: u8, from: u8, mark: u8) -> Vec<u8> {
    let mac = |n: u8| if n == 255 { [255; 6] } else { [2, 0, 0, 0, 0, n] };
    let mut octets = vec![mark; 60];
    octets[..6].copy_from_slice(&mac(to));
    octets[6..12].copy_from_slice(&mac(from));
    octets
}

fn enter(way: &SwitchPort, mut frames: Vec<Vec<u8>>) {
    let shown: Vec<_> = frames.iter_mut().map(|f| Frame::new(ring::Bytes::from_slice(f))).collect();
    assert_eq!(way.deliver(&shown), shown.len());
}

/// Returns the marks of the frames that came out.
fn marks(end: &mut PairPort) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut take = |frames: &[Frame<'_>]| {
        seen.extend(frames.iter().map(|f| f.octets().read::<1>(f.len() - 1).unwrap()[0]));
    };
    while end.source.drain(BURST, &mut take) != 0 {}
    seen
}

#[test]
fn floods_the_unknown_then_knows_it() {
    let (_switch, ways, mut ends) = wired(3, Config::default());
    enter(&ways[0], vec![frame(2, 1, 10)]);
    assert_eq!((marks(&mut ends[1]), marks(&mut ends[2])), (vec![10], vec![10]));
    enter(&ways[2], vec![frame(1, 2, 11)]);
    enter(&ways[0], vec![frame(2, 1, 12), frame(2, 1, 13)]);
    assert_eq!(marks(&mut ends[0]), [11]);
    assert_eq!(marks(&mut ends[1]), []);
    assert_eq!(marks(&mut ends[2]), [12, 13]);
    let counters = ways[0].counters();
    assert_eq!(
        (counters.forwarded.get(), counters.flood_unknown.get(), counters.flood_copies.get()),
        (2, 1, 2)
    );
}

#[test]
fn order_at_a_receiver_is_the_order_of_entry_even_across_a_flood() {
    let (_switch, ways, mut ends) = wired(3, Config::default());
    enter(&ways[1], vec![frame(255, 2, 0)]);
    ends.iter_mut().for_each(|end| drop(marks(end)));
    enter(&ways[0], vec![frame(2, 1, 1), frame(255, 1, 2), frame(9, 1, 3), frame(2, 1, 4)]);
    assert_eq!(marks(&mut ends[1]), [1, 2, 3, 4]);
    assert_eq!(marks(&mut ends[2]), [2, 3]);
}

#[test]
fn drops_what_stays_behind_its_own_port_and_what_is_no_frame() {
    let (_switch, ways, mut ends) = wired(2, Config::default());
    let mut group_source = frame(1, 1, 3);
    group_source[6] = 1;
    enter(&ways[0], vec![frame(255, 1, 0), frame(1, 3, 2), group_source, vec![0; 13], vec![]]);
    assert_eq!(marks(&mut ends[1]), [0]);
    let counters = ways[0].counters();
    assert_eq!((counters.drop_same_port.get(), counters.drop_malformed.get()), (1, 3));
    assert_eq!((counters.learned.get(), counters.in_frames.get()), (2, 5));
}

#[test]
fn of_the_addresses_of_bridges_only_that_of_pauses_is_not_flooded() {
    let (_switch, ways, mut ends) = wired(2, Config::default());
    let to_bridges = |last: u8| {
        let mut octets = frame(255, 1, last);
        octets[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last]);
        octets
    };
    enter(&ways[0], (0..16).map(to_bridges).collect());
    assert_eq!(marks(&mut ends[1]), (0..16).filter(|last| *last != 1).collect::<Vec<_>>());
    let counters = ways[0].counters();
    assert_eq!((counters.drop_pause.get(), counters.flood_broadcast.get()), (1, 15));
    assert_eq!((counters.forwarded.get(), counters.in_frames.get(), counters.learned.get()), (0, 16, 1));
}

#[test]
fn the_zero_source_is_forwarded_and_not_learned() {
    let (switch, ways, mut ends) = wired(2, Config::default());
    let mut zero = frame(255, 0, 7);
    zero[6..12].fill(0);
    enter(&ways[0], vec![zero]);
    assert_eq!(marks(&mut ends[1]), [7]);
    switch.stations(&mut |_, _, _| panic!("nothing is known"));
}

#[test]
fn a_station_that_moves_is_followed_and_counted() {
    let (_switch, ways, mut ends) = wired(3, Config::default());
    enter(&ways[0], vec![frame(255, 1, 0)]);
    enter(&ways[1], vec![frame(255, 1, 0)]);
    ends.iter_mut().for_each(|end| drop(marks(end)));
    enter(&ways[2], vec![frame(1, 2, 5)]);
    assert_eq!((marks(&mut ends[0]), marks(&mut ends[1])), (vec![], vec![5]));
    assert_eq!(ways[1].counters().moves.get(), 1);
}

#[test]
fn a_silent_station_is_forgotten_after_the_ageing_time() {
    let (switch, ways, mut ends) = wired(3, Config { ageing: 10, capacity: 16 });
    enter(&ways[0], vec![frame(255, 1, 0)]);
    switch.tick(9);
    enter(&ways[1], vec![frame(1, 2, 1)]);
    switch.tick(10);
    enter(&ways[1], vec![frame(1, 2, 2)]);
    assert_eq!(marks(&mut ends[2]), [0, 2]);
    assert_eq!(marks(&mut ends[0]), [1, 2]);
}

#[test]
fn a_full_table_floods() {
    let (_switch, ways, mut ends) = wired(3, Config { ageing: 300, capacity: 1 });
    enter(&ways[0], (1..=9).map(|n| frame(255, n, n)).collect());
    ends.iter_mut().for_each(|end| drop(marks(end)));
    let counters = ways[0].counters();
    assert_eq!((counters.learned.get(), counters.table_full.get()), (4, 5));
    enter(&ways[1], vec![frame(9, 20, 1)]);
    assert_eq!((marks(&mut ends[0]), marks(&mut ends[2])), (vec![1], vec![1]));
}

#[test]
fn a_removed_port_is_let_go_and_its_stations_forgotten() {
    let (switch, mut ways, mut ends) = wired(3, Config::default());
    let (near, _far) = pair(8).unwrap();
    let sink = near.sink.clone();
    let extra = switch.add_port("extra", near.sink).unwrap();
    enter(&extra, vec![frame(255, 9, 0)]);
    enter(&ways[0], vec![frame(9, 1, 1)]);
    ends.iter_mut().for_each(|end| drop(marks(end)));
    assert!(switch.remove_port(extra.id()));
    assert!(!switch.remove_port(extra.id()));
    enter(&extra, vec![frame(1, 9, 2)]);
    assert_eq!(extra.counters().drop_removed.get(), 1);
    drop(extra);
    assert_eq!(Arc::strong_count(&sink), 1, "no port may keep a removed sink");
    enter(&ways[0], vec![frame(9, 1, 3)]);
    assert_eq!((marks(&mut ends[0]), marks(&mut ends[1]), marks(&mut ends[2])), (vec![], vec![3], vec![3]));
    let again = switch.add_port("extra", sink).unwrap();
    assert!(ways.iter().all(|way| way.id() != again.id()));
    ways.clear();
}

#[test]
fn names_and_numbers_are_used_once() {
    let switch = Switch::new("lan", Config::default());
    let null: Arc<dyn Sink> = Arc::new(port::Null::new());
    for i in 0..MAX_PORTS {
        switch.add_port(&i.to_string(), null.clone()).unwrap();
    }
    let error = switch.add_port("7", null.clone()).err().unwrap();
    assert_eq!(error.to_string(), "switch lan already has a port named 7; give this one another name");
    assert!(matches!(switch.add_port("more", null.clone()), Err(Error::Full { .. })));
    assert!(switch.remove_port(PortId(7)));
    assert_eq!(switch.add_port("7", null).unwrap().id(), PortId(7));
}

#[test]
fn what_a_receiver_does_not_take_is_its_own_drop() {
    let switch = Switch::new("lan", Config::default());
    let (near, _far) = pair(2).unwrap();
    let slow = switch.add_port("slow", near.sink).unwrap();
    let fast = switch.add_port("fast", Arc::new(port::Null::new())).unwrap();
    enter(&fast, (0..5).map(|mark| frame(255, 1, mark)).collect());
    let counters = slow.counters();
    assert_eq!((counters.out_frames.get(), counters.out_bytes.get(), counters.drop_full.get()), (2, 120, 3));
}

#[test]
fn threads_enter_at_one_port_by_lanes_of_their_own_and_the_books_are_right() {
    const BURSTS: u32 = 2000;
    let switch = Switch::new("lan", Config::default());
    let into = switch.add_port("in", Arc::new(port::Null::new())).unwrap();
    let out = switch.add_port("out", Arc::new(port::Null::new())).unwrap();
    enter(&out, vec![frame(1, 2, 0)]);
    std::thread::scope(|scope| {
        // More threads than lanes, and two in one lane.
        for number in 0..20 {
            let way = into.lane(number);
            scope.spawn(move || (0..BURSTS).for_each(|_| enter(&way, vec![frame(2, 1, 0); 3])));
        }
    });
    let all = u64::from(BURSTS) * 20 * 3;
    let counters = into.counters();
    assert_eq!((counters.in_frames.get(), counters.forwarded.get()), (all, all));
    assert_eq!(out.counters().out_frames.get(), all);
}

/// A receiver whose thread is preempted in the middle of a burst.
struct Stopped {
    is_in: std::sync::mpsc::Sender<()>,
    go_on: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Sink for Stopped {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.is_in.send(()).unwrap();
        let _ = self.go_on.lock().unwrap().recv_timeout(PATIENCE);
        frames.len()
    }
}

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

#[test]
fn nobody_but_who_removes_a_port_waits_for_bursts_under_way() {
    use std::sync::mpsc::channel;
    let (switch, ways, _ends) = wired(2, Config::default());
    let (is_in, came_in) = channel();
    let (go, go_on) = channel();
    let stopped = Arc::new(Stopped { is_in, go_on: Mutex::new(go_on) });
    let slow = switch.add_port("slow", stopped).unwrap();
    let generation = switch.shared.generation();
    std::thread::scope(|scope| {
        scope.spawn(|| enter(&ways[0], vec![frame(255, 1, 10)]));
        came_in.recv_timeout(PATIENCE).unwrap();
        let remover = scope.spawn(|| switch.remove_port(slow.id()));
        while switch.shared.generation() == generation {
            std::thread::yield_now();
        }
        let (tell, told) = channel();
        let switch = &switch;
        scope.spawn(move || {
            let mut names = Vec::new();
            switch.counters(&mut |name, _| names.push(name.to_owned()));
            let other = switch.add_port("other", Arc::new(port::Null::new())).is_ok();
            // The waiting thread may have given up.
            let _ = tell.send((names, other));
        });
        let seen = told.recv_timeout(PATIENCE / 2);
        let waits = !remover.is_finished();
        go.send(()).unwrap();
        assert_eq!(seen, Ok((vec!["p0".to_owned(), "p1".to_owned()], true)));
        assert!(waits, "a burst was under way");
        assert!(remover.join().unwrap());
    });
}

#[test]
fn whoever_removes_a_port_waits_for_bursts_by_one_that_another_thread_removes() {
    use std::sync::mpsc::channel;
    let (switch, ways, _ends) = wired(1, Config::default());
    let (is_in, came_in) = channel();
    let (go, go_on) = channel();
    let stopped = Arc::new(Stopped { is_in, go_on: Mutex::new(go_on) });
    let slow = switch.add_port("slow", stopped).unwrap();
    let lan = &switch;
    std::thread::scope(|scope| {
        scope.spawn(|| enter(&ways[0], vec![frame(255, 1, 10)]));
        came_in.recv_timeout(PATIENCE).unwrap();
        let removers = [ways[0].id(), slow.id()].map(|port| {
            let generation = lan.shared.generation();
            let remover = scope.spawn(move || lan.remove_port(port));
            while lan.shared.generation() == generation {
                std::thread::yield_now();
            }
            remover
        });
        // One that does not wait ends within this time on most hosts.
        (0..10_000).for_each(|_| std::thread::yield_now());
        let ended = removers.each_ref().map(|remover| remover.is_finished());
        go.send(()).unwrap();
        assert_eq!(ended, [false; 2], "a burst was under way from the one to the other");
        assert_eq!(removers.map(|remover| remover.join().unwrap()), [true; 2]);
    });
}
