use super::*;

/// Runs `passes` passes of `frames` frames that cost `each`; every `nth` is torn by a million cycles. Returns
/// the whole passes and their cost per frame.
fn whole(meter: &mut Meter, passes: u64, frames: u64, each: u64, nth: u64) -> (u64, u64) {
    let (mut whole, mut cycles) = (0, 0);
    for n in 1..=passes {
        let torn = if nth > 0 && n % nth == 0 { 1_000_000 } else { 0 };
        if let Timed::Whole(took) = meter.judge(frames * each + torn, frames) {
            (whole, cycles) = (whole + 1, cycles + took);
        }
    }
    (whole, cycles / (whole * frames).max(1))
}

#[test]
fn torn_passes_are_left_out() {
    let mut meter = Meter::default();
    whole(&mut meter, 100, 64, 100, 0);
    assert_eq!(whole(&mut meter, 1000, 64, 100, 10), (900, 100));
    // A single frame of 2600 cycles, as with a TAP.
    let mut meter = Meter::default();
    whole(&mut meter, 100, 1, 2600, 0);
    assert_eq!(whole(&mut meter, 1000, 1, 2600, 5), (800, 2600));
}

#[test]
fn frames_that_cost_more_from_now_on_are_soon_usual() {
    let mut meter = Meter::default();
    whole(&mut meter, 100, 64, 20, 0);
    let (soon, each) = whole(&mut meter, 100, 64, 3000, 0);
    assert!(soon >= 80 && each == 3000, "{soon} of 100");
    // A lower cost is adopted at once.
    assert_eq!(whole(&mut meter, 100, 64, 10, 0), (100, 10));
}

#[test]
fn a_first_pass_that_was_torn_is_forgotten() {
    let mut meter = Meter::default();
    meter.judge(50_000_000, 64);
    whole(&mut meter, 200, 64, 100, 0);
    assert_eq!(meter.judge(64 * 1000, 64), Timed::Preempted);
}

#[test]
fn one_pass_in_some_is_timed() {
    let mut meter = Meter::default();
    let timed = (0..10 * EVERY).filter(|_| {
        let begun = meter.begin();
        meter.end(begun, 64).is_some()
    });
    assert_eq!(timed.count(), 10);
}

#[test]
fn an_empty_pass_does_not_use_its_turn_up() {
    let mut meter = Meter::default();
    for _ in 0..100 {
        assert!(meter.begin().is_some());
    }
    let begun = meter.begin();
    assert!(meter.end(begun, 1).is_some());
    assert!(meter.begin().is_none());
}
