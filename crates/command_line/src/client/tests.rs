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
