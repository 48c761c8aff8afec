//! Opening what another file needs takes its time: everything else goes on meanwhile.

use std::fs;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, anyhow};
use api::{Answer, Client, Request};
use rustix::fs::{FlockOperation, flock};

use super::stage::{ONE, Stage};

fn apply(dry_run: bool) -> Request {
    let text = ONE.replace("192.0.2.1/24", "192.0.2.3/24");
    Request::Apply { file: "next.toml".to_owned(), text, dry_run }
}

/// A run that is opening what a file needs, until the test gives the outcome; and the client that waits for
/// it.
fn opening() -> (Stage, Sender<Result<()>>, Client) {
    let mut stage = Stage::up(ONE);
    let (answer, answers) = channel();
    let answers = Mutex::new(answers);
    stage.supervisor().changes.file_opener.open = Arc::new(move |_, _| {
        let answer = answers.lock().unwrap_or_else(PoisonError::into_inner).recv();
        answer.unwrap_or_else(|_| Err(anyhow!("the test is over"))).map(|()| Default::default())
    });
    let client = stage.client(&apply(false));
    // The file is read first.
    stage.until(|stage| stage.supervisor().changes.is_opened_now());
    (stage, answer, client)
}

fn refusal(client: &mut Client) -> String {
    client.next_answer().expect_err("it is refused").to_string()
}

#[test]
fn clients_are_answered_while_a_file_is_opened_and_then_it_is_applied() {
    let (mut stage, answer, mut client) = opening();
    let mut curious = stage.client(&Request::Ps {});
    let id = stage.plane().asked(|request| matches!(request, Request::Ps {})).expect("it is asked");
    stage.plane().answer(id, Err(api::Error::new("not now")));
    stage.turn().expect("it goes on");
    assert!(matches!(curious.next_answer(), Ok(Answer::Ps(_))));
    let [router, key, value] = ["edge", "limit", "1kpps"].map(str::to_owned);
    let mut second = stage.client(&Request::Set { router, key, value });
    assert!(stage.plane().is_to_become().is_none(), "nothing is changed yet");
    answer.send(Ok(())).expect("it is waited for");
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    let plan = stage.plane().follows().expect("it is to follow");
    assert_eq!(plan.routers[0].limit, None, "each in its turn");
    stage.turn().expect("it goes on");
    assert!(matches!(client.next_answer(), Ok(Answer::Applied { .. })));
    let set = stage.plane().follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    assert!(matches!(second.next_answer(), Ok(Answer::Done { .. })));
    assert!(set.routers[0].limit.is_some() && set.routers[0].nics == plan.routers[0].nics);
    assert_eq!(plan.routers[0].nics[0].addresses[0].to_string(), "192.0.2.3/24");
}

#[test]
fn clients_are_answered_while_remains_of_a_killed_run_hold_a_name() {
    let mut stage = Stage::up(ONE);
    stage.supervisor().changes.file_opener.open = Arc::new(|_, _| Ok(Default::default()));
    let place = stage.supervisor().lock.runs().with_file_name("routers").join("west");
    fs::write(&place, "999999999\n").expect("a dead process");
    let rest = fs::File::open(&place).expect("opened");
    flock(&rest, FlockOperation::LockExclusive).expect("locked");
    let west = "[[router]]\nname = \"west\"\nengine = \"process\"\n\
                [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"192.0.2.2/24\"\n";
    let (file, text) = ("next.toml".to_owned(), format!("{ONE}{west}"));
    let mut client = stage.client(&Request::Apply { file, text, dry_run: false });
    stage.until(|stage| stage.supervisor().changes.is_opened_now());
    let mut curious = stage.client(&Request::Events { since: None });
    assert!(matches!(curious.next_answer(), Ok(Answer::Events { .. })));
    assert!(stage.supervisor().changes.is_opened_now() && !stage.supervisor().lock.has("west"));
    drop(rest);
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    assert!(stage.supervisor().lock.has("west"));
    stage.plane().follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    assert!(matches!(client.next_answer(), Ok(Answer::Applied { .. })));
}

#[test]
fn what_cannot_be_opened_is_refused_and_the_next_file_is_taken() {
    let (mut stage, answer, mut client) = opening();
    answer.send(Err(anyhow!("router edge, NIC lan: it is in use"))).expect("it is waited for");
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    assert!(refusal(&mut client).contains("router edge, NIC lan: it is in use"));
    assert_eq!(stage.lines("next.toml was not applied: router edge, NIC lan: it is in use").len(), 1);
    let _next = stage.client(&apply(true));
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    assert!(stage.plane().is_to_become().is_some(), "a rehearsal opens nothing");
}

#[test]
fn a_data_plane_that_dies_meanwhile_is_told_of_no_file() {
    let (mut stage, answer, mut client) = opening();
    stage.plane().die();
    stage.turn().expect("it goes on");
    answer.send(Ok(())).expect("it is waited for");
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    let told = refusal(&mut client);
    assert!(told.contains("try again in a second"), "{told}");
    assert!(!stage.supervisor().changes.is_busy());
}
