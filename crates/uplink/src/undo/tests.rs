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
    let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
    let _listeners = paths.each_ref().map(|path| UnixListener::bind(path).expect("bound"));
    let begin = Instant::now();
    for path in &paths {
        Undo::of_socket(path).expect("a path").after_kill(begin + Duration::from_millis(100));
    }
    assert!(begin.elapsed() < Duration::from_secs(1));
    assert!(paths.iter().all(|path| path.exists()));
}
