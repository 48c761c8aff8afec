use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::*;

/// Bounds each wait.
const LIMIT: Duration = Duration::from_secs(60);

fn house() -> House {
    let network = File::open("/proc/thread-self/ns/net").expect("our own network namespace");
    House::new(network.into(), &["/run", "/var/tmp"]).expect("a house")
}

fn line(words: &[&str]) -> CommandLine {
    CommandLine {
        program: words[0].into(),
        words: words[1..].iter().map(|word| (*word).to_owned()).collect(),
    }
}

#[test]
fn what_is_written_inside_is_not_on_the_host() {
    support::needs!(Root, Program("setpriv"));
    let house = house();
    let name = format!("/run/ringroad-house-{}", std::process::id());
    let path = name.clone();
    house.within(move || fs::write(path, "inside")).expect("it lives").expect("written");
    assert!(!Path::new(&name).exists(), "{name} is on the host");
    let path = name.clone();
    assert_eq!(house.within(move || fs::read_to_string(path)).expect("it lives").expect("read"), "inside");
    assert!(Path::new(&format!("/proc/{}", house.first())).exists());
}

#[test]
fn all_inside_end_with_the_house() {
    support::needs!(Root, Program("setpriv"));
    let house = house();
    let mut slow = house.start(&line(&["sleep", "1000"])).expect("started");
    // The second process inside, as it sees itself.
    let own = house.start(&line(&["sh", "-c", "echo $$"])).expect("started");
    let said = own.wait_with_output().expect("ended").stdout;
    let number: u32 = String::from_utf8_lossy(&said).trim().parse().expect("a number");
    assert!((2..100).contains(&number), "{number} is no number of a young namespace");
    drop(house);
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = slow.try_wait().expect("a child") {
            break status;
        }
        assert!(Instant::now() < deadline, "it outlives its house");
        std::thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(status.signal(), Some(9));
}

/// More warnings than a pipe holds, before the answer.
#[test]
fn warnings_hold_up_no_answer() {
    support::needs!(Root, Program("setpriv"));
    let house = house();
    let program = "head -c 1000000 /dev/zero >&2; echo answered";
    let asked = house.ask(&line(&["sh", "-c", program])).expect("started");
    assert_eq!(crate::ask::hear(asked).as_deref(), Some("answered\n"));
}

#[test]
fn a_program_that_is_missing_is_an_error_and_the_house_stays() {
    support::needs!(Root, Program("setpriv"));
    let house = house();
    assert_eq!(
        house.start(&line(&["/nonexistent"])).expect_err("no program").kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(house.within(|| 7).expect("it lives"), 7);
}

#[test]
fn a_house_that_cannot_be_made_is_one_line() {
    let nothing = File::open("/proc/self/status").expect("a file that is no namespace");
    let error = House::new(nothing.into(), &[]).expect_err("no namespace").to_string();
    assert!(error.contains("enter the network namespace") && !error.contains('\n'), "{error}");
}
