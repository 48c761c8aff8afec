use super::*;

const RING: usize = 1024;

/// A visit while the router has no work.
const fn hungry(shown: usize) -> Look {
    Look { room: RING, budget: 64, shown }
}

fn judged(tuner: &mut Tuner, looks: &[Look]) -> Option<u32> {
    looks.iter().for_each(|look| tuner.look(*look));
    tuner.judge()
}

#[test]
fn nothing_changes_while_the_router_keeps_up() {
    let mut tuner = Tuner::new(110, RING as u32);
    for shown in [0, 1, 20, 63] {
        assert_eq!(judged(&mut tuner, &[hungry(shown); 10]), None);
    }
    assert_eq!(judged(&mut tuner, &[]), None, "nobody came");
}

#[test]
fn a_queue_that_was_full_before_a_router_with_nothing_to_do_is_doubled_up_to_a_limit() {
    let mut tuner = Tuner::new(110, RING as u32);
    let pause = [hungry(64), hungry(46), hungry(3)];
    assert_eq!(judged(&mut tuner, &pause), Some(220));
    assert_eq!(judged(&mut tuner, &pause), None, "it was not full any more");
    let long = [&[hungry(64); 20][..], &[hungry(0)]].concat();
    let lengths: Vec<_> = (0..4).map(|_| judged(&mut tuner, &long)).collect();
    assert_eq!(lengths, [Some(440), Some(880), Some(1000), None]);
}

#[test]
fn a_queue_that_is_never_empty_is_cut_down_to_a_burst() {
    let mut tuner = Tuner::new(1000, RING as u32);
    assert_eq!(judged(&mut tuner, &[hungry(64); 100]), Some(875));
    let lengths: Vec<_> = std::iter::from_fn(|| judged(&mut tuner, &[hungry(64); 100])).collect();
    assert_eq!(lengths.last(), Some(&64));
    assert!(lengths.len() < 30, "a third of a second: {lengths:?}");
}

#[test]
fn a_router_that_has_half_a_ring_before_it_needs_no_queue() {
    let mut tuner = Tuner::new(200, RING as u32);
    let busy = Look { room: 100, budget: 64, shown: 10 };
    assert_eq!(judged(&mut tuner, &[busy; 10]), Some(175));
    // Frames lost before such a router were not lost because of a short queue.
    let full = [Look { room: 100, budget: 64, shown: 64 }; 4];
    assert_eq!(judged(&mut tuner, &[&full[..], &[busy]].concat()), Some(154));
}

#[test]
fn a_queue_that_was_too_short_is_not_cut_for_a_while_which_gets_longer() {
    let mut tuner = Tuner::new(1000, RING as u32);
    let (overload, pause) = ([hungry(64); 100], [&[hungry(64); 20][..], &[hungry(0)]].concat());
    let mut waited = Vec::new();
    for _ in 0..9 {
        assert_eq!(judged(&mut tuner, &pause), None, "it is as long as can be");
        let periods = (0..2000).position(|_| judged(&mut tuner, &overload) == Some(875));
        waited.push(periods.expect("it is cut"));
        assert_eq!(judged(&mut tuner, &[&overload[..], &[hungry(0)]].concat()), Some(1000));
    }
    assert!(waited.is_sorted() && waited[0] == 16 && waited[8] == 800, "{waited:?}");
}
