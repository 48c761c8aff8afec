use std::sync::{Arc, Mutex};

use attach::Watched;
use serde_json::json;

use super::*;

fn plan(nics: &[(&str, &str)]) -> Plan {
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
    let what = json!([false, false]);
    let of = "edge.a".to_owned();
    assert_eq!(supplies, [Supply { need: Need::Uplink, of, what, descriptors: 1 }]);
    assert_eq!(descriptors.len(), 1);
    std::fs::write(folder.path().join("a.pcap"), "frames").expect("written");
    let second = plan(&[("a", &capture("a.pcap")), ("c", &capture("c.pcap"))]);
    let opened = Resources::open(&second, &held.held(&second)).expect("opened");
    assert_eq!(std::fs::read(folder.path().join("a.pcap")).expect("there"), b"frames", "it is not made anew");
    assert_eq!(held.supplies(&opened, &second).expect("descriptors").1.len(), 2);
    held.adopt(opened, &second).expect("adopted");
    assert_eq!(held.uplinks.len(), 2);
    let third = plan(&[("c", &capture("c.pcap"))]);
    held.adopt(Resources::default(), &third).expect("adopted");
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

/// What was opened, as a test has it: it writes down what it is made to be, and what it has taken the place of.
#[derive(Debug)]
struct Scripted(&'static str, Arc<Mutex<Vec<String>>>);

impl Scripted {
    fn note(&self, line: String) {
        self.1.lock().expect("no panic").push(format!("{}: {line}", self.0));
    }
}

impl Opened for Scripted {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (json!(self.0), Vec::new())
    }

    fn resize(&mut self, before: &Wanted, now: &Wanted) -> Result<()> {
        if before != now {
            self.note(format!("mtu {} -> {}", before.mtu, now.mtu));
        }
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Opened>) {
        self.note(format!("in the place of {}", old.hand_over().0));
    }

    fn turn(&mut self, _: Turn) -> Result<()> {
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }
}

/// Two NICs in one bridge, the second one with this MTU.
fn two_in_a_bridge(mtu: u32) -> Plan {
    let attach = format!("bridge:br0\"\nmtu = {mtu}\nmac = \"02:00:00:00:00:02");
    plan(&[("a", "bridge:br0"), ("b", &attach)])
}

#[test]
fn of_two_links_in_one_bridge_each_gets_the_size_that_its_own_nic_wants() {
    let (before, after, notes) = (two_in_a_bridge(1500), two_in_a_bridge(1400), Arc::default());
    let mut held = Resources::default();
    for (at, name) in before.nics().zip(["a", "b"]) {
        held.put(at, Box::new(Scripted(name, Arc::clone(&notes))));
    }
    held.adopt(Resources::default(), &after).expect("adopted");
    held.adopt(Resources::default(), &after).expect("adopted");
    assert_eq!(
        *notes.lock().expect("no panic"),
        ["b: mtu 1500 -> 1400"],
        "once, and the other one not at all"
    );
}

#[test]
fn what_was_opened_for_what_a_nic_wants_no_more_does_not_go_under_it() {
    let (before, after, notes) = (two_in_a_bridge(1500), two_in_a_bridge(1400), Arc::default());
    let mut held = Resources::default();
    let at = before.nics().nth(1).expect("a NIC");
    held.put(at, Box::new(Scripted("old", Arc::clone(&notes))));
    let meanwhile = || Box::new(Scripted("new", Arc::clone(&notes)));
    let replaced = |held: &mut Resources, plan: &Plan| {
        let wanted = wanted(&before, "edge.b").expect("it is there");
        held.replace(plan, wanted, meanwhile()).expect("descriptors").is_some()
    };
    assert!(!replaced(&mut held, &after), "it has the size that was wanted before");
    assert!(!replaced(&mut held, &plan(&[("a", "null")])), "nobody has a link any more");
    assert!(notes.lock().expect("no panic").is_empty());
    assert!(replaced(&mut held, &before));
    assert_eq!(*notes.lock().expect("no panic"), ["new: in the place of \"old\""]);
}
