use super::*;

fn samples(count: u64, of: impl Fn(u64) -> (u64, usize)) -> Vec<Usage> {
    let usage = |minute| {
        let (heap, descriptors) = of(minute);
        Usage { at: Duration::from_secs(60 * minute), heap, share: heap + 30_000, descriptors, threads: 9 }
    };
    (0..count).map(usage).collect()
}

#[test]
fn the_slope_of_a_line_is_found() {
    let line: Vec<_> = (0..9).map(|x| (f64::from(x), 5.0 + 2.5 * f64::from(x))).collect();
    assert!((slope(&line) - 2.5).abs() < 1e-9);
    assert_eq!(slope(&[(1.0, 2.0)]), 0.0);
}

#[test]
fn what_comes_and_goes_is_no_growth() {
    let flat = samples(30, |minute| (5000 + minute % 3 * 100, 40 + (minute % 2) as usize));
    assert!(growth("plane", &flat).is_empty());
    // Growth during warm-up does not count.
    let warm = samples(30, |minute| (if minute < 5 { 1000 } else { 9000 }, if minute < 5 { 10 } else { 90 }));
    assert!(growth("plane", &warm).is_empty());
}

#[test]
fn a_leak_is_found() {
    let leak = samples(30, |minute| (5000 + minute * 100, 40));
    assert_eq!(growth("plane", &leak), ["plane: its heap grows by 100.0 KiB a minute"]);
    let open = samples(30, |minute| (5000, 40 + minute as usize));
    let found = growth("plane", &open);
    assert!(found.len() == 1 && found[0].ends_with(" descriptors"), "{found:?}");
}
