use super::*;

#[test]
fn the_protected_router_has_two_thirds_of_the_weight_however_many_there_are() {
    for routers in [2, 3, 8] {
        let weight = |router| {
            let line = Control::Shares.line(router, routers, 0.0);
            let table: toml::Table = toml::from_str(&line).unwrap();
            table["sched"]["weight"].as_integer().unwrap()
        };
        let all: i64 = (0..routers).map(weight).sum();
        assert_eq!(3 * weight(0), 2 * all);
    }
    assert_eq!(Control::Guarantee.line(0, 2, 96_454.4), "guarantee = \"96454pps\"\n");
    assert_eq!(Control::Guarantee.line(1, 2, 96_454.4), "");
    assert_eq!(Control::None.line(0, 2, 96_454.4), "");
}

#[test]
fn the_first_router_is_offered_64_percent_and_the_second_goes_beyond_the_rest() {
    for kpps in &SECOND {
        assert!((kpps[0] / PAPER - 0.64).abs() < 0.01);
    }
    let total = |kpps: &[f64; 2]| (kpps[0] + kpps[1]) / PAPER;
    assert!(SECOND.first().map(total).unwrap() < 1.0 && SECOND.last().map(total).unwrap() > 1.15);
}

#[test]
fn each_case_is_found_by_the_end_of_its_name() {
    let options = Options { cpus: vec![0, 1], ..Options::default() };
    let names: Vec<String> = cases(&options)
        .unwrap()
        .into_iter()
        .map(|case| match case {
            Case::Alone(experiment) => experiment.case,
            Case::Alternating(first, _) => first.case,
        })
        .collect();
    assert_eq!(names.len(), 4 + 9 + 1);
    for (end, link) in [
        ("/2-routers/vr1-overloaded/no-control", "/tap/"),
        ("/2-routers/vr1-overloaded/no-control/macvtap", "/macvtap"),
        ("/2-routers/no-control", "/tap/"),
        ("/2-routers/guarantee/macvtap", "/macvtap"),
        ("/8-routers/shares", "/tap/"),
    ] {
        let found: Vec<&String> = names.iter().filter(|name| name.ends_with(end)).collect();
        assert!(found.len() == 1 && found[0].contains(link), "{end}: {found:?}");
    }
}
