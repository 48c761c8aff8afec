use super::*;

fn counters(more: &[(&str, u64)]) -> Counters {
    let plain = [
        ("near.in.rx.frames", 90),
        ("near.vcpu0.in.rx_frames", 90),
        ("near.vcpu0.forwarded", 90),
        ("near.vcpu0.out.tx_frames", 90),
        ("near.out.tx.frames", 90),
    ];
    let named = plain.iter().chain(more).map(|(name, count)| ((*name).to_owned(), *count));
    Counters::from_answer(&api::Counters { counters: named.collect(), ..api::Counters::default() })
}

fn outcome(ratio: (f64, f64, f64), lost: &[(&str, u64)]) -> Outcome {
    Outcome {
        name: "test",
        acts: 1,
        seconds: 60.0,
        rate: 1e6,
        ratio,
        control: 0.0,
        supervisor: 0.0,
        near: [0.0; 2],
        waited: [0.0; 2],
        seen: Observations { longest: LONGEST_ANSWER, ..Observations::default() },
        counters: Duration::ZERO,
        most: (0, 0),
        left: (0, 0),
        lost: lost.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        lines: 0,
        faults: Vec::new(),
    }
}

fn judged(mut outcome: Outcome) -> usize {
    outcome.judge();
    outcome.faults.len()
}

#[test]
fn what_is_neither_taken_nor_dropped_under_a_name_is_a_fault() {
    assert!(books(90, &counters(&[])).is_empty());
    assert!(books(95, &counters(&[("near.in.rx.drop_no_buffer", 5)])).is_empty());
    assert_eq!(books(91, &counters(&[])).len(), 1);
    assert_eq!(books(90, &counters(&[("near.vcpu0.drop_ttl", 1)])).len(), 1, "its own books");
}

#[test]
fn a_neighbour_may_lose_frames_in_full_queues_of_its_own_and_nothing_else() {
    assert_eq!(judged(outcome((0.9, 0.97, 1.0), &[("near.vcpu0.out.drop_tx_full", 7)])), 0);
    assert_eq!(judged(outcome((0.9, 0.97, 1.0), &[("near.vcpu0.drop_malformed", 1)])), 1);
}

#[test]
fn a_row_names_its_attack_and_has_all_figures() {
    let row = crate::attacks::kept::row(&outcome((0.9, 0.97, 1.0), &[]));
    let wanted = "| test | 0.0 | 0 | 0 | 0 / 0 | 0 / 0 | 0 / 0 | 100 | 0.970 (0.900 to 1.000) |";
    assert_eq!(row, wanted);
}

#[test]
fn a_lower_rate_a_late_answer_and_an_attack_that_did_nothing_are_faults() {
    assert_eq!(judged(outcome((0.9, 0.96, 1.0), &[])), 1);
    assert_eq!(judged(outcome((f64::NAN, f64::NAN, f64::NAN), &[])), 1);
    let mut late = outcome((1.0, 1.0, 1.0), &[]);
    late.seen.longest = LONGEST_ANSWER + Duration::from_millis(1);
    assert_eq!(judged(late), 1);
    let mut idle = outcome((1.0, 1.0, 1.0), &[]);
    idle.acts = 0;
    assert_eq!(judged(idle), 1);
}

#[test]
fn the_median_of_pairs_counts() {
    let slice = |forwarded| Slice { seconds: 2.0, forwarded, ran: CpuTimes::default() };
    let pairs: Vec<_> = [50, 98, 99, 100, 101, 102, 103].map(|n| (slice(n), slice(100))).into();
    let (low, median, high) = ratio(&pairs);
    assert!((median - 1.0).abs() < 1e-9 && low < median && median < high, "{low} {median} {high}");
}

#[test]
fn rest_takes_a_third_of_the_time_of_an_attack_and_who_is_first_alternates() {
    for (seconds, pairs) in [(6, 6), (60, 12), (600, 120)] {
        let turns = turns(Duration::from_secs(seconds));
        let time = |with: bool| -> Duration {
            let all = turns.iter().flatten().filter(|turn| turn.with == with);
            all.map(|turn| turn.length).sum()
        };
        assert_eq!((turns.len(), time(true)), (pairs, Duration::from_secs(seconds)));
        assert!(time(false) * 3 <= time(true) && time(false) * 4 > time(true), "{:?}", time(false));
        assert!(turns.iter().all(|[a, b]| a.with != b.with), "a pair has both");
        assert!(turns.windows(2).all(|pair| pair[0][0].with != pair[1][0].with), "by turns");
    }
}
