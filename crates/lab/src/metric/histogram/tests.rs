use super::*;

#[test]
fn a_time_lies_in_its_bucket_which_is_a_16th_of_it_at_most() {
    assert!((0..2000).is_sorted_by_key(bucket));
    for ns in (0..2000)
        .chain((10..40).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + (1 << (bits - 2))]))
    {
        let number = bucket(ns);
        assert!(end(number) > ns, "{ns}: {number}");
        assert!(number == 0 || end(number - 1) <= ns, "{ns}: {number}");
        let width = end(number) - if number == 0 { 0 } else { end(number - 1) };
        assert!(width as f64 <= (ns as f64 / 16.0).max(1.0), "{ns}: {width}");
    }
    assert!(end(bucket(u64::MAX / 2)) > u64::MAX / 4);
}

#[test]
fn percentiles_and_parts_are_those_of_all_times() {
    let mut histogram = Histogram::default();
    assert_eq!((histogram.percentile(0.5), histogram.count()), (None, 0));
    for us in 1..=1000 {
        histogram.add(Duration::from_micros(us));
    }
    for (part, us) in [(0.5, 500.0), (0.99, 990.0), (0.001, 1.0)] {
        let found = histogram.percentile(part).unwrap();
        assert!(found >= us && found <= us * (1.0 + 1.0 / 16.0) + 0.1, "{part}: {found}");
    }
    assert_eq!(histogram.percentile(1.0), Some(1000.0));
    let told = histogram.told("_at_full");
    assert_eq!(told.get("probes_at_full"), Some(1000.0));
    assert_eq!(told.get("below_16384us_at_full"), Some(100.0));
    let below = told.get("below_256us_at_full").unwrap();
    assert!((23.0..=25.6).contains(&below), "{below}");
    assert!(told.get("p99_us_at_full").unwrap() > told.get("p50_us_at_full").unwrap());
}

#[test]
fn nothing_that_came_tells_no_time() {
    let told = Histogram::default().told("");
    assert_eq!(told.iter().collect::<Vec<_>>(), [("probes", 0.0)]);
}
