use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

use api::{RouterStatus, State};

use super::*;

fn run(name: &str, routers: &[&str]) -> Found {
    let routers = routers.iter().map(|name| RouterStatus {
        name: (*name).to_owned(),
        engine: "kvm".to_owned(),
        state: State::Running,
        since_ms: 0,
        restarts: 0,
        reason: None,
        pid: None,
        member: None,
        threads: Vec::new(),
    });
    let status = RunStatus {
        run: name.to_owned(),
        file: format!("{name}.toml"),
        program: "0.1.0".to_owned(),
        pid: 7,
        data_plane: Some(8),
        restarts: 0,
        up_ms: 0,
        routers: routers.collect(),
    };
    Found { name: name.to_owned(), socket: PathBuf::from("/nowhere/control"), status: Ok(status) }
}

fn silent(name: &str) -> Found {
    Found { status: Err(Error::new("the run is dead")), ..run(name, &[]) }
}

/// Error message for an unknown name. It also mentions that runs which were found cannot be reached.
fn said(found: Vec<Found>, name: &str, kind: Kind) -> String {
    format!("{:#}", choose(found, name, kind).err().expect("nothing listens there"))
}

fn two() -> Vec<Found> {
    vec![run("lab", &["edge", "core"]), run("edge", &["far"]), silent("old")]
}

#[test]
fn a_name_is_a_routers_or_a_runs() {
    let reached = |name: &str, kind| said(two(), name, kind).starts_with("cannot connect to");
    assert!(reached("core", Kind::Router) && reached("core", Kind::Either) && !reached("core", Kind::Run));
    assert!(reached("lab", Kind::Run) && reached("lab", Kind::Either) && !reached("lab", Kind::Router));
    assert_eq!(said(two(), "old", Kind::Run), "run old does not answer: the run is dead");
}

#[test]
fn what_is_not_there_is_told_with_what_is() {
    let wanted = "there is no router \"egde\"; did you mean \"edge\"?; there are: edge, core, far; no answer from: old";
    assert_eq!(said(two(), "egde", Kind::Router), wanted);
    let wanted = "there is no run \"core\"; there are: lab, edge, old; no answer from: old";
    assert_eq!(said(two(), "core", Kind::Run), wanted);
    assert_eq!(said(vec![run("lab", &[])], "x", Kind::Router), "there is no router \"x\"; there are: none");
    assert_eq!(said(Vec::new(), "x", Kind::Either), "nothing runs: start a file with `ringroad run FILE`");
}

#[test]
fn long_lists_are_cut() {
    let names: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let text = said(vec![run("lab", &names)], "zzz", Kind::Router);
    assert!(
        text.ends_with("there are: r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11 and 8 more"),
        "{text}"
    );
}

#[test]
fn a_change_may_take_longer_than_a_question() {
    let patience = Duration::from_millis(50);
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("control");
    let listener = UnixListener::bind(&place).expect("a socket");
    let mut client = Client::connect(&place, patience).expect("it listens");
    let (mut stream, _) = listener.accept().expect("a client");
    let run = thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).expect("a request");
        thread::sleep(2 * patience);
        let answer = Answer::Done { message: "router edge runs".to_owned() };
        stream.write_all(&api::encode_answer(&Ok(answer)).expect("JSON")).expect("sent");
    });
    let answer = request_change(&mut client, &Request::Start { router: "edge".to_owned() });
    assert!(matches!(answer, Ok(Answer::Done { .. })), "{answer:?}");
    run.join().expect("no panic");
}

#[test]
fn a_command_does_without_a_run_that_does_not_answer_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("stuck");
    std::fs::create_dir(&place).expect("a folder");
    // It listens, and reads nothing.
    let _listener = UnixListener::bind(place.join(api::folder::SOCKET)).expect("a socket");
    let found = || runs_in(folder.path(), Duration::from_millis(1)).expect("a folder");
    let of_stuck = found();
    assert_eq!(of_stuck.len(), 1);
    let why = of_stuck[0].status.as_ref().expect_err("it does not answer").to_string();
    assert_eq!(why, "the run does not answer within 0.001 s");
    let with_another = || -> Vec<Found> { found().into_iter().chain([run("lab", &["edge"])]).collect() };
    let told = said(with_another(), "edge", Kind::Router);
    assert!(told.starts_with("cannot connect to"), "the other run has it: {told}");
    let told = said(with_another(), "core", Kind::Router);
    assert!(told.ends_with("; there are: edge; no answer from: stuck"), "{told}");
}
