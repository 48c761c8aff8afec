use alloc::vec::Vec;

use ledger::Group;
use proptest::prelude::*;

use super::*;

fn arp() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[8, 6]);
    frame
}

/// BFD over one hop.
fn bfd() -> [u8; 66] {
    let mut frame = [0; 66];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    (frame[22], frame[23]) = (255, 17);
    frame[36..38].copy_from_slice(&3784u16.to_be_bytes());
    frame
}

#[test]
fn a_flood_of_one_class_costs_the_others_nothing() {
    let (mut gate, counters) = (Gate::new(&Limits::default()), PuntCounters::default());
    for now in 0..1_000_000 {
        gate.pass(&arp(), now, &counters);
        if now % 1000 == 0 {
            assert_eq!(gate.pass(&bfd(), now, &counters), Some(Class::Bfd));
        }
    }
    assert_eq!((counters.bfd.get(), counters.drop_bfd.get()), (1000, 0));
    assert_eq!((counters.neighbours.get(), counters.drop_neighbours.get()), (2_499, 997_501));
}

#[test]
fn what_anybody_can_send_takes_no_tokens_of_neighbours() {
    let (mut gate, counters) = (Gate::new(&Limits::default()), PuntCounters::default());
    let mut far = bfd();
    far[36..38].copy_from_slice(&4784u16.to_be_bytes());
    while gate.pass(&far, 0, &counters).is_some() {}
    assert_eq!(gate.pass(&bfd(), 0, &counters), Some(Class::Bfd));
    assert_eq!((counters.drop_multihop.get(), counters.drop_bfd.get()), (1, 0));
}

#[test]
fn limits_are_set_for_each_class() {
    let mut limits = Limits::default();
    let none = Limit { rate: 0, burst: 0 };
    limits.set(Class::Neighbours, none);
    assert_eq!(
        (limits.of(Class::Neighbours), limits.of(Class::Bfd)),
        (none, Limits::default().of(Class::Bfd))
    );
    let (mut gate, counters) = (Gate::new(&Limits::default()), PuntCounters::default());
    gate.set(&limits);
    assert_eq!(gate.pass(&arp(), 0, &counters), None);
    assert_eq!(counters.drop_neighbours.get(), 1);
}

#[test]
fn classes_are_in_the_order_of_their_numbers() {
    for (at, class) in Class::ALL.into_iter().enumerate() {
        assert_eq!(class as usize, at);
        let [passed, dropped] = [at, at + Class::ALL.len()].map(|at| PuntCounters::FIELDS[at].0);
        assert_eq!((passed, dropped.strip_prefix("drop_")), (class.name(), Some(class.name())));
    }
}

proptest! {
    #[test]
    fn each_frame_is_counted_once(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..60)) {
        let few = Limits([Limit { rate: 1, burst: 2 }; Class::ALL.len()]);
        let (mut gate, counters) = (Gate::new(&few), PuntCounters::default());
        let passed: Vec<Class> = frames.iter().filter_map(|frame| gate.pass(frame, 0, &counters)).collect();
        let (mut sum, mut through) = (0, 0);
        counters.each(&mut |name, value| {
            sum += value;
            through += if name.starts_with("drop_") { 0 } else { value };
        });
        prop_assert_eq!((sum as usize, through as usize), (frames.len(), passed.len()));
    }
}
