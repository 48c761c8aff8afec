use super::*;

const VHOST: Kind = Kind { class: Class::Vhost, path: Path::Switch, exits: false, far: false };

/// Window of packets of this size and passes of this length, whose cost follows the given parameters.
fn window(frames: u64, octets: u64, batch: u64, [a, b, c]: [f64; 3]) -> Observation {
    let cycles = frames as f64 * (a + b * octets as f64 + c / batch as f64);
    Observation { cycles: cycles as u64, frames, octets: frames * octets, batches: frames / batch }
}

#[test]
fn before_anything_was_seen_there_is_an_estimate() {
    let model = Model::new(VHOST);
    let cost = model.per_frame(60.0, 16.0);
    assert_eq!(cost.basis, Basis::Default);
    assert!(cost.cycles > 300.0);
    // Estimates are ordered by expected cost.
    let of = |kind| Model::new(kind).per_frame(60.0, 16.0).cycles;
    assert!(of(Kind { path: Path::Tap, ..VHOST }) > of(Kind { path: Path::Xdp, ..VHOST }));
    assert!(of(Kind { far: true, ..VHOST }) > of(VHOST));
    assert!(of(Kind { exits: true, ..VHOST }) > of(VHOST));
    let mut same = model;
    same.learn(&Observation::default());
    assert_eq!(same.per_frame(60.0, 16.0), cost, "nothing says nothing");
}

#[test]
fn what_was_seen_decides_within_a_second() {
    for truth in [[100.0, 0.2, 5000.0], [2600.0, 1.0, 9000.0], [9000.0, 0.0, 60_000.0]] {
        let mut model = Model::new(VHOST);
        for _ in 0..10 {
            model.learn(&window(20_000, 60, 20, truth));
        }
        let (cost, wanted) = (model.per_frame(60.0, 20.0), truth[0] + truth[1] * 60.0 + truth[2] / 20.0);
        assert!((cost.cycles / wanted - 1.0).abs() < 0.05, "{} and not {wanted}", cost.cycles);
        assert_eq!(cost.basis, Basis::Measured { frames: 200_000 });
    }
}

#[test]
fn several_sizes_and_passes_tell_the_whole_line() {
    let truth = [900.0, 0.9, 30_000.0];
    let mut model = Model::new(VHOST);
    for n in 0..50 {
        let (octets, batch) = ([60, 1514, 512][n % 3], [1, 8, 64, 32][n % 4]);
        model.learn(&window(10_240, octets, batch, truth));
    }
    for (octets, batch) in [(60.0, 64.0), (1514.0, 16.0), (1000.0, 2.0)] {
        let (cost, wanted) =
            (model.per_frame(octets, batch).cycles, truth[0] + truth[1] * octets + truth[2] / batch);
        assert!((cost / wanted - 1.0).abs() < 0.08, "{octets}, {batch}: {cost} and not {wanted}");
    }
}

#[test]
fn where_nothing_was_seen_what_is_usual_fills_in() {
    let mut model = Model::new(VHOST);
    let before = model.per_frame(1514.0, 16.0).cycles;
    for _ in 0..50 {
        model.learn(&window(20_000, 60, 16, [150.0, 0.5, 20_000.0]));
    }
    // Small packets cost 150 less than assumed; so will large ones, or a little less.
    let after = model.per_frame(1514.0, 16.0).cycles;
    assert!(after < before && after > 0.5 * before, "{before} became {after}");
}

#[test]
fn what_has_changed_is_followed() {
    let mut model = Model::new(VHOST);
    let (near, far) = ([300.0, 0.2, 5000.0], [900.0, 0.6, 9000.0]);
    for truth in [near, far, near] {
        for _ in 0..150 {
            model.learn(&window(20_000, 60, 32, truth));
        }
        let wanted = truth[0] + truth[1] * 60.0 + truth[2] / 32.0;
        let cost = model.per_frame(60.0, 32.0).cycles;
        assert!((cost / wanted - 1.0).abs() < 0.1, "{cost} and not {wanted}");
    }
}

#[test]
fn numbers_that_make_no_sense_make_no_nonsense() {
    let mut model = Model::new(VHOST);
    for new in [
        Observation { cycles: u64::MAX, frames: 1, octets: 0, batches: 0 },
        Observation { cycles: 1, frames: u64::MAX, octets: u64::MAX, batches: u64::MAX },
        Observation { cycles: 5, frames: 5, octets: 0, batches: 0 },
    ] {
        model.learn(&new);
        let cost = model.per_frame(60.0, 0.0).cycles;
        assert!(cost.is_finite() && cost > 0.0, "{cost}");
    }
}

#[test]
fn counters_that_begin_anew_count_from_there() {
    let (old, new) = (window(1000, 60, 10, [100.0, 0.0, 0.0]), window(10, 60, 10, [100.0, 0.0, 0.0]));
    assert_eq!(new.since(&old), new);
    assert_eq!(old.since(&new).frames, 990);
}
