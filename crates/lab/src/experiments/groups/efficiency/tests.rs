use super::*;

fn counters(all: &[(&str, u64)]) -> Counters {
    let counters = all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Counters { counters, ..Counters::default() }
}

#[test]
fn work_is_what_timed_passes_took_for_all_frames_and_polling_is_none() {
    let names = ["a_0/vhost", "a_1/vhost"];
    let of = |frames: u64| {
        let mut all = Vec::new();
        for name in names {
            all.push((format!("{name}.work.frames"), frames / 10));
            all.push((format!("{name}.work.cycles"), frames / 10 * 300));
            all.push((format!("{name}.frames"), 2 * frames));
            all.push((format!("{name}.polls_empty"), 1_000_000 * frames));
        }
        all.push(("a_0/vcpu0.work.frames".to_owned(), frames));
        all.push(("a_0/vcpu0.work.cycles".to_owned(), frames * 100));
        all.push(("a_0.vcpu0.forwarded".to_owned(), frames));
        all.push(("a_1/vcpu0.work.frames".to_owned(), 0));
        counters(&all.iter().map(|(name, value)| (name.as_str(), *value)).collect::<Vec<_>>())
    };
    let (vhost, vcpu) = worked(&of(1000), &of(2000), 1e6).unwrap();
    // 2 x 2000 frames at 300 cycles, and 1000 at 100, of a million cycles a second.
    assert!((vhost - 1.2).abs() < 1e-9 && (vcpu - 0.1).abs() < 1e-9, "{vhost} {vcpu}");
    assert!(worked(&counters(&[]), &counters(&[("a.near.rx.frames", 7)]), 1e6).is_err());
}

#[test]
fn two_cpus_carry_two_packets_in_the_time_that_one_costs() {
    let each = Costs { generator: 500.0, vhost: 1000.0, vcpu: 500.0 };
    assert!((each.carried_by(2) - 1000.0).abs() < 1e-9);
}

#[test]
fn a_load_is_carried_if_at_most_one_percent_of_it_is_lost() {
    assert!(is_carried(100.0, 99.0) && is_carried(100.0, 101.0));
    assert!(!is_carried(100.0, 98.9) && !is_carried(0.0, 0.0));
}
