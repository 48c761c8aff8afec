//! Tests of the command against a scripted run, which answers at a socket from a real event log.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use supervisor::{Events, Output};
use support::schema::check_lines;
use telemetry::Kind as What;

use super::*;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Client of a run that answers each request for events by `answer`, until the client disconnects.
fn scripted(mut answer: impl FnMut(Option<u64>) -> Answer + Send + 'static) -> Client {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("control");
    let listener = UnixListener::bind(&place).expect("a socket");
    let client = Client::connect(Path::new(&place), PATIENCE).expect("it listens");
    let (stream, _) = listener.accept().expect("a client");
    thread::spawn(move || serve(stream, &mut answer));
    client
}

fn serve(stream: UnixStream, answer: &mut dyn FnMut(Option<u64>) -> Answer) {
    let mut answers = stream.try_clone().expect("a descriptor");
    for line in BufReader::new(stream).lines() {
        let request = api::parse_request(line.expect("a line").as_bytes()).expect("a request");
        let Request::Events { since } = request else { panic!("{request:?}") };
        let line = api::encode_answer(&Ok(answer(since))).expect("JSON");
        if answers.write_all(&line).is_err() {
            return;
        }
    }
}

/// Log of so many events; those with even numbers concern router `edge`.
fn log(events: u64) -> Events {
    let mut log = Events::new("lab", None, Output::new(None), Instant::now());
    for n in 0..events {
        let router = (n % 2 == 0).then_some("edge");
        log.push(telemetry::Event {
            router: router.map(str::to_owned),
            ..telemetry::Event::of_run("lab", What::Started, format!("number {n}"))
        });
    }
    log
}

/// Numbers in the messages of a report.
fn numbers(report: &str) -> Vec<u64> {
    let number = |line: &str| line.rsplit_once("number ")?.1.trim_end_matches("\"}").parse().ok();
    report.lines().filter_map(number).collect()
}

#[test]
fn every_event_that_is_kept_is_told_however_many_answers_it_takes() {
    for kept in [0, 1, 499, 500, 501, 1000] {
        let log = log(kept);
        let report = Report { router: None, json: false };
        let report = report.of(&mut scripted(move |since| log.answer(since))).expect("a report");
        assert_eq!(numbers(&report), (0..kept).collect::<Vec<_>>());
        assert_eq!(report.lines().count() as u64, kept, "nothing else is said");
    }
}

#[test]
fn what_is_no_longer_kept_is_counted() {
    let log = log(1234);
    let report = Report { router: None, json: false };
    let report = report.of(&mut scripted(move |since| log.answer(since))).expect("a report");
    assert_eq!(report.lines().next(), Some("234 older ones are no longer kept"));
    assert_eq!(numbers(&report), (234..1234).collect::<Vec<_>>());
}

#[test]
fn of_a_router_only_its_events_are_told() {
    let log = log(1000);
    let report = Report { router: Some("edge"), json: true };
    let report = report.of(&mut scripted(move |since| log.answer(since))).expect("a report");
    assert_eq!(numbers(&report), (0..1000).step_by(2).collect::<Vec<_>>());
    assert!(report.lines().all(|line| serde_json::from_str::<Event>(line).is_ok()));
    check_lines("events", &report);
}

#[test]
fn what_happens_between_two_answers_is_told_and_what_is_forgotten_meanwhile_is_said() {
    let (mut log, mut asked) = (log(600), 0);
    let mut run = scripted(move |since| {
        asked += 1;
        if asked == 2 {
            for n in 600..1800 {
                log.record(What::Started, format!("number {n}"));
            }
        }
        log.answer(since)
    });
    let report = Report { router: None, json: false }.of(&mut run).expect("a report");
    // Numbers 500 to 799 were replaced by 800 to 1799.
    assert_eq!(numbers(&report), (0..500).chain(800..1800).collect::<Vec<_>>());
    assert_eq!(report.lines().nth(500), Some("300 older ones are no longer kept"));
}

#[test]
fn a_run_that_tells_the_first_part_again_and_again_is_not_read_for_ever() {
    let log = log(600);
    let mut run = scripted(move |_| log.answer(Some(0)));
    let error = Report { router: None, json: false }.of(&mut run).expect_err("it never ends");
    assert!(error.to_string().contains("of another version"), "{error}");
}
