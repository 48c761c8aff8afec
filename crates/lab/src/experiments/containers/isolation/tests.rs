use super::*;

#[test]
fn only_the_router_that_is_not_overloaded_is_protected() {
    let lines = |control: Control, promised| control.lines(1, promised);
    let weight = |promised| {
        let table: toml::Table = toml::from_str(&lines(Control::Shares, promised)).unwrap();
        table["sched"]["weight"].as_integer().unwrap()
    };
    assert_eq!((weight(Some(4e5)), weight(None)), (2, 1));
    for control in [Control::Guarantee, Control::GuaranteeQueued] {
        assert!(lines(control, Some(400_000.4)).contains("guarantee = \"400000pps\"\n"));
        assert!(!lines(control, None).contains("guarantee"));
    }
    let sched = |promised| {
        let table: toml::Table = toml::from_str(&lines(Control::Deadline, promised)).unwrap();
        table.get("sched").map(|sched| sched["policy"].as_str().unwrap().to_owned())
    };
    assert_eq!((sched(Some(4e5)).as_deref(), sched(None)), (Some("deadline"), None));
    let queued = Control::ALL.into_iter().filter(|control| control.qdisc().is_some());
    assert_eq!(queued.collect::<Vec<_>>(), [Control::GuaranteeQueued]);
    for control in [Control::Softirqs, Control::Threads] {
        assert_eq!(lines(control, Some(4e5)), lines(control, None));
    }
}

#[test]
fn what_is_protected_or_not_by_threads_has_threads() {
    for control in Control::ALL {
        let has = control.lines(1, None).contains("threaded = true");
        assert_eq!((has, control.alone(1).contains("threaded = true")), (control != Control::Softirqs, has));
    }
}

#[test]
fn the_victim_is_offered_the_papers_400_or_800() {
    let part = |overloaded| {
        let overload = Overload { routers: ROUTERS, overloaded };
        overload.part_of(overload.victim())
    };
    assert!((part(0) * 2.0 - part(1)).abs() < 1e-9, "{} {}", part(0), part(1));
}
