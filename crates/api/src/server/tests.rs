use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use rustix::net::SendFlags;
use tempfile::TempDir;

use super::*;
use crate::client::Client as Asker;
use crate::folder::{SOCKET, sockets};
use crate::line::{encode_request, parse_answer};

const PATIENCE: Duration = Duration::from_secs(60);
const PS: &[u8] = b"{\"version\":1,\"request\":{\"ps\":{}}}\n";

fn listen(limits: Limits) -> (TempDir, Server) {
    let runs = TempDir::new().expect("a folder");
    let server = Server::listen(&runs.path().join("lab"), limits).expect("it listens");
    (runs, server)
}

fn connect(server: &Server) -> UnixStream {
    let stream = UnixStream::connect(server.path()).expect("it connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Reads everything that the server sends until it closes.
fn all(stream: &UnixStream) -> Vec<Outcome> {
    let lines = BufReader::new(stream).lines();
    lines.map_while(Result::ok).map(|line| parse_answer(line.as_bytes()).expect("an answer")).collect()
}

fn done(message: &str) -> Outcome {
    Ok(Answer::Done { message: message.to_owned() })
}

fn counts(server: &Server) -> String {
    let mut moved = Vec::new();
    ledger::Group::each(server.counters(), &mut |name, n| {
        if n > 0 {
            moved.push(format!("{name} {n}"));
        }
    });
    moved.join(", ")
}

/// Waits like a run does. Returns the requests received.
fn wait(server: &mut Server) -> Vec<(Ticket, Request)> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let patience = Timespec::try_from(server.patience()).expect("a time");
        let watched = server.descriptors();
        let mut fds: Vec<_> = watched.iter().map(|(fd, wish)| PollFd::from_borrowed_fd(*fd, *wish)).collect();
        poll(&mut fds, Some(&patience)).expect("poll");
        let requests = server.ready(Instant::now());
        if !requests.is_empty() {
            return requests;
        }
    }
    panic!("nothing came");
}

#[test]
fn the_socket_is_the_owners_alone_and_goes_with_its_server() {
    let (runs, server) = listen(Limits::default());
    let folder = runs.path().join("lab");
    let mode = |path: &Path| fs::symlink_metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!((mode(&folder), mode(server.path())), (0o700, 0o600));
    assert_eq!(sockets(runs.path()).expect("a list"), [("lab".to_owned(), folder.join(SOCKET))]);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "nothing else is left there");
    drop(server);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    assert!(sockets(runs.path()).expect("a list").is_empty());
    assert!(sockets(&runs.path().join("absent")).expect("a list").is_empty());
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let (runs, server) = listen(Limits::default());
    let folder = runs.path().join("lab");
    let error = Server::listen(&folder, Limits::default()).expect_err("one answers there");
    assert!(error.message.contains("answers at") && error.message.ends_with("stop it first"), "{error}");
    drop(server);
    drop(UnixListener::bind(folder.join(SOCKET)).expect("what a killed run leaves"));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("open to all");
    let mut server = Server::listen(&folder, Limits::default()).expect("it replaces the stale one");
    assert_eq!(fs::metadata(&folder).expect("there").mode() & 0o777, 0o700);
    let mut stream = connect(&server);
    stream.write_all(PS).expect("sent");
    assert_eq!(wait(&mut server)[0].1, Request::Ps {});
}

#[test]
fn a_server_leaves_the_socket_of_its_successor_alone() {
    let (runs, server) = listen(Limits::default());
    let path = server.path().to_owned();
    fs::remove_file(&path).expect("removed");
    let successor = Server::listen(&runs.path().join("lab"), Limits::default()).expect("it listens");
    drop(server);
    assert!(path.exists());
    drop(successor);
    assert!(!path.exists());
}

#[test]
fn a_folder_that_is_a_file_or_a_link_is_refused() {
    let runs = TempDir::new().expect("a folder");
    fs::write(runs.path().join("file"), "").expect("a file");
    std::os::unix::fs::symlink(runs.path(), runs.path().join("link")).expect("a link");
    for name in ["file", "link"] {
        let error = Server::listen(&runs.path().join(name), Limits::default()).expect_err(name);
        assert!(error.message.ends_with("is not a folder of this user: remove it"), "{error}");
    }
    let error = Server::listen(&runs.path().join("a/b"), Limits::default()).expect_err("no parent");
    assert!(error.message.starts_with("cannot use the folder"), "{error}");
}

