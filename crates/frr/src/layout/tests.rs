use super::*;

#[test]
fn folders_are_those_of_dash_n() {
    let layout = Layout::new(Path::new("/"), "edge").expect("a name");
    assert_eq!(layout.folders(), [Path::new("/etc/frr/edge"), Path::new("/run/frr/edge")]);
    assert_eq!(layout.vty(Daemon::Bgp), Path::new("/run/frr/edge/bgpd.vty"));
    assert_eq!(layout.data_plane_of_bfd(), Path::new("/run/frr/edge/bfdd_dplane.sock"));
}

#[test]
fn names_stay_in_their_folder() {
    for name in ["", ".", "..", "a/b", "a b", "\u{e4}", &"x".repeat(65)] {
        assert_eq!(Layout::new(Path::new("/"), name), None, "{name}");
    }
    assert!(Layout::new(Path::new("/"), "core-1_a").is_some());
}

#[test]
fn files_are_written_for_the_owner_alone() {
    let root = tempfile::tempdir().expect("a folder");
    let layout = Layout::new(root.path(), "edge").expect("a name");
    layout.write("hostname edge", None).expect("written");
    layout.write("hostname edge2", None).expect("written again");
    let file = root.path().join("etc/frr/edge/frr.conf");
    assert_eq!(fs::read_to_string(&file).expect("a file"), "hostname edge2\n");
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
    let sockets = root.path().join("run/frr/edge");
    assert_eq!(fs::metadata(&sockets).expect("a folder").permissions().mode() & 0o777, 0o750);
    fs::write(sockets.join("bgpd.vty"), "").expect("written");
    layout.forget(Daemon::Bgp).expect("removed");
    layout.forget(Daemon::Bgp).expect("it is not there");
    assert!(!sockets.join("bgpd.vty").exists());
}

#[test]
fn the_owner_is_found_by_name() {
    let passwd = "root:x:0:0:root::/bin/sh\nfrrx:x:1:1::/:\nfrr:x:105:111:Frr routing suite,,,:/nonexistent:/bin/false\n";
    assert_eq!(Owner::find(passwd), Some(Owner { user: 105, group: 111 }));
    assert_eq!(Owner::find("frr:x:a:1::/:\nfrr\n"), None);
}
