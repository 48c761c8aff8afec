use sched::account::CoreSplit;

use super::*;

#[test]
fn what_interrupts_take_is_told_where_they_have_a_core_of_their_own() {
    let options = Options { cpus: vec![0, 1, 2, 3, 4], ..Options::default() };
    let core = |interrupts: f64| CoreSplit {
        irq: interrupts / 4.0,
        softirq: interrupts * 0.75,
        idle: 100.0 - interrupts,
        ..CoreSplit::default()
    };
    let cores = [(1, core(92.0)), (3, core(4.0))].into();
    let split = Split { interval: 100.0, cores, ..Split::default() };
    let step = Step { seconds: 1.0, offered: vec![2000], forwarded: vec![1000] };
    let told = |name: &str| {
        let (_, stand) = cases::threads(&options).into_iter().find(|(case, _)| case == name).unwrap();
        told(FULL[0], &step, &stand.unwrap(), &split)
    };
    let own = told("2v1c/own-cores");
    for cell in [("core0_interrupts_at_1.0", 92.0), ("core0_idle_at_1.0", 8.0), ("softirq_at_1.0", 3.0)] {
        assert!(own.iter().any(|(name, value)| (name.as_str(), *value) == cell), "{cell:?}: {own:?}");
    }
    assert!(!told("2v1c/together").iter().any(|(name, _)| name.starts_with("core0")));
}

#[test]
fn what_is_judged_takes_as_long_as_was_asked_for() {
    let options = Options { step: Some(5.0), ..Options::default() };
    let times = |loads: Loads, options: &Options| {
        let all = loads.each().iter();
        all.map(|load| loads.times_of(*load, options).1.as_secs_f64()).collect::<Vec<_>>()
    };
    assert_eq!(times(Loads::FewInPeriods, &options), [1.0, 5.0, 1.0]);
    assert_eq!((times(Loads::All, &options), times(Loads::Full, &options)), (vec![5.0; 7], vec![5.0]));
    let nobody = Options::default();
    assert_eq!((times(Loads::All, &nobody), times(Loads::Full, &nobody)), (vec![0.6; 7], vec![1.0]));
}
