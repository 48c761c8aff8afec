use std::time::Duration;

use super::Traces;

fn of(things: &[&str]) -> Traces {
    Traces { things: things.iter().map(|thing| (*thing).to_owned()).collect() }
}

#[test]
fn only_what_is_new_is_left() {
    let before = of(&["link lo", "link old", "hugepages-2048kB free_hugepages 8"]);
    let after = of(&["link lo", "link new", "hugepages-2048kB free_hugepages 7"]);
    assert_eq!(after.since(&before), ["hugepages-2048kB free_hugepages 7", "link new"]);
    assert!(before.since(&before).is_empty());
}

#[test]
fn the_loopback_is_seen() {
    assert!(Traces::now().things.contains("link lo"));
}

#[test]
fn a_namespace_is_a_trace_until_it_is_removed() {
    crate::needs!(Root, Program("ip"));
    let before = Traces::now();
    let namespace = crate::Namespace::add("traces").expect("a namespace can be added");
    let ours = format!("namespace {}", namespace.name());
    assert!(Traces::now().since(&before).contains(&ours));
    drop(namespace);
    assert!(!Traces::left(&before, Duration::from_millis(100)).contains(&ours));
}

#[test]
fn a_socket_without_a_file_is_a_trace_while_it_is_open() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let before = Traces::now();
    let name = format!("ringroad-traces-{}", std::process::id());
    let socket =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("bound");
    let ours = format!("socket @{name}");
    assert!(Traces::now().since(&before).contains(&ours));
    drop(socket);
    assert!(!Traces::left(&before, Duration::from_millis(100)).contains(&ours));
}

#[test]
fn a_process_of_the_same_build_is_a_trace_and_one_of_another_is_not() {
    crate::needs!(Program("sleep"));
    let sleep = std::fs::canonicalize("/bin/sleep").expect("a program");
    let own = std::env::current_exe().expect("our program");
    let beside = tempfile::tempdir_in(own.parent().expect("a folder")).expect("a folder");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let before = Traces::now();
    let start = |folder: &std::path::Path, name: &str| {
        let program = folder.join(name);
        std::fs::copy(&sleep, &program).expect("copied");
        crate::Running::start(std::process::Command::new(program).arg("100")).expect("it starts")
    };
    let (ours, lab) = (start(beside.path(), "ringroad"), start(beside.path(), "ringroad-lab"));
    let other = start(elsewhere.path(), "ringroad");
    let seen = Traces::now().since(&before);
    let has = |id: u32| seen.iter().any(|trace| trace.starts_with(&format!("process {id} ")));
    assert!(has(ours.id()) && has(lab.id()) && !has(other.id()), "{seen:?}");
}

#[test]
fn a_cgroup_with_threads_of_another_pid_namespace_is_no_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |name: &str, tasks: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("tasks"), tasks).expect("written");
    };
    make("ringroad-own.edge", "7\n10\n");
    make("ringroad-empty.edge", "");
    make("ringroad-beside.edge", "0\n");
    make("ringroad-above", "");
    make("ringroad-above/edge", "0\n");
    let mut things = std::collections::BTreeSet::new();
    super::cgroups(folder.path(), 2, &mut things);
    let name = |thing: &String| thing.rsplit('/').next().map(str::to_owned);
    let names: Vec<String> = things.iter().filter_map(name).collect();
    assert_eq!(names, ["ringroad-empty.edge", "ringroad-own.edge"]);
}
