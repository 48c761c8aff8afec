use std::fs;

use super::*;
use crate::DataPlaneChange;
use crate::requirements::tests::wanted;

#[test]
fn a_capture_goes_on_in_a_file_of_its_own() {
    assert_eq!(continuation(Path::new("/a/x.pcap"), 2), Path::new("/a/x.2.pcap"));
    assert_eq!(continuation(Path::new("/a.b/x"), 3), Path::new("/a.b/x.3"));
    let folder = tempfile::tempdir().expect("a folder");
    let (path, next) = (folder.path().join("x.pcap"), folder.path().join("x.2.pcap"));
    let mut held = open(&wanted(&format!("pcap:{}", path.display()))).expect("opened");
    held.turn(DataPlaneChange::Begins(1)).expect("nothing to do");
    assert!(!next.exists(), "nothing is in it yet");
    fs::write(&path, "frames").expect("written");
    held.turn(DataPlaneChange::Ended).expect("nothing to do");
    assert!(!next.exists());
    held.turn(DataPlaneChange::Begins(1)).expect("opened");
    assert!(path.exists() && next.exists());
}
