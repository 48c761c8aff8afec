//! What the tests share: the CPUs, the engines of this host, an experiment run once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use config::Engine;
use host::cores;
use lab::experiment::{Options, Outcome, compare, run};
use lab::experiments::{Case, find};
use lab::report::ResultLine;
use vmm::{Forker, Spawn};

/// They take the same CPUs: one at a time.
static CPUS: Mutex<()> = Mutex::new(());

/// Waits for the CPUs; none, with a line that says why, where experiments cannot run.
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

/// Why this host cannot run an engine, if so.
pub(crate) fn missing(engine: Engine) -> Option<anyhow::Error> {
    match engine {
        Engine::Kvm | Engine::Linux => vmm::open_kvm().err(),
        Engine::Process => {
            let tried = Forker::new().and_then(|forker| forker.spawn("trial"));
            tried.map(|spawned| vmm::process::end(&spawned.pidfd)).err()
        }
    }
}

/// Short runs with each engine that this host has, and its name.
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
    // An experiment pins the thread that runs it; those after it need to know the other CPUs.
    Options { seconds: 0.02, repeat: 1, cpus: cores::online().unwrap(), ..Options::default() }
}

/// Seconds of the longest look.
const LONGEST: f64 = 20.0;
/// Experiments that may well find nothing: idle routers need nothing, and a flooded one may lose all.
const MAY_BE_NOTHING: [&str; 2] = ["idle", "livelock"];

/// The outcomes of an experiment, each with its RESULT line: of a short look, or of a longer one if nobody had a CPU in that.
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
            Case::InTurn(mut a, mut b) => {
                let comparison = compare(&mut a, &mut b, options).unwrap();
                assert!(comparison.a.measured.len() >= 10);
                all.extend([comparison.a, comparison.b]);
            }
        }
    }
    all.into_iter().map(|outcome| (outcome.clone(), told(name, &outcome))).collect()
}

/// The line as it is printed, read back.
pub(crate) fn told(name: &str, outcome: &Outcome) -> ResultLine {
    let line = ResultLine::parse(&outcome.result_line().to_string()).unwrap();
    assert!(line.name.starts_with(&format!("{name}/")), "{}", line.name);
    assert!(line.n > 0, "{line}");
    line
}

pub(crate) fn figure(line: &ResultLine, name: &str) -> f64 {
    line.get(name).unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
}
