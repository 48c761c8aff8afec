use super::*;

#[test]
fn what_is_not_of_the_frames_does_not_count() {
    let rest = StolenTime { elapsed: 0.5, lost: 0.002, gaps: 125.0, away: 0.0 };
    let costs = Costs { rest, interrupt: 20e-6 };
    // In 2 s: 0.008 s by 500 ticks, 0.02 s by 1000 interrupts, and the rest by work on frames.
    let taken = StolenTime { elapsed: 2.0, lost: 0.628, gaps: 1500.0, away: 0.0 };
    assert!((costs.burnt(&taken) - 0.3).abs() < 1e-9);
    // An interrupt that coincides with a tick adds no time.
    let fewer = StolenTime { elapsed: 2.0, lost: 0.008, gaps: 400.0, away: 0.0 };
    assert!(costs.burnt(&fewer).abs() < 1e-9);
}
