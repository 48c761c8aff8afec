use super::*;

#[test]
fn pauses_double_up_to_ten_seconds() {
    let mut back_off = BackOff::default();
    let pauses: Vec<u128> = (0..9).map(|_| back_off.failed(Duration::ZERO).as_millis()).collect();
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    for _ in 0..1000 {
        assert_eq!(back_off.failed(Duration::ZERO), LONGEST);
    }
}

#[test]
fn a_minute_of_health_forgets_failures() {
    let mut back_off = BackOff::default();
    for _ in 0..5 {
        back_off.failed(Duration::from_secs(59));
    }
    assert_eq!(back_off.failed(Duration::from_secs(59)), Duration::from_millis(3200));
    assert_eq!(back_off.failed(Duration::from_secs(60)), Duration::from_millis(100));
    assert_eq!(back_off.failed(Duration::from_secs(1)), Duration::from_millis(200));
    back_off.forget();
    assert_eq!(back_off.failed(Duration::ZERO), Duration::from_millis(100));
}
