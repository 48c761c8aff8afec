use std::path::Path;

use link::Supply;

use super::{Resources, continuation};

fn plan(nics: &[(&str, &str)]) -> config::Plan {
    let nics: String = nics
        .iter()
        .enumerate()
        .map(|(n, (name, attach))| {
            format!("[[router.nic]]\nname = \"{name}\"\nattach = \"{attach}\"\naddress = \"10.{n}.0.1/24\"\n")
        })
        .collect();
    config::parse(&format!("[[router]]\nname = \"edge\"\nengine = \"process\"\n{nics}"), "x.toml")
        .expect("good")
}

#[test]
fn captures_are_opened_handed_on_and_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = |name: &str| format!("pcap:{}", folder.path().join(name).display());
    let first = plan(&[("a", &capture("a.pcap")), ("b", "null")]);
    let mut held = Resources::open(&first, &Default::default()).expect("opened");
    let (supplies, descriptors) = held.supplies(&Resources::default(), &first).expect("descriptors");
    assert_eq!(supplies, [Supply::Uplink { nic: "edge.a".to_owned(), what: uplink::Description::Capture }]);
    assert_eq!(descriptors.len(), 1);
    std::fs::write(folder.path().join("a.pcap"), "frames").expect("written");
    let second = plan(&[("a", &capture("a.pcap")), ("c", &capture("c.pcap"))]);
    let opened = Resources::open(&second, &held.held(&second)).expect("opened");
    assert_eq!(std::fs::read(folder.path().join("a.pcap")).expect("there"), b"frames", "it is not made anew");
    assert_eq!(held.supplies(&opened, &second).expect("descriptors").1.len(), 2);
    held.adopt(opened, &first, &second).expect("adopted");
    assert_eq!(held.uplinks.len(), 2);
    let third = plan(&[("c", &capture("c.pcap"))]);
    held.adopt(Resources::default(), &second, &third).expect("adopted");
    assert_eq!(held.uplinks.len(), 1);
    assert_eq!(held.supplies(&Resources::default(), &second).expect("descriptors").1.len(), 1);
}

#[test]
fn what_cannot_be_opened_is_named() {
    let plan = plan(&[("a", "pcap:/there/is/no/such/folder/x.pcap")]);
    let error = format!("{:#}", Resources::open(&plan, &Default::default()).expect_err("no folder"));
    assert!(
        error.starts_with("router edge, NIC a: cannot write /there/is/no/such/folder/x.pcap: "),
        "{error}"
    );
}

#[test]
fn a_capture_goes_on_in_a_file_of_its_own() {
    assert_eq!(continuation(Path::new("/a/x.pcap"), 2), Path::new("/a/x.2.pcap"));
    assert_eq!(continuation(Path::new("/a.b/x"), 3), Path::new("/a.b/x.3"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.pcap");
    let plan = plan(&[("a", &format!("pcap:{}", path.display()))]);
    let mut held = Resources::open(&plan, &Default::default()).expect("opened");
    let next = folder.path().join("x.2.pcap");
    held.reopen_captures(1).expect("nothing to do");
    assert!(!next.exists(), "nothing is in it yet");
    std::fs::write(&path, "frames").expect("written");
    held.reopen_captures(1).expect("opened");
    assert!(path.exists() && next.exists());
}
