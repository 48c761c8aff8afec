use super::super::stages::multistage;
use super::*;

fn all(options: &Options) -> Vec<Vec<Case>> {
    vec![
        placements(options),
        parallel(options),
        multistage(options),
        priorities(options),
        threads(options),
        reservations(options),
        reserved_queues(options),
    ]
}

#[test]
fn every_case_has_a_name_that_no_other_one_ends_with_and_lines_that_are_toml() {
    for cases in all(&Options { cpus: vec![0, 1, 2, 3, 4], ..Options::default() }) {
        for (name, stand) in &cases {
            let like = cases.iter().filter(|(other, _)| other.ends_with(&format!("/{name}"))).count();
            assert_eq!((like, cases.iter().filter(|(other, _)| other == name).count()), (0, 1), "{name}");
            toml::from_str::<toml::Table>(&stand.as_ref().unwrap().lines).unwrap();
        }
    }
}

#[test]
fn on_two_cpus_what_needs_more_says_so_and_the_rest_stands() {
    let two = Options { cpus: vec![0, 1], ..Options::default() };
    let refused: Vec<String> = all(&two)
        .into_iter()
        .flatten()
        .filter_map(|(name, stand)| Some(format!("{name}: {}", stand.err()?)))
        .collect();
    assert_eq!(refused.len(), 6 + 7 + 2, "{refused:#?}");
    assert!(refused.iter().all(|line| line.contains("CPUs, there are 2")), "{refused:#?}");
}

#[test]
fn a_reservation_says_runtime_and_period_in_microseconds() {
    assert_eq!(
        reserved(Class::Vhost, 0.35, 10.0),
        "sched = { vhost = { policy = \"deadline\", runtime = \"3500us\", period = \"10000us\" } }\n"
    );
    let apart = apart(&Options { cpus: vec![2, 5], ..Options::default() }, Class::Vcpu).unwrap();
    assert_eq!((apart.lines.as_str(), apart.cpu), ("pin = { vcpu = \"5\", vhost = \"2\" }\n", 5));
    assert!(apart.beside_load);
}
