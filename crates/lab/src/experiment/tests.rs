use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};
use ledger::NicDirection;

use super::{
    Comparison, Experiment, Measured, Options, Outcome, Placement, Rig, Sample, compare, in_turn, report, run,
};
use crate::host::Host;
use crate::ledger_snapshot::Snapshot;
use crate::report::Verdict;

/// Experiment that returns scripted values and records the calls made to it.
#[derive(Clone, Default)]
struct Told {
    values: Vec<f64>,
    fails_at: Option<usize>,
    whole: bool,
    seen: Rc<RefCell<Seen>>,
}

/// Recorded calls.
#[derive(Default)]
struct Seen {
    at: usize,
    log: String,
    slices: Vec<Duration>,
}

impl Told {
    fn experiment(&self) -> Experiment {
        let told = self.clone();
        let build = move || {
            told.seen.borrow_mut().log.push('p');
            Ok(told.clone())
        };
        let experiment = Experiment::new(("told", "mpps"), "by/test".to_owned(), build);
        if self.whole { experiment.whole() } else { experiment }
    }

    fn log(&self) -> String {
        self.seen.borrow().log.clone()
    }
}

impl Rig for Told {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let mut seen = self.seen.borrow_mut();
        seen.log.push('s');
        seen.slices.push(length);
        if self.fails_at == Some(seen.at) {
            bail!("told to fail");
        }
        let value = self.values[seen.at % self.values.len()];
        seen.at += 1;
        let counters = NicDirection::default();
        counters.frames.add(100);
        let mut ledger = Snapshot::new();
        ledger.take("rx", &counters);
        Ok(Sample {
            value,
            packets: 100,
            lost: 1,
            exits: Some(2),
            more: [("empty_polls", value / 2.0)].into(),
            ledger,
        })
    }

    fn take_down(self: Box<Self>) -> Result<()> {
        self.seen.borrow_mut().log.push('f');
        Ok(())
    }
}

fn told(values: &[f64]) -> Told {
    Told { values: values.to_vec(), ..Told::default() }
}

fn measured(value: f64, c2c_ns: [f64; 2]) -> Measured {
    Measured { sample: Sample { value, ..Sample::default() }, c2c_ns }
}

fn outcome(measured: Vec<Measured>) -> Outcome {
    Outcome::new(&told(&[1.0]).experiment(), measured)
}

