//! Tests of the cutting of a stream, and of what becomes of its files, against a scripted run.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use api::{Answer, Client, Outcome, Request, RunStatus};

use super::*;

const GOOD: &str =
    "[[router]]\nname = \"edge\"\nengine = \"process\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n";

/// Gives octets to a stream. Returns its files, or what is wrong with them.
fn cut(files: &mut Files, octets: &[u8]) -> Vec<Result<String, String>> {
    files.push(octets).into_iter().map(|file| file.map_err(|error| error.to_string())).collect()
}

fn whole(file: &str) -> Result<String, String> {
    Ok(file.to_owned())
}

#[test]
fn files_end_at_their_line_however_the_octets_come() {
    let second = "b = 2\r\n # end of file\n\n# end of file \n# end of files\n";
    let octets = format!("\n\na = 1\n{END}\n{second}{END}{END}\n");
    let wanted = ["a = 1\n", second, ""].map(whole);
    for piece in 1..=octets.len() {
        let mut files = Files::default();
        let pieces = octets.as_bytes().chunks(piece);
        let came: Vec<_> = pieces.flat_map(|piece| cut(&mut files, piece)).collect();
        assert_eq!(came, wanted, "pieces of {piece}");
        assert!(!files.is_cut());
    }
}

#[test]
fn one_without_the_line_is_cut() {
    let octets = format!("\n{GOOD}{END}");
    for len in 0..=octets.len() {
        let mut files = Files::default();
        let came = files.push(&octets.as_bytes()[..len]).len();
        let has_all = len == octets.len();
        assert_eq!((came, files.is_cut()), (usize::from(has_all), len > 1 && !has_all), "{len} octets");
    }
}

#[test]
fn of_one_that_is_too_long_no_more_is_kept_and_the_next_one_is_read() {
    let most = LONGEST as usize;
    let mut files = Files::default();
    let of = |len: usize| "x".repeat(len - 1) + "\n";
    assert_eq!(cut(&mut files, (of(most) + END).as_bytes()), [whole(&of(most))]);
    let too_long: Result<String, String> = Err(format!("it is too long: at most {most} octets"));
    for begin in [of(most + 1), "x".repeat(3 * most) + "\n", of(1000).repeat(most / 300)] {
        for piece in begin.as_bytes().chunks(PIECE) {
            assert!(files.push(piece).is_empty());
            assert!(files.text.len() + files.line.len() <= most + END.len());
        }
        assert!(files.is_cut());
        let rest = format!("{END}{GOOD}{END}");
        assert_eq!(cut(&mut files, rest.as_bytes()), [too_long.clone(), whole(GOOD)]);
        assert!(!files.is_cut());
    }
    let binary = [b"\xff\n".as_slice(), END.as_bytes()].concat();
    assert_eq!(cut(&mut files, &binary), [Err::<String, _>("it is not UTF-8".to_owned())]);
}

fn options() -> Options {
    // As JSON nothing is printed where nothing has changed.
    Options { file: None, stream: true, run: None, dry_run: false, json: true }
}

/// Client of a run that gives these answers, one to each request, and ends; it returns the requests.
fn scripted(outcomes: Vec<Outcome>) -> (Target, JoinHandle<Vec<Request>>) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("control");
    let listener = UnixListener::bind(&place).expect("a socket");
    let client = Client::connect(&place, PAUSE).expect("it listens");
    let (mut stream, _) = listener.accept().expect("a client");
    let run = thread::spawn(move || {
        let mut lines = BufReader::new(stream.try_clone().expect("a descriptor")).lines();
        let answered = outcomes.into_iter().map(|outcome| {
            let line = lines.next().expect("a request").expect("a line");
            stream.write_all(&api::encode_answer(&outcome).expect("JSON")).expect("it reads");
            api::parse_request(line.as_bytes()).expect("a request")
        });
        answered.collect()
    });
    (Target { client, status: RunStatus::default(), socket: PathBuf::new() }, run)
}

#[test]
fn what_the_run_refuses_is_tried_again_and_what_is_no_file_is_not() {
    let applied = || Ok(Answer::Applied { changes: Vec::new(), dry_run: false });
    let status = Ok(Answer::Ps(RunStatus::default()));
    let (target, run) =
        scripted(vec![applied(), Err(api::Error::new("not now")), applied(), status, applied()]);
    let options = options();
    let mut stream = Stream::new(&options, target);
    stream.hear(format!("{GOOD}{END}").as_bytes(), Instant::now());
    assert_eq!((&stream.last, &stream.again), (&Some(Ok(())), &None));
    let other = GOOD.replace("edge", "core");
    stream.take(Ok(other.clone()));
    assert_eq!(stream.last, Some(Err("not now".to_owned())));
    let at = stream.again.as_ref().map(|(text, at)| (text == &other, *at));
    assert_eq!(at, Some((true, stream.asked)));
    stream.hear(b"\n", stream.asked);
    assert!(stream.again.is_some(), "not so soon");
    stream.hear(b"\n", stream.asked + PAUSE);
    assert_eq!((&stream.last, &stream.again), (&Some(Ok(())), &None));
    stream.ask().expect("it tells how it is");
    let error = stream.ask().expect_err("nothing has come since").to_string();
    assert_eq!(error, "no file has come for 30 s, and no empty line");
    stream.take(Ok("[[router]]\nname = 1\n".to_owned()));
    let Some(Err(why)) = &stream.last else { panic!("it is applied") };
    assert!(why.starts_with("stdin:"), "{why}");
    assert_eq!(stream.again, None);
    stream.take(Ok(GOOD.to_owned()));
    let apply = |text: &str| Request::Apply { file: NAME.to_owned(), text: text.to_owned(), dry_run: false };
    let wanted = [apply(GOOD), apply(&other), apply(&other), Request::Ps {}, apply(GOOD)];
    assert_eq!(run.join().expect("it ends"), wanted);
    stream.end().expect("the last one was applied");
}

#[test]
fn the_end_is_good_only_after_a_whole_file_that_was_applied() {
    let options = options();
    let told = |octets: &str, refusal: Option<&str>| {
        let mut stream = Stream::new(&options, scripted(Vec::new()).0);
        assert!(stream.files.push(octets.as_bytes()).is_empty());
        stream.last = refusal.map(|why| Err(why.to_owned()));
        stream.end().expect_err("it is an error").to_string()
    };
    assert_eq!(told("\n\n", None), "no file has come");
    assert_eq!(told("", Some("not now")), "the last file was not applied");
    let within =
        "the input ends within a file, which is not applied: a line \"# end of file\" follows each whole one";
    assert_eq!(told(GOOD, None), within);
}
