use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::thread::yield_now;

use attach::{Watched, Work};
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
    assert_eq!(supplies, [Supply { need: SupplyKind::Uplink, of, what, descriptors: 1 }]);
    assert_eq!(descriptors.len(), 1);
    std::fs::write(folder.path().join("a.pcap"), "frames").expect("written");
    let second = plan(&[("a", &capture("a.pcap")), ("c", &capture("c.pcap"))]);
    let opened = Resources::open(&second, &held.held(&second)).expect("opened");
    assert_eq!(std::fs::read(folder.path().join("a.pcap")).expect("there"), b"frames", "it is not made anew");
    assert_eq!(held.supplies(&opened, &second).expect("descriptors").1.len(), 2);
    held.adopt(opened, &second, &mut LinkJobs::default());
    assert_eq!(held.uplinks.len(), 2);
    let third = plan(&[("c", &capture("c.pcap"))]);
    held.adopt(Resources::default(), &third, &mut LinkJobs::default());
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

/// Log of a test.
type Notes = Arc<Mutex<Vec<String>>>;

/// Fake attachment that logs what it is changed to, what it replaced, and that it is closed.
#[derive(Debug)]
struct Scripted(&'static str, Notes);

fn note(notes: &Notes, name: &str, line: &str) {
    notes.lock().expect("no panic").push(format!("{name}: {line}"));
}

/// Does all queued chores. Returns the log so far.
fn tended(link_jobs: &mut LinkJobs, notes: &Notes) -> Vec<String> {
    loop {
        assert!(link_jobs.attend().is_empty(), "something was refused");
        if !link_jobs.holds_files() {
            return std::mem::take(&mut *notes.lock().expect("no panic"));
        }
        yield_now();
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        note(&self.1, self.0, "closed");
    }
}

impl HostResource for Scripted {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (json!(self.0), Vec::new())
    }

    fn resize(&self, before: &NicRequirements, now: &NicRequirements) -> Option<Work> {
        let (name, notes, line) = (self.0, self.1.clone(), format!("mtu {} -> {}", before.mtu, now.mtu));
        (before != now).then(|| -> Work {
            Box::new(move || {
                note(&notes, name, &line);
                Ok(())
            })
        })
    }

    fn inherit(&mut self, old: &mut dyn HostResource) {
        note(&self.1, self.0, &format!("in the place of {}", old.hand_over().0));
    }

    fn turn(&mut self, _: DataPlaneChange) -> Result<()> {
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }
}

/// Two NICs in one bridge; the second one has this MTU.
fn two_in_a_bridge(mtu: u32) -> Plan {
    let attach = format!("bridge:br0\"\nmtu = {mtu}\nmac = \"02:00:00:00:00:02");
    plan(&[("a", "bridge:br0"), ("b", &attach)])
}

#[test]
fn of_two_links_in_one_bridge_each_gets_the_size_that_its_own_nic_wants() {
    let (before, after, notes) = (two_in_a_bridge(1500), two_in_a_bridge(1400), Notes::default());
    let (mut held, mut link_jobs) = <(Resources, LinkJobs)>::default();
    for (at, name) in before.nics().zip(["a", "b"]) {
        held.put(at, Box::new(Scripted(name, notes.clone())));
    }
    held.adopt(Resources::default(), &after, &mut link_jobs);
    held.adopt(Resources::default(), &after, &mut link_jobs);
    assert_eq!(tended(&mut link_jobs, &notes), ["b: mtu 1500 -> 1400"], "once, and the other one not at all");
    held.adopt(Resources::default(), &plan(&[("a", "bridge:br0")]), &mut link_jobs);
    assert!(notes.lock().expect("no panic").is_empty(), "who adopts a plan closes nothing");
    assert_eq!(tended(&mut link_jobs, &notes), ["b: closed"]);
}

#[test]
fn what_is_to_be_done_is_done_in_the_order_in_which_it_came_up_but_for_wishes_that_others_follow() {
    let (notes, mut link_jobs) = (Notes::default(), LinkJobs::default());
    let work = |line: &'static str| -> Work {
        let notes = notes.clone();
        Box::new(move || {
            note(&notes, "edge.a", line);
            Ok(())
        })
    };
    link_jobs.wish("edge.a", work("100 frames"));
    assert!(!link_jobs.holds_files(), "no file waits for a wish");
    link_jobs.change(work("mtu"));
    link_jobs.close(Scripted("edge.b", notes.clone()));
    link_jobs.wish("edge.b", work("another's wish"));
    link_jobs.wish("edge.a", work("200 frames"));
    let done = tended(&mut link_jobs, &notes);
    assert_eq!(done, ["edge.a: mtu", "edge.b: closed", "edge.a: another's wish", "edge.a: 200 frames"]);
}

