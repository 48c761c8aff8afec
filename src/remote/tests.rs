//! Tests of the command against a scripted run.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::thread::JoinHandle;

use super::*;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

fn answer(plan: u64, file: Option<&str>) -> Answer {
    Answer::Remote { plan, file: file.map(str::to_owned) }
}

/// Client of a run that gives these answers, one to each request, and ends; it returns the plans that the client said it knows.
fn scripted(answers: Vec<Answer>) -> (Client, JoinHandle<Vec<Option<u64>>>) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("control");
    let listener = UnixListener::bind(&place).expect("a socket");
    let client = Client::connect(&place, PATIENCE).expect("it listens");
    let (mut stream, _) = listener.accept().expect("a client");
    let run = thread::spawn(move || {
        let mut lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
        let answered = answers.into_iter().map(|answer| {
            let line = lines.next().expect("a request").expect("a line");
            let request = api::parse_request(line.as_bytes()).expect("a request");
            let Request::Remote { member, known } = request else { panic!("{request:?}") };
            assert_eq!(member, "core_63");
            stream.write_all(&api::encode_answer(&Ok(answer)).expect("JSON")).expect("it reads");
            known
        });
        answered.collect()
    });
    (client, run)
}

#[test]
fn a_file_is_told_when_it_is_another_one_and_the_end_of_the_run_is_an_error() {
    let answers = vec![
        answer(7, Some("a")),
        answer(7, None),
        answer(8, Some("a")),
        answer(9, Some("b")),
        answer(9, None),
    ];
    let (mut run, asked) = scripted(answers);
    let mut followed = Followed::default();
    let told = [Some("a"), None, None, Some("b"), None];
    for (number, told) in told.iter().enumerate() {
        let next = followed.next(&mut run, "core_63").expect("an answer");
        assert_eq!(next.as_deref(), *told, "answer {number}");
    }
    assert_eq!(asked.join().expect("it ends"), [None, Some(7), Some(7), Some(8), Some(9)]);
    let error = followed.next(&mut run, "core_63").expect_err("there is no run").to_string();
    assert_eq!(error, "the run ended before it answered");
}

#[test]
fn another_answer_is_not_taken_for_a_file() {
    let (mut run, _) = scripted(vec![Answer::Done { message: String::new() }]);
    let error = Followed::default().next(&mut run, "core_63").expect_err("it is none").to_string();
    assert!(error.contains("of another version"), "{error}");
}
