use super::*;

#[test]
fn what_is_due_is_sent_and_what_is_late_is_left_out() {
    let second = Duration::from_secs(1);
    let (micros, burst) = (Duration::from_micros, 16);
    let mut lane = Due::default();
    assert_eq!(lane.now(Duration::ZERO, 1e6, burst), 0);
    assert_eq!(lane.now(micros(15), 1e6, burst), 0);
    assert_eq!(lane.now(micros(17), 1e6, burst), burst);
    assert_eq!(Due::default().now(micros(71), 1e5, burst), 7);
    assert_eq!(Due::default().now(micros(1001), 1e3, burst), 1);
    lane.sent += burst;
    assert_eq!(lane.now(micros(17), 1e6, burst), 0);
    // After a second without the CPU, only the last two milliseconds' worth of the million due frames is
    // sent.
    let mut all = 0;
    while lane.now(second, 1e6, burst) > 0 {
        lane.sent += burst;
        all += burst;
    }
    assert!((1_980..=2_000).contains(&all), "{all}");
    assert_eq!(Due::default().now(second, f64::INFINITY, burst), burst);
}