#[test]
fn seconds_are_cut_into_short_slices() {
    let told = told(&[3.0, 1.0, 2.0]);
    let options = Options { seconds: 0.5, repeat: 2, ..Options::default() };
    let outcome = run(&mut told.experiment(), &options).unwrap();
    assert_eq!(told.log(), "pssssssf");
    assert!(told.seen.borrow().slices.iter().all(|&slice| slice <= Duration::from_millis(200)));
    assert_eq!(outcome.values(), [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
    assert_eq!(
        outcome.result_line().to_string(),
        "RESULT name=told/by/test unit=mpps median=2.000 min=1.000 max=3.000 n=6 lost=6 exits_per_packet=0.02000 \
         empty_polls=1.000"
    );
    let record = outcome.record(&Host::describe(), Verdict::Holds, "it does");
    assert_eq!(record.ledger.get("rx.frames"), Some(600));
    assert_eq!((record.median, record.ci95), (Some(2.0), Some((1.0, 3.0))));
}

#[test]
fn a_whole_repetition_is_not_cut() {
    let whole = || Told { whole: true, ..told(&[1.0]) }.experiment();
    let options = Options { seconds: 1.0, repeat: 3, ..Options::default() };
    assert_eq!(run(&mut whole(), &options).unwrap().measured.len(), 3);
    assert_eq!(compare(&mut whole(), &mut whole(), &options).unwrap().a.measured.len(), 10);
    let rounds = |experiment: Experiment, rounds| {
        let options = Options { rounds, ..options.clone() };
        let outcomes = in_turn(&mut [experiment], 7, &options);
        outcomes.into_iter().map(|outcome| outcome.unwrap().measured.len()).collect::<Vec<_>>()
    };
    assert_eq!((rounds(whole(), None), rounds(whole(), Some(2))), (vec![7], vec![2]));
    // Experiments cut into slices follow the seconds, the repetitions and the minimum number of rounds.
    assert_eq!(rounds(told(&[1.0]).experiment(), Some(2)), [15]);
}

/// Experiment that records in a log, shared with others, when it is built, measured and torn down.
#[derive(Clone)]
struct Noted {
    name: char,
    log: Rc<RefCell<String>>,
    fails: bool,
}

impl Noted {
    fn note(&self, what: char) {
        self.log.borrow_mut().extend([what, self.name, ' ']);
    }

    fn experiment(self) -> Experiment {
        Experiment::new(("noted", "mpps"), self.name.to_string(), move || {
            self.note('p');
            Ok(self.clone())
        })
    }
}

impl Rig for Noted {
    fn run_slice(&mut self, _: Duration) -> Result<Sample> {
        self.note('s');
        if self.fails { bail!("told to fail") } else { Ok(Sample::default()) }
    }

    fn take_down(self: Box<Self>) -> Result<()> {
        self.note('f');
        Ok(())
    }
}

#[test]
fn what_is_built_for_each_turn_is_gone_in_the_turns_of_others() {
    let log = Rc::<RefCell<String>>::default();
    let noted = |name, each_turn, fails| {
        let experiment = Noted { name, log: log.clone(), fails }.experiment();
        if each_turn { experiment.built_each_turn() } else { experiment }
    };
    let options = Options { seconds: 0.001, repeat: 1, ..Options::default() };
    let mut experiments = [noted('a', true, false), noted('b', false, false), noted('c', true, true)];
    let outcomes = in_turn(&mut experiments, 2, &options);
    assert_eq!(log.borrow().as_str(), "pb pa sa fa sb pc sc fc pa sa fa sb fb ");
    let slices: Vec<_> =
        outcomes.into_iter().map(|found| found.map_or(0, |found| found.measured.len())).collect();
    assert_eq!(slices, [2, 2, 0]);
}

#[test]
fn what_was_prepared_is_taken_down_when_a_slice_fails() {
    let told = Told { fails_at: Some(1), ..told(&[1.0]) };
    let error = run(&mut told.experiment(), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "told to fail");
    assert_eq!(told.log(), "pssf");
}

#[test]
fn lengths_that_make_no_sense_are_refused() {
    for seconds in [0.0, -1.0, f64::NAN, 1e9] {
        let options = Options { seconds, ..Options::default() };
        assert!(run(&mut told(&[1.0]).experiment(), &options).unwrap_err().to_string().contains("seconds"));
    }
    let options = Options { repeat: 0, ..Options::default() };
    assert!(run(&mut told(&[1.0]).experiment(), &options).unwrap_err().to_string().contains("repeat"));
}

#[test]
fn near_and_far_are_told_apart() {
    let cases = [
        ([90.0, 219.0], Placement::Near),
        ([90.0, 221.0], Placement::Between),
        ([350.0, 700.0], Placement::Far),
        ([349.0, 500.0], Placement::Between),
        ([90.0, 450.0], Placement::Between),
        ([f64::NAN, 90.0], Placement::Between),
    ];
    for (c2c_ns, placement) in cases {
        assert_eq!(measured(1.0, c2c_ns).placement(), placement, "{c2c_ns:?}");
    }
    let far = [450.0, 460.0];
    let all = outcome(vec![
        measured(10.0, [90.0; 2]),
        measured(2.0, far),
        measured(4.0, far),
        measured(9.0, [90.0, 450.0]),
    ]);
    assert_eq!(all.at(Placement::Near).unwrap().median, 10.0);
    assert_eq!(all.at(Placement::Far).unwrap().median, 3.0);
    let line = all.result_line();
    assert_eq!(
        (line.get("near_n"), line.get("far_median"), line.get("far_n")),
        (Some("1"), Some("3.000"), Some("2"))
    );
    assert_eq!(line.get("moved"), Some("1"));
}

#[test]
fn variants_run_in_turn_in_at_least_ten_pairs() {
    let (a, b) = (told(&[6.0, 9.0]), told(&[2.0, 3.0]));
    let options = Options { seconds: 0.001, repeat: 1, ..Options::default() };
    let comparison = compare(&mut a.experiment(), &mut b.experiment(), &options).unwrap();
    assert_eq!((a.seen.borrow().at, b.seen.borrow().at), (10, 10));
    let ratio = comparison.ratio().unwrap();
    assert_eq!((ratio.n, ratio.median, ratio.ci95), (10, 3.0, Some((3.0, 3.0))));
}

#[test]
fn both_are_taken_down_when_one_fails() {
    let (a, b) = (told(&[1.0]), Told { fails_at: Some(0), ..told(&[1.0]) });
    assert!(compare(&mut a.experiment(), &mut b.experiment(), &Options::default()).is_err());
    assert_eq!((a.log().as_str(), b.log().as_str()), ("psf", "psf"));
}

#[test]
fn only_pairs_of_like_placement_are_compared() {
    let (near, far, moved) = ([100.0; 2], [450.0; 2], [100.0, 450.0]);
    let of = |places: [[f64; 2]; 4], value| outcome(places.map(|place| measured(value, place)).to_vec());
    let comparison = Comparison { a: of([near, far, near, moved], 8.0), b: of([near, far, far, moved], 2.0) };
    assert_eq!(comparison.ratio().unwrap().n, 2);
}

#[test]
fn results_are_told_on_the_terminal_and_in_the_file() {
    let path = std::env::temp_dir().join(format!("ringroad-lab-told-{}.jsonl", std::process::id()));
    let options = Options { seconds: 0.001, repeat: 3, json: Some(path.clone()), ..Options::default() };
    let outcome = run(&mut told(&[1.0]).experiment(), &options).unwrap();
    let mut out = Vec::new();
    report(&outcome, &options, &Host::describe(), &mut out).unwrap();
    let json = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(String::from_utf8(out).unwrap().starts_with("RESULT name=told/by/test unit=mpps median=1.000 "));
    assert_eq!(json.lines().count(), 1);
    assert!(json.contains(r#""samples":[1.0,1.0,1.0]"#), "{json}");
}

#[test]
fn the_cpus_asked_for_come_first() {
    let options = Options { cpus: vec![5, 3], ..Options::default() };
    assert_eq!((options.cpu(0).unwrap(), options.cpu(1).unwrap()), (5, 3));
    assert_eq!(options.cpu(2).unwrap_err().to_string(), "needs 3 CPUs, there are 2");
    assert!(Options::default().cpu(0).is_ok());
}
