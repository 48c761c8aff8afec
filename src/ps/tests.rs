use std::path::PathBuf;

use api::{RunStatus, State};
use support::schema::Table;

use super::*;

fn router(name: &str, state: State, reason: Option<&str>) -> RouterStatus {
    RouterStatus {
        name: name.to_owned(),
        engine: "kvm".to_owned(),
        state,
        since_ms: 61_500,
        restarts: 3,
        reason: reason.map(str::to_owned),
        pid: None,
        member: None,
        threads: Vec::new(),
    }
}

fn answer() -> RunStatus {
    RunStatus {
        run: "lab".to_owned(),
        file: "lab.toml".to_owned(),
        program: "0.1.0".to_owned(),
        pid: 4711,
        data_plane: None,
        restarts: 0,
        up_ms: 100,
        routers: vec![
            router("edge", State::Running, None),
            router("core-of-all", State::Waiting, Some("vCPU 0: triple fault")),
        ],
    }
}

fn found(status: Result<RunStatus, api::Error>) -> Found {
    Found { name: "lab".to_owned(), socket: PathBuf::new(), status }
}

#[test]
fn a_line_for_each_router() {
    let text = table(&[found(Ok(answer())), found(Err(api::Error::new("it is dead")))]);
    let wanted = "\
RUN  PID   ROUTER       ENGINE  STATE      FOR        RESTARTS\n\
lab  4711  edge         kvm     running    1 min 1 s  3\n\
lab  4711  core-of-all  kvm     waiting    1 min 1 s  3         vCPU 0: triple fault\n\
lab  -     -            -       no answer  -          -         it is dead\n";
    assert_eq!(text, wanted);
}

#[test]
fn a_json_object_for_each_run() {
    let text = lines(&[found(Ok(answer())), found(Err(api::Error::new("it is dead")))]);
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let status: RunStatus = serde_json::from_value(lines[0].clone()).expect("a status");
    assert_eq!(status, answer());
    assert_eq!(lines[1], json!({ "run": "lab", "error": "it is dead" }));
    let ended = Table::of("ps error");
    ended.check(&lines[1]);
    let table = Table::of("ps");
    table.check(&lines[0]);
    let whole = Some(5);
    let routers = answer().routers.into_iter().map(|router| RouterStatus {
        pid: whole,
        threads: vec![api::Thread { name: "edge/vcpu0".to_owned(), tid: 6 }],
        ..router
    });
    let status = RunStatus { data_plane: whole, routers: routers.collect(), ..answer() };
    table.check(&json!(status));
}

#[test]
fn times_have_two_units() {
    let times = [0, 59_999, 60_000, 3_599_000, 3_600_000, 90_000_000];
    let wanted = ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "1 d 1 h"];
    assert_eq!(times.map(format_duration), wanted);
}
