use std::time::Duration;

use super::{Case, LIST, find, port_to_port, ring_to_ring};
use crate::experiment::{Experiment, Options, Sample, run};
use crate::rig::Through;

const SHORT: Duration = Duration::from_millis(5);

fn slice(experiment: &mut Experiment) -> Sample {
    experiment.prepare().unwrap();
    let sample = experiment.run_slice(SHORT).unwrap();
    experiment.finish().unwrap();
    sample
}

fn figure(sample: &Sample, name: &str) -> f64 {
    sample.more.get(name).unwrap()
}

const BOTH: [Through; 2] = [Through::Wire, Through::Switch];

#[test]
fn port_to_port_loses_nothing() {
    for through in BOTH {
        for rate in [None, Some(1e6)] {
            let sample = slice(&mut port_to_port::case(through, &Options { rate, ..Options::default() }));
            assert!(sample.packets > 0);
            assert_eq!((sample.lost, figure(&sample, "bad")), (0, 0.0));
        }
    }
}

#[test]
fn the_switch_is_on_the_way_and_floods_nothing() {
    let sample = slice(&mut port_to_port::case(Through::Switch, &Options::default()));
    assert_eq!(sample.ledger.get("in.in_frames"), Some(sample.packets));
    assert_eq!(sample.ledger.get("out.out_frames"), Some(sample.packets));
    assert_eq!(sample.ledger.total("flood_"), 0);
}

#[test]
fn ring_to_ring_loses_and_damages_nothing() {
    for through in BOTH {
        for (entries, frame) in [(64, 64), (256, 60), (256, 1514)] {
            let mut experiment =
                ring_to_ring::case(through, &Options { frame, ..Options::default() }, entries);
            assert_eq!(experiment.case, format!("ring-{entries}/{frame}"));
            let sample = slice(&mut experiment);
            assert!(sample.packets > 0);
            assert_eq!((sample.lost, figure(&sample, "damaged")), (0, 0.0));
            assert_eq!(sample.ledger.get("receiver.rx.frames"), Some(sample.packets));
            assert_eq!(sample.ledger.get("sender.tx.frames"), Some(sample.packets));
            assert_eq!(sample.ledger.total("drop_"), 0);
        }
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let rings =
        |frame, entries| ring_to_ring::case(Through::Wire, &Options { frame, ..Options::default() }, entries);
    assert!(rings(4000, 256).prepare().unwrap_err().to_string().contains("4000"));
    assert!(rings(64, 100).prepare().is_err());
    assert!(rings(64, 256).run_slice(SHORT).is_err());
    let tiny = Options { frame: 1, ..Options::default() };
    assert!(port_to_port::case(Through::Wire, &tiny).prepare().is_err());
}

#[test]
fn each_listed_experiment_has_cases_of_its_own_name() {
    let options = Options { seconds: 0.01, repeat: 1, ..Options::default() };
    let mut names = std::collections::HashSet::new();
    for listed in LIST.iter().filter(|listed| !listed.has_guest && !listed.is_in_rooms) {
        assert!(!listed.what.is_empty());
        for case in (listed.cases)(&options).unwrap() {
            let (cases, alone) = match case {
                Case::Alone(case) => (vec![case], true),
                // These need network interfaces.
                Case::Alternating(a, b) => (vec![a, b], false),
            };
            for mut case in cases {
                assert_eq!(case.id, listed.name);
                assert!(names.insert(format!("{}/{}", listed.name, case.case)));
                if alone {
                    let outcome = run(&mut case, &options).unwrap();
                    assert_eq!((outcome.measured.len(), outcome.lost()), (1, 0));
                }
            }
        }
    }
    assert!(find("no such experiment").is_none());
}

#[test]
fn each_case_in_a_room_has_a_name_of_its_own_and_wants_two_cpus() {
    let options = |cpus| Options { cpus, ..Options::default() };
    for listed in LIST.iter().filter(|listed| listed.is_in_rooms) {
        let mut names = std::collections::HashSet::new();
        for case in (listed.cases)(&options(vec![0, 1])).unwrap() {
            let cases = match case {
                Case::Alone(case) => vec![case],
                Case::Alternating(a, b) => vec![a, b],
            };
            for case in cases {
                assert_eq!(case.id, listed.name);
                assert!(names.insert(case.case.clone()), "{}/{}", case.id, case.case);
            }
        }
        assert!((listed.cases)(&options(vec![0])).is_err(), "{}", listed.name);
    }
}
