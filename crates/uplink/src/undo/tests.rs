use std::fs;
use std::os::unix::net::UnixListener;

use super::*;

#[test]
fn a_socket_of_somebody_who_was_killed_is_taken_away_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let undo = |path: &Path| Undo::of_socket(path).expect("a path").now();
    let [listened, deserted, file] = ["listened", "deserted", "file"].map(path);
    let _listener = UnixListener::bind(&listened).expect("bound");
    drop(UnixListener::bind(&deserted).expect("bound"));
    fs::write(&file, "").expect("written");
    for path in [&listened, &deserted, &file, &path("nothing")] {
        undo(path);
    }
    assert_eq!([&listened, &deserted, &file].map(|path| path.exists()), [true, false, true]);
}

#[test]
fn sockets_in_use_are_waited_for_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths: Vec<_> = (0..30).map(|n: u32| folder.path().join(n.to_string())).collect();
    let _listeners: Vec<_> = paths.iter().map(|path| UnixListener::bind(path).expect("bound")).collect();
    let (begin, wait) = (Instant::now(), Duration::from_millis(200));
    for path in &paths {
        Undo::of_socket(path).expect("a path").after_kill(begin + wait);
    }
    assert!(begin.elapsed() < wait * 30, "one after the other");
    assert!(paths.iter().all(|path| path.exists()));
}