#[test]
fn a_client_asks_and_is_answered() {
    let (_runs, mut server) = listen(Limits::default());
    let path = server.path().to_owned();
    let asker = std::thread::spawn(move || {
        let mut asker = Asker::connect(&path, PATIENCE).expect("it connects");
        let first = asker.ask(&Request::Ps {});
        let second = asker.ask(&Request::Stop { name: "edge".to_owned() });
        (first, second)
    });
    for (wanted, outcome) in [
        (Request::Ps {}, done("first")),
        (Request::Stop { name: "edge".to_owned() }, Err(Error::new("there is no router edge"))),
    ] {
        let [(ticket, request)] = &wait(&mut server)[..] else { panic!("one request at a time") };
        assert_eq!(*request, wanted);
        server.answer(*ticket, &outcome, Instant::now());
    }
    let (first, second) = asker.join().expect("it ends");
    assert_eq!(first, done("first"));
    assert_eq!(second.expect_err("an error").message, "there is no router edge");
    assert_eq!(counts(&server), "accepted 1, requests 2");
}

#[test]
fn answers_go_to_those_who_asked() {
    let (_runs, mut server) = listen(Limits::default());
    let streams: Vec<_> = (0..3).map(|_| connect(&server)).collect();
    for (number, mut stream) in streams.iter().enumerate() {
        let request = Request::Show { router: number.to_string() };
        stream.write_all(&encode_request(&request).expect("JSON")).expect("sent");
    }
    let mut requests = Vec::new();
    while requests.len() < 3 {
        requests.extend(wait(&mut server));
    }
    // Answered in reverse order.
    for (ticket, request) in requests.iter().rev() {
        let Request::Show { router } = request else { panic!("{request:?}") };
        server.answer_part(*ticket, Answer::Done { message: "part".to_owned() }, Instant::now());
        server.answer(*ticket, &done(router), Instant::now());
        server.answer(*ticket, &done("twice"), Instant::now());
    }
    drop(server);
    for (number, stream) in streams.iter().enumerate() {
        assert_eq!(all(stream), [done("part"), done(&number.to_string())]);
    }
}

#[test]
fn a_second_request_of_one_packet_is_heard_after_the_first_is_answered() {
    let (_runs, mut server) = listen(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(&[PS, PS].concat()).expect("sent");
    for _ in 0..2 {
        let requests = wait(&mut server);
        assert_eq!(requests.len(), 1);
        server.answer(requests[0].0, &done(""), Instant::now());
    }
    assert_eq!(counts(&server), "accepted 1, requests 2");
}

#[test]
fn garbage_is_answered_and_the_connection_closed() {
    let (_runs, mut server) = listen(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(b"\xff\xfe garbage\n more garbage that is never read").expect("sent");
    while server.counters().drop_garbage.get() == 0 {
        assert!(server.ready(Instant::now()).is_empty());
    }
    server.ready(Instant::now());
    let answers = all(&stream);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].is_err());
    assert_eq!(server.descriptors().len(), 1, "only the listener is left");
}

