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
