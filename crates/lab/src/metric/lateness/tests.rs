use super::*;

fn trials(late_ms: impl IntoIterator<Item = u64>, was_stolen: bool) -> Vec<Trial> {
    late_ms.into_iter().map(|ms| Trial { late: Duration::from_millis(ms), was_stolen }).collect()
}

#[test]
fn stolen_trials_are_dropped_and_counted() {
    let mut all = trials(1..=100, false);
    all.extend(trials([5000; 7], true));
    let late = TimerLateness::of(&all).unwrap();
    assert_eq!(late, TimerLateness { trials: 100, stolen: 7, median_ms: 50.0, p99_ms: 99.0 });
    // The same trials without steal time.
    all.iter_mut().for_each(|trial| trial.was_stolen = false);
    let late = TimerLateness::of(&all).unwrap();
    assert_eq!((late.trials, late.stolen, late.p99_ms), (107, 0, 5000.0));
}

#[test]
fn too_few_trials_tell_no_percentile() {
    let mut all = trials([1; TRIALS - 1], false);
    all.extend(trials([1; TRIALS], true));
    let why = TimerLateness::of(&all).unwrap_err().to_string();
    assert!(why.contains("99 trials count and 100 do not"), "{why}");
    all.extend(trials([1], false));
    TimerLateness::of(&all).unwrap();
}

#[test]
fn a_tick_of_steal_on_its_cpu_marks_one_trial() {
    let cores = |steal| BTreeMap::from([(3, CoreTicks { steal, ..CoreTicks::default() })]);
    assert_eq!((stolen(&cores(4), 3).unwrap(), stolen(&cores(5), 3).unwrap()), (4, 5));
    assert!(stolen(&cores(4), 2).unwrap_err().to_string().contains("CPU 2"));
}

#[test]
fn a_thread_that_sleeps_tells_how_late_it_was() {
    let sleeper = Sleeper::start(cores::allowed().unwrap()[0]).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while !sleeper.is_enough() && Instant::now() < patience {
        sleep(SLEEP);
    }
    let late = sleeper.end().unwrap();
    assert!(late.trials >= TRIALS && late.p99_ms >= late.median_ms && late.median_ms > 0.0, "{late:?}");
    assert!(Sleeper::start(usize::MAX).unwrap().end().is_err(), "there is no such CPU");
}