#[test]
fn a_client_that_shuts_its_side_down_is_answered() {
    let (_runs, mut server) = listen(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(PS).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("half closed");
    let requests = wait(&mut server);
    server.answer(requests[0].0, &done("late"), Instant::now());
    assert!(server.patience().is_zero());
    server.ready(Instant::now());
    assert_eq!(all(&stream), [done("late")]);
    assert_eq!(server.descriptors().len(), 1);
}

#[test]
fn who_leaves_before_the_answer_is_reported() {
    let (_runs, mut server) = listen(Limits::default());
    let mut stream = connect(&server);
    stream.write_all(PS).expect("sent");
    let ticket = wait(&mut server)[0].0;
    assert!(server.take_gone().is_empty());
    drop(stream);
    server.ready(Instant::now());
    assert_eq!(server.take_gone(), [ticket]);
    assert!(server.take_gone().is_empty());
    server.answer(ticket, &done("to nobody"), Instant::now());
    assert_eq!(counts(&server), "accepted 1, requests 1, drop_gone 1");
}

#[test]
fn files_that_no_request_has_used_are_not_closed_here() {
    let (_runs, mut server) = listen(Limits::default());
    let stream = connect(&server);
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    let ask = || fd_passing::send(&stream, PS, &[&writer], SendFlags::empty()).expect("sent");
    ask();
    let first = wait(&mut server)[0].0;
    assert!(server.take_unused_files().is_empty(), "the request may use it");
    server.answer(first, &done("first"), Instant::now());
    ask();
    let second = wait(&mut server)[0].0;
    assert_eq!(server.take_unused_files().len(), 1, "that of the first request");
    assert!(server.take_file(second).is_some());
    server.answer(second, &done("second"), Instant::now());
    ask();
    wait(&mut server);
    assert!(server.take_unused_files().is_empty(), "that of the second request was used");
    drop(stream);
    server.ready(Instant::now());
    assert_eq!(server.take_unused_files().len(), 1, "its client is gone");
}

#[test]
fn one_client_too_many_is_told_so() {
    let (_runs, mut server) = listen(Limits { clients: 2, ..Limits::default() });
    let kept: Vec<_> = (0..2).map(|_| connect(&server)).collect();
    server.ready(Instant::now());
    let extra = connect(&server);
    server.ready(Instant::now());
    let answers = all(&extra);
    let [Err(error)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(error.message, "2 clients are here already: try again when one has left");
    drop(kept);
    server.ready(Instant::now());
    let _next = connect(&server);
    server.ready(Instant::now());
    assert_eq!(counts(&server), "accepted 3, refused_full 1");
}

#[test]
fn half_a_line_and_silence_end_by_time() {
    let (_runs, mut server) = listen(Limits::default());
    let limits = Limits::default();
    let now = Instant::now();
    let (mut half, silent) = (connect(&server), connect(&server));
    half.write_all(b"{\"version\"").expect("sent");
    server.ready(now);
    server.ready(now + limits.line);
    assert_eq!(counts(&server), "accepted 2, drop_half_line 1");
    assert!(all(&half).is_empty());
    server.ready(now + limits.idle);
    assert_eq!(counts(&server), "accepted 2, drop_half_line 1, drop_idle 1");
    assert!(all(&silent).is_empty());
}

#[test]
fn who_asks_and_never_reads_is_left_and_holds_nobody_up() {
    let (_runs, mut server) = listen(Limits { output: 100_000, ..Limits::default() });
    let (mut deaf, mut other) = (connect(&server), connect(&server));
    deaf.write_all(PS).expect("sent");
    let deaf_ticket = wait(&mut server)[0].0;
    let part = Answer::Done { message: "x".repeat(10_000) };
    let start = Instant::now();
    while server.counters().drop_slow_reader.get() == 0 {
        server.answer_part(deaf_ticket, part.clone(), Instant::now());
        server.ready(Instant::now());
        assert!(start.elapsed() < PATIENCE, "it is never left");
    }
    assert_eq!(server.take_gone(), [deaf_ticket]);
    other.write_all(PS).expect("sent");
    let ticket = wait(&mut server)[0].0;
    server.answer(ticket, &done("soon"), Instant::now());
    drop(server);
    assert_eq!(all(&other), [done("soon")]);
}

#[test]
fn an_asker_gives_up_on_a_run_that_does_not_answer() {
    let (_runs, server) = listen(Limits::default());
    let mut asker = Asker::connect(server.path(), Duration::from_millis(50)).expect("it connects");
    let error = asker.ask(&Request::Ps {}).expect_err("nobody answers");
    assert_eq!(error.message, "the run does not answer within 0.05 s");
    let path = server.path().to_owned();
    drop(server);
    assert_eq!(asker.ask(&Request::Ps {}).expect_err("it ended").message, "the run ended before it answered");
    let error = Asker::connect(&path, PATIENCE).expect_err("it is gone");
    assert!(error.message.starts_with("cannot connect to"), "{error}");
    drop(UnixListener::bind(&path).expect("what a killed run leaves"));
    let error = Asker::connect(&path, PATIENCE).expect_err("nobody listens");
    assert!(error.message.ends_with("the run is dead"), "{error}");
}

#[test]
fn an_asker_gives_up_on_a_queue_that_is_full() {
    let (_runs, server) = listen(Limits::default());
    let mut waiting = Vec::new();
    let error = loop {
        match Asker::connect(server.path(), Duration::from_millis(50)) {
            Ok(asker) => waiting.push(asker),
            Err(error) => break error,
        }
        assert!(waiting.len() < 100_000, "the queue has no end");
    };
    assert_eq!(error.message, "the run lets nobody in: its queue is full");
}

#[test]
fn an_answer_that_is_garbage_is_told() {
    let folder = TempDir::new().expect("a folder");
    let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("it listens");
    let mut asker = Asker::connect(&folder.path().join(SOCKET), PATIENCE).expect("it connects");
    let (mut run, _) = listener.accept().expect("a client");
    run.write_all(b"{\"version\":3}\n{\"version\":1}\n").expect("sent");
    let error = asker.ask(&Request::Ps {}).expect_err("another version");
    assert!(error.message.starts_with("version 3 of the control protocol"), "{error}");
    let error = asker.next_answer().expect_err("neither");
    assert_eq!(error.message, "not an answer: it has either \"answer\" or \"error\"");
}
