//! Shared by the tests: the lock on the CPUs, the engines of this host, and a single run of an experiment.

use std::sync::{Mutex, MutexGuard, PoisonError};

use config::Engine;
use host::cores;
use lab::experiment::{Options, Outcome, compare, run};
use lab::experiments::{Case, find};
use lab::report::ResultLine;
use vmm::{Firmware, Forker, Spawn};

/// The tests use the same CPUs, so only one runs at a time.
static CPUS: Mutex<()> = Mutex::new(());

/// Waits for the CPUs; returns none, and prints the reason, where experiments cannot run.
pub(crate) fn ready(root: bool) -> Option<MutexGuard<'static, ()>> {
    if cores::allowed().unwrap().len() < 2 {
        println!("SKIPPED: there is only one CPU");
        return None;
    }
    if root && let Err(error) = uplink::Netns::new() {
        println!("SKIPPED: {error}");
        return None;
    }
    Some(CPUS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns the reason why this host cannot run an engine, if it cannot.
pub(crate) fn missing(engine: Engine) -> Option<anyhow::Error> {
    match engine {
        Engine::Kvm | Engine::Linux => vmm::open_kvm().err(),
        Engine::Process => {
            let tried = Forker::new().and_then(|forker| forker.spawn("trial", Firmware::Plain));
            tried.map(|spawned| vmm::process::end(&spawned.pidfd)).err()
        }
        Engine::Kernel | Engine::Lxc => Some(anyhow::anyhow!("it has no machine")),
    }
}

/// Options for short runs with each engine that this host supports, and the engine's name.
pub(crate) fn engines() -> Vec<(Options, &'static str)> {
    let able = [Engine::Kvm, Engine::Process].into_iter().filter(|engine| match missing(*engine) {
        None => true,
        Some(error) => {
            println!("SKIPPED: {error:#}");
            false
        }
    });
    able.map(|engine| (Options { engine: engine.name().to_owned(), ..short() }, engine.name())).collect()
}

pub(crate) fn short() -> Options {
    // An experiment pins its thread to one CPU; later experiments in that thread need the other CPUs.
    Options { seconds: 0.02, repeat: 1, cpus: cores::online().unwrap(), ..Options::default() }
}

/// Length of the longest run, in seconds.
const LONGEST: f64 = 20.0;
/// Experiments whose median may be zero: idle routers need nothing, and a flooded one may lose all frames.
const MAY_BE_NOTHING: [&str; 2] = ["idle", "livelock"];

/// Returns the outcomes of an experiment, each with its RESULT line, from a short run, or from a longer one if no thread got
/// a CPU in that.
pub(crate) fn outcomes(name: &str, options: &Options) -> Vec<(Outcome, ResultLine)> {
    let mut options = options.clone();
    loop {
        let found = look(name, &options);
        if MAY_BE_NOTHING.contains(&name) || found.iter().all(|(_, line)| line.median > 0.0) {
            return found;
        }
        options.seconds *= 10.0;
        assert!(options.seconds <= LONGEST, "nothing moves: {}", found[0].1);
    }
}

fn look(name: &str, options: &Options) -> Vec<(Outcome, ResultLine)> {
    let mut all = Vec::new();
    for case in (find(name).unwrap().cases)(options).unwrap() {
        match case {
            Case::Alone(mut experiment) => all.push(run(&mut experiment, options).unwrap()),
            Case::Alternating(mut a, mut b) => {
                let comparison = compare(&mut a, &mut b, options).unwrap();
                assert!(comparison.a.measured.len() >= 10);
                all.extend([comparison.a, comparison.b]);
            }
        }
    }
    all.into_iter().map(|outcome| (outcome.clone(), told(name, &outcome))).collect()
}

/// Returns the line as printed and parsed back.
pub(crate) fn told(name: &str, outcome: &Outcome) -> ResultLine {
    let line = ResultLine::parse(&outcome.result_line().to_string()).unwrap();
    assert!(line.name.starts_with(&format!("{name}/")), "{}", line.name);
    assert!(line.n > 0, "{line}");
    line
}

pub(crate) fn figure(line: &ResultLine, name: &str) -> f64 {
    line.get(name).unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
}
