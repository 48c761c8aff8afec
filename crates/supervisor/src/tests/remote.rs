//! Files of back ends on other hosts, as clients that follow them are told.

use std::sync::Arc;

use api::{Answer, Outcome, Request};

use super::stage::Stage;

/// A group with a back end here and one behind a tunnel.
const FILE: &str = "[switch.field]\n[[group]]\nname = \"core\"\nkind = \"multistage\"\nbalancer = \"vm\"\nbackends = 1\n\
                    engine = \"process\"\ntunnels = \"udp:127.0.0.1:4800-127.0.0.2:4800\"\n\
                    [[group.nic]]\nname = \"lan\"\nattach = \"switch:field\"\naddress = \"198.51.100.1/24\"\n";

fn asked(stage: &mut Stage, member: &str, known: Option<u64>) -> Outcome {
    stage.client(&Request::Remote { member: member.to_owned(), known }).next_answer()
}

/// Number of the plan that runs, and the file if it is not that of the known one.
fn told(stage: &mut Stage, known: Option<u64>) -> (u64, Option<String>) {
    match asked(stage, "core_63", known) {
        Ok(Answer::Remote { plan, file }) => (plan, file),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_file_is_that_of_the_plan_that_runs_and_is_told_once() {
    let mut stage = Stage::up(FILE);
    stage.supervisor().changes.file_opener.open = Arc::new(|_, _| Ok(Default::default()));
    let (first, file) = told(&mut stage, None);
    let file = file.expect("no plan is known");
    assert!(file.contains("attach = \"udp:127.0.0.2:4800-127.0.0.1:4800\""), "{file}");
    assert_eq!(told(&mut stage, Some(first)), (first, None));
    // Another plan, by which the other host is to do the same.
    let [router, key, value] = ["core", "restart", "never"].map(str::to_owned);
    let mut client = stage.client(&Request::Set { router, key, value });
    stage.plane().follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    assert!(matches!(client.next_answer(), Ok(Answer::Done { .. })));
    let (second, same) = told(&mut stage, Some(first));
    assert_eq!((second > first, same.as_ref()), (true, Some(&file)));
    let route = "to = \"203.0.113.0/24\"\nvia = \"198.51.100.9\"\n";
    let text = format!("{FILE}[[group.route]]\n{route}");
    let mut client = stage.client(&Request::Apply { file: "next.toml".to_owned(), text, dry_run: false });
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
    assert_eq!(told(&mut stage, Some(second)), (second, None), "the data plane may still refuse it");
    stage.plane().follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    assert!(matches!(client.next_answer(), Ok(Answer::Applied { .. })));
    let (third, next) = told(&mut stage, Some(second));
    let next = next.expect("it is another one");
    assert!(third > second && next.contains(route) && !file.contains(route), "{next}");
}

#[test]
fn it_is_told_without_a_data_plane_and_only_of_back_ends_on_other_hosts() {
    let mut stage = Stage::up(FILE);
    stage.plane().die();
    stage.turn().expect("it goes on");
    let (number, file) = told(&mut stage, None);
    assert!(file.is_some());
    assert_eq!(told(&mut stage, Some(number)), (number, None));
    for (member, known) in [("core_0", None), ("edge", Some(number + 1))] {
        let why = asked(&mut stage, member, known).expect_err("there is none").to_string();
        assert_eq!(why, format!("{member:?} is no back end on another host; write one of core_63"));
    }
}
