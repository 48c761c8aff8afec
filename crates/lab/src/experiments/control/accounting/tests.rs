use sched::account::{CoreTicks, Interrupts, ThreadTimes, TimeCategory, Traced};

use super::*;

fn figure(sample: &Sample, name: &str) -> f64 {
    sample.more.get(name).unwrap()
}

/// Readings ten seconds apart: a vCPU ran for 3 s, a vhost thread for 2 s and softirqs for 1.5 s, of which ticks saw 1 s.
fn ten_seconds() -> (Taken, Taken) {
    let core = CoreTicks { user: 320, system: 200, softirq: 100, idle: 380, ..CoreTicks::default() };
    let vcpu =
        ThreadTimes { tid: 5, cpu: 1, run_ns: 3_000_000_000, user: 300, guest: 300, ..Default::default() };
    let vhost = ThreadTimes { tid: 6, cpu: 1, run_ns: 2_000_000_000, system: 200, ..Default::default() };
    let traced = |softirq_ns| {
        let core = Interrupts { irq_ns: 0, softirq_ns };
        Some(Traced { cores: [(1, core)].into(), ..Traced::default() })
    };
    let before = Taken { cores: [(1, CoreTicks::default())].into(), traced: traced(0), ..Taken::default() };
    let threads = [("a", TimeCategory::Guest, vcpu), ("b", TimeCategory::Vhost, vhost)];
    let after = Taken {
        at_ns: 10_000_000_000,
        cores: [(1, core)].into(),
        threads: threads.map(|(name, column, times)| (name.to_owned(), (column, times))).into(),
        traced: traced(1_500_000_000),
        ..Taken::default()
    };
    (before, after)
}

#[test]
fn a_burn_is_looked_for_in_its_column() {
    let told = |place| told(place, 1, ten_seconds(), 0.28).unwrap();
    let near = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-6, "{value} and not {wanted}");
    for (place, said, by_ticks) in
        [(Place::Vcpu, 30.0, 30.0), (Place::Vhost, 20.0, 20.0), (Place::Softirq, 15.0, 10.0)]
    {
        let sample = told(place);
        near(sample.value, said);
        near(figure(&sample, "apart_points"), said - 28.0);
        near(figure(&sample, "by_ticks_percent"), by_ticks);
        near(figure(&sample, "guest"), 30.0);
    }
    assert!(super::told(Place::Vcpu, 0, ten_seconds(), 0.3).is_err(), "nothing is known of that CPU");
}

#[test]
fn what_a_thread_burns_by_its_own_clock_is_what_the_account_says() {
    let cpus = cores::allowed().unwrap();
    let mut burn = Burner::start(cpus[0]).unwrap();
    let threads = burn.threads();
    let mut reader = Reader::by_ticks().unwrap();
    let mut look = |burn: &Burner| (burn.ran(), reader.look(&threads).unwrap(), burn.ran());
    let (first, before, begun) = look(&burn);
    let took = burn.go(Duration::from_secs(1)).unwrap();
    let (over, after, last) = look(&burn);
    let (took, doubt) = burn.judged(took).unwrap();
    assert!(took > 0.0 && doubt == 0.0);
    let said = Split::between(&before, &after).threads.values().next().unwrap().run * 1e-9;
    // The thread may run between the reading of the account and that of its clock, for long if a busy host delays the second
    // reading.
    let [least, most] = [over - begun, last - first].map(|ran| ran.as_secs_f64());
    assert!((least - 0.1..=most + 0.1).contains(&said), "{said} s, and by its own clock {least} to {most}");
}

#[test]
fn there_is_a_case_for_each_place_and_for_the_costs() {
    let options = Options { cpus: vec![0, 1], ..Options::default() };
    let name = |case: Case| match case {
        Case::Alone(experiment) => experiment.case,
        Case::Alternating(..) => panic!("each stands for itself"),
    };
    let cases: Vec<String> = cases(&options).unwrap().into_iter().map(name).collect();
    let burns = ["kvm/virtio-net/vcpu", "vhost", "softirq"];
    let costs = ["cost/8-routers", "tracer/interrupt", "tracer/kvm/virtio-net/tap"];
    assert_eq!(cases, [burns, costs].concat());
}