#[test]
fn what_was_opened_for_what_a_nic_wants_no_more_does_not_go_under_it() {
    let (before, after, notes) = (two_in_a_bridge(1500), two_in_a_bridge(1400), Notes::default());
    let (mut held, mut link_jobs) = <(Resources, LinkJobs)>::default();
    let at = before.nics().nth(1).expect("a NIC");
    held.put(at, Box::new(Scripted("old", notes.clone())));
    let mut replaced = |plan: &Plan, link_jobs: &mut LinkJobs| {
        let wanted = wanted(&before, "edge.b").expect("it is there");
        let meanwhile = Box::new(Scripted("new", notes.clone()));
        held.replace(plan, (wanted, meanwhile), link_jobs).expect("descriptors").is_some()
    };
    assert!(!replaced(&after, &mut link_jobs), "it has the size that was wanted before");
    assert!(!replaced(&plan(&[("a", "null")]), &mut link_jobs), "nobody has a link any more");
    assert!(notes.lock().expect("no panic").is_empty());
    assert_eq!(tended(&mut link_jobs, &notes), ["new: closed", "new: closed"]);
    assert!(replaced(&before, &mut link_jobs));
    assert_eq!(tended(&mut link_jobs, &notes), ["new: in the place of \"old\"", "old: closed"]);
}

#[test]
fn a_link_that_cannot_be_handed_over_does_not_replace_the_old_one() {
    let (plan, notes) = (two_in_a_bridge(1500), Notes::default());
    let (mut held, mut link_jobs) = <(Resources, LinkJobs)>::default();
    held.put(plan.nics().nth(1).expect("a NIC"), Box::new(Scripted("old", notes.clone())));
    let wanted = || wanted(&plan, "edge.b").expect("it is there");
    let new = (wanted(), Box::new(Scripted("new", notes.clone())) as Box<dyn HostResource>);
    let state = held.state();
    let refused = held.replace_with(&plan, new, &mut link_jobs, &|_| Err(ErrorKind::OutOfMemory.into()));
    assert!(refused.is_err() && held.state() == state);
    assert_eq!(tended(&mut link_jobs, &notes), ["new: closed"]);
    let next = (wanted(), Box::new(Scripted("next", notes.clone())) as Box<dyn HostResource>);
    assert!(held.replace(&plan, next, &mut link_jobs).expect("descriptors").is_some());
    assert_eq!(tended(&mut link_jobs, &notes), ["next: in the place of \"old\"", "old: closed"]);
}

#[test]
fn a_tap_of_a_kernel_router_is_closed_when_its_router_becomes_a_machine() {
    let on_a_switch = |engine: &str| {
        let nic = "[[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\n";
        let text = format!("[switch.lan]\n[[router]]\nname = \"edge\"\nengine = \"{engine}\"\n{nic}");
        config::parse(&text, "x.toml").expect("good")
    };
    let (before, after) = (on_a_switch("kernel"), on_a_switch("process"));
    let (notes, mut link_jobs) = (Notes::default(), LinkJobs::default());
    let mut held = Resources::default();
    held.put(before.nics().next().expect("a NIC"), Box::new(Scripted("tap", notes.clone())));
    let given = |held: &Resources, plan: &Plan| {
        held.supplies(&Resources::default(), plan).expect("descriptors").0.len()
    };
    assert_eq!((given(&held, &before), given(&held, &after)), (1, 0));
    held.adopt(Resources::default(), &before, &mut link_jobs);
    assert!(tended(&mut link_jobs, &notes).is_empty(), "it stays");
    held.adopt(Resources::default(), &after, &mut link_jobs);
    assert_eq!(tended(&mut link_jobs, &notes), ["tap: closed"]);
}

#[test]
fn the_process_of_a_router_is_handed_what_was_just_opened_for_a_new_nic() {
    let isolated = |nics: &[&str]| {
        let nic = |name: &&str| format!("[[router.nic]]\nname = \"{name}\"\nattach = \"null\"\n");
        let nics: String = nics.iter().map(nic).collect();
        let router = "[[router]]\nname = \"edge\"\nengine = \"kvm\"\nisolate = \"process\"\n";
        config::parse(&format!("{router}{nics}"), "x.toml").expect("good")
    };
    let (before, after) = (isolated(&["lan"]), isolated(&["lan", "dmz"]));
    // The test needs no KVM.
    let opened = |plan: &Plan, held: AlreadyOpen| {
        Resources::open(plan, &AlreadyOpen { kvm: true, ..held }).expect("opened")
    };
    let held = opened(&before, AlreadyOpen::default());
    let next = opened(&after, held.held(&after));
    let (supplies, _) = held.isolated_supplies(&next, &after.routers[0]).expect("descriptors");
    let of: Vec<&str> = supplies.iter().map(|supply| supply.of.as_str()).collect();
    assert_eq!(of, ["edge.lan", "edge.dmz"]);
}
