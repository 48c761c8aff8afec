use std::io::{self, ErrorKind};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netlink::{Function as Seen, FunctionSetting, FunctionVlan};
use sriov::FunctionSettings;
use support::{PciTree, address_of_igb, needs};

use super::*;
use crate::kernels::backend::KernelBackend;
use crate::kernels::plan;

/// Model of the driver of a port, which keeps the settings of its functions.
#[derive(Clone, Debug, Default)]
struct Driver(Arc<Mutex<DriverState>>);

#[derive(Debug, Default)]
struct DriverState {
    functions: Vec<Seen>,
    /// Changes so far, each with the number of its function.
    changes: Vec<(u32, FunctionSetting)>,
    /// The setting that it refuses.
    refused: Option<FunctionSetting>,
}

impl Driver {
    fn state(&self) -> MutexGuard<'_, DriverState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PortSettings for Driver {
    fn functions(&self, port: &str) -> io::Result<Vec<Seen>> {
        assert_eq!(port, "eth0");
        Ok(self.state().functions.clone())
    }

    fn set_function(&self, port: &str, number: u32, setting: FunctionSetting) -> io::Result<()> {
        assert_eq!(port, "eth0");
        let mut state = self.state();
        if state.refused == Some(setting) {
            return Err(ErrorKind::Unsupported.into());
        }
        state.changes.push((number, setting));
        let function = state.functions.iter_mut().find(|function| function.number == number);
        let function = function.ok_or(ErrorKind::NotFound)?;
        match setting {
            FunctionSetting::Mac(mac) => function.mac = mac,
            FunctionSetting::Vlan(vlan) => function.vlan = vlan,
            FunctionSetting::SpoofCheck(on) => function.spoof_check = on,
            FunctionSetting::Trusted(on) => function.trusted = on,
        }
        Ok(())
    }
}

/// The port `eth0` with the eight functions of QEMU's igb, whose interfaces are `eth0v0` to `eth0v7`.
#[derive(Clone)]
struct Igb {
    tree: Arc<PciTree>,
    driver: Driver,
}

impl Ports for Igb {
    fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.tree.path())
    }

    fn settings(&self) -> Result<Box<dyn PortSettings>> {
        Ok(Box::new(self.driver.clone()))
    }
}

impl Igb {
    fn new() -> Self {
        let driver = Driver::default();
        driver.state().functions = (0..8).map(|number| Seen { number, ..Seen::default() }).collect();
        Self { tree: Arc::new(PciTree::of_qemus_igb()), driver }
    }

    fn functions(&self) -> Functions {
        Functions::new(Box::new(self.clone()), FunctionLocks::unguarded(self.tree.at("records")))
    }

    /// Takes the interface of a function out of the tree: it is in a router.
    fn move_away(&self, number: u32) {
        self.tree.move_away(&address_of_igb(number), &format!("eth0v{number}"));
    }

    /// Removes a function whose interface was in a router, as its driver does.
    fn vanish(&self, number: u32) {
        self.tree.remove_function("0000:01:00.0", number, &address_of_igb(number));
    }

    /// Adds such a function again: a new one, which has none of the former settings, and whose interface has this name.
    fn come_back(&self, number: u32, interface: &str) {
        self.tree.add_named_function_of_igb(number, interface);
        self.driver.state().functions[number as usize] = Seen { number, ..Seen::default() };
    }

    /// VLANs of the first two functions.
    fn vlans(&self) -> [u16; 2] {
        let state = self.driver.state();
        [0, 1].map(|number: usize| state.functions[number].vlan.id)
    }

    fn changes(&self) -> Vec<(u32, FunctionSetting)> {
        self.driver.state().changes.clone()
    }
}

/// A NIC, the first of its router, that requests any function and this VLAN.
fn wanted(nic: &str, vlan: u16) -> (usize, Function) {
    let (nic, interface) = (nic.to_owned(), "eth0".to_owned());
    let wish = FunctionRequest { nic, interface, function: None, held: None };
    let settings = FunctionSettings { vlan: Some(vlan), ..FunctionSettings::default() };
    (0, Function { wish, count: None, wanted: settings })
}

/// A NIC that requests function 0 and this VLAN.
fn first(nic: &str, vlan: u16) -> [(usize, Function); 1] {
    let mut first = wanted(nic, vlan);
    first.1.wish.function = Some(0);
    [first]
}

fn in_vlan(number: u32, vlan: u16) -> (u32, FunctionSetting) {
    (number, FunctionSetting::Vlan(FunctionVlan::new(vlan)))
}

#[test]
fn two_routers_of_a_run_have_a_function_each() {
    let igb = Igb::new();
    let mut functions = igb.functions();
    let mut told = Vec::new();
    let mut journal = |remains: Remains<'_>| match remains {
        Remains::Function(former, _) => told.push((former.number, former.settings.vlan)),
        _ => panic!("nothing else is to be restored"),
    };
    let (a, b) = ([wanted("a.wan", 7)], [wanted("b.wan", 8)]);
    let first = functions.claim(&a, &[], &mut journal).expect("claimed");
    igb.move_away(0);
    let second = functions.claim(&b, &held(&a, &first), &mut journal).expect("claimed");
    assert_eq!(told, [(0, Some(0)), (1, Some(0))], "the former VLANs, before they are changed");
    let interfaces: Vec<String> = links(&first).chain(links(&second)).map(|(_, name)| name).collect();
    assert_eq!(interfaces, ["eth0v0", "eth0v1"]);
    assert_eq!(igb.vlans(), [7, 8]);
    let mut others = held(&a, &first);
    others.extend(held(&b, &second));
    let mut third = wanted("c.wan", 9);
    third.1.wish.function = Some(1);
    let refusal = functions.claim(&[third], &others, &mut |_| panic!("nothing is to be changed"));
    let line = refusal.expect_err("b has it").to_string();
    assert!(line.contains("b.wan and c.wan both request virtual function 1"), "{line}");
    drop(first);
    assert_eq!(igb.vlans(), [0, 8], "each claim restores its own");
    drop(second);
    assert_eq!(igb.vlans(), [0, 0]);
}

#[test]
fn of_two_runs_that_want_one_function_one_has_it_until_its_end() {
    let igb = Igb::new();
    let (mut ours, mut theirs) = (igb.functions(), igb.functions());
    let claims = ours.claim(&first("a.wan", 7), &[], &mut |_| ()).expect("claimed");
    igb.move_away(0);
    let refusal = theirs.claim(&first("b.wan", 8), &[], &mut |_| panic!("nothing is to be changed"));
    let line = refusal.expect_err("the other run has it").to_string();
    assert!(line.contains("another namespace") && line.lines().count() == 1, "{line}");
    let any = theirs.claim(&[wanted("b.wan", 8)], &[], &mut |_| ()).expect("there are more");
    assert_eq!(links(&any).map(|(_, name)| name).collect::<Vec<_>>(), ["eth0v1"]);
    assert_eq!(igb.vlans(), [7, 8]);
    // It comes home with the end of its run.
    igb.tree.interface(&address_of_igb(0), "eth0v0");
    drop(claims);
    assert_eq!(igb.vlans(), [0, 8]);
    let claims = theirs.claim(&first("c.wan", 9), &[], &mut |_| ()).expect("it is free");
    assert_eq!((igb.vlans(), claims.len()), ([9, 8], 1));
}

#[test]
fn of_two_runs_that_claim_at_once_each_has_functions_of_its_own() {
    let igb = Igb::new();
    let (mut ours, mut theirs) = (igb.functions(), igb.functions());
    // Its interface is still here: the router that it moves into is only being made.
    let claims = ours.claim(&first("a.wan", 7), &[], &mut |_| ()).expect("claimed");
    let mut by_name = wanted("b.wan", 8);
    by_name.1.wish.interface = "eth0v0".to_owned();
    for wanted in [first("b.wan", 8), [by_name]] {
        let refusal = theirs.claim(&wanted, &[], &mut |_| panic!("nothing is to be changed"));
        let line = refusal.expect_err("the other run has it").to_string();
        let run = process::id();
        assert_eq!(line, format!("virtual function 0 of `eth0` is in use by another run (pid {run})"));
    }
    let any = theirs.claim(&[wanted("b.wan", 8)], &[], &mut |_| ()).expect("there are more");
    assert_eq!(links(&any).map(|(_, name)| name).collect::<Vec<_>>(), ["eth0v1"]);
    assert_eq!(igb.vlans(), [7, 8]);
    drop((claims, any));
    let all = (0..8_usize).map(|place| (place, wanted(&format!("a.{place}"), 9).1));
    let claims = ours.claim(&all.collect::<Vec<_>>(), &[], &mut |_| ()).expect("they are free");
    let refusal = theirs.claim(&[wanted("b.wan", 8)], &[], &mut |_| panic!("nothing is to be changed"));
    let line = refusal.expect_err("none is left").to_string();
    assert!(line.contains("in use by another run") && line.lines().count() == 1, "{line}");
    drop(claims);
    assert_eq!(igb.vlans(), [0, 0]);
    assert!(!igb.tree.at("records").exists(), "nothing is left");
}

#[test]
fn a_function_that_another_run_has_claimed_is_in_use_though_its_interface_is_here() {
    let igb = Igb::new();
    let (mut ours, mut theirs) = (igb.functions(), igb.functions());
    let claims = ours.claim(&first("a.wan", 7), &[], &mut |_| ()).expect("claimed");
    let mut fewer = wanted("b.wan", 8);
    fewer.1.count = Some(4);
    let refusal = theirs.claim(&[fewer], &[], &mut |_| ()).expect_err("all would be removed");
    let line = refusal.to_string();
    assert!(line.contains("function 0 is in use") && line.lines().count() == 1, "{line}");
    assert_eq!(igb.vlans(), [7, 0]);
    theirs.restore_counts();
    drop(claims);
    assert!(!igb.tree.at("records").exists(), "nothing is left");
}

#[test]
fn a_refused_setting_gives_back_those_before_it() {
    let igb = Igb::new();
    let mut functions = igb.functions();
    let mut checked = wanted("a.wan", 7);
    checked.1.wanted.spoof_check = Some(true);
    igb.driver.state().refused = Some(FunctionSetting::SpoofCheck(true));
    let refusal = functions.claim(&[checked], &[], &mut |_| ()).expect_err("refused");
    let line = format!("{refusal:#}");
    assert!(line.contains("setting the spoof check of virtual function 0 of `eth0`"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert_eq!(igb.changes(), [in_vlan(0, 7), in_vlan(0, 0)]);
    // So do the other NICs of a router.
    let mut both = [wanted("a.wan", 7), wanted("a.lan", 8)];
    both[1].0 = 1;
    igb.driver.state().refused = Some(FunctionSetting::Vlan(FunctionVlan::new(8)));
    functions.claim(&both, &[], &mut |_| ()).expect_err("refused");
    assert_eq!(igb.changes()[2..], [in_vlan(0, 7), in_vlan(0, 0)]);
    igb.driver.state().refused = None;
    let claims = functions.claim(&both, &[], &mut |_| ()).expect("claimed");
    assert_eq!((igb.vlans(), claims.len()), ([7, 8], 2));
}

/// Two routers, whose names begin like this, the first one with this address, in VLANs 7 and 8.
fn specs(of: &str, address: &str) -> Vec<Spec> {
    let router = |name: &str, vlan: u16, address: &str| {
        format!(
            "[[router]]\nname = \"{name}{}\"\nengine = \"kernel\"\n\
             [[router.nic]]\nname = \"wan\"\nattach = \"vf:eth0\"\nvlan = {vlan}\naddress = \"{address}/24\"\n",
            process::id()
        )
    };
    let text = router(&format!("{of}-a"), 7, address) + &router(&format!("{of}-b"), 8, "198.51.100.1");
    let plan = config::parse(&text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"));
    plan::all(&plan).expect("a good plan")
}

#[test]
fn a_router_that_is_changed_keeps_its_function_which_comes_home() {
    needs!(Root, Program("ip"));
    let (host, igb) = (support::Namespace::add("functions").expect("a namespace"), Igb::new());
    for number in ["0", "1"] {
        let (function, far) = (format!("eth0v{number}"), format!("far{number}"));
        let words = ["link", "add", function.as_str(), "type", "veth", "peer", "name", far.as_str()];
        host.ip(&words).expect("a link");
    }
    let has = |function: &str| host.links().expect("links").iter().any(|link| link == function);
    let work = || {
        let (journal, folder) = (Box::new(|_: Remains<'_>| ()), igb.tree.at("containers"));
        let mut backend = HostBackend::with_functions(journal, folder, igb.functions());
        for (number, spec) in (0..).zip(&specs("vf", "192.0.2.1")) {
            backend.make(spec).expect("made");
            igb.move_away(number);
        }
        assert!(!has("eth0v0") && !has("eth0v1"), "both are in their routers");
        let changed = specs("vf", "192.0.2.9").remove(0);
        backend.make(&changed).expect("changed");
        assert_eq!(igb.changes(), [in_vlan(0, 7), in_vlan(1, 8)], "their port was asked for nothing more");
        let nics = backend.look(changed.name()).expect("it runs").nics;
        assert!(matches!(nics.get("wan"), Some(Some(_))), "{nics:?}");
        backend.end(changed.name()).expect("ended");
        assert!(has("eth0v0") && !has("eth0v1"), "the other one stays");
        assert_eq!(igb.vlans(), [0, 8]);
        drop(backend);
        assert!(has("eth0v1"));
        assert_eq!(igb.vlans(), [0, 0]);
    };
    host.inside(work).expect("no panic inside");
}

#[test]
fn a_function_that_has_vanished_and_is_back_has_its_settings_again() {
    needs!(Root, Program("ip"));
    let (host, igb) = (support::Namespace::add("vanished").expect("a namespace"), Igb::new());
    let ip = |words: &str| host.ip(&words.split(' ').collect::<Vec<_>>()).expect("it is done");
    let has = |function: &str| host.links().expect("links").iter().any(|link| link == function);
    let add = || ip("link add eth0v0 type veth peer name far0");
    add();
    let work = || {
        let (journal, folder) = (Box::new(|_: Remains<'_>| ()), igb.tree.at("containers"));
        let mut backend = HostBackend::with_functions(journal, folder, igb.functions());
        let spec = specs("back", "192.0.2.1").remove(0);
        backend.make(&spec).expect("made");
        igb.move_away(0);
        // The interface goes with the other end of its pair, wherever it is.
        ip("link delete far0");
        igb.vanish(0);
        let line = format!("{:#}", backend.repair(spec.name()).expect_err("it is not there"));
        assert!(line.contains("eth0v0") && line.lines().count() == 1, "{line}");
        assert_eq!(backend.look(spec.name()).expect("it runs").nics.get("wan"), Some(&None));
        igb.come_back(0, "eth0v0");
        add();
        assert!(backend.repair(spec.name()).expect("restored"), "it was moved in again");
        assert_eq!((igb.vlans(), has("eth0v0")), ([7, 0], false));
        igb.move_away(0);
        backend.repair(spec.name()).expect("nothing is missing");
        backend.end(spec.name()).expect("ended");
        assert_eq!(igb.changes(), [in_vlan(0, 7), in_vlan(0, 7), in_vlan(0, 0)]);
        assert!(has("eth0v0"));
    };
    host.inside(work).expect("no panic inside");
}

#[test]
fn a_function_that_is_back_under_another_name_is_moved_in_again_and_comes_home_with_that() {
    needs!(Root, Program("ip"));
    let (host, igb) = (support::Namespace::add("renamed").expect("a namespace"), Igb::new());
    let ip = |words: &str| host.ip(&words.split(' ').collect::<Vec<_>>()).expect("it is done");
    let has = |function: &str| host.links().expect("links").iter().any(|link| link == function);
    ip("link add eth0v0 type veth peer name far0");
    let work = || {
        let (journal, folder) = (Box::new(|_: Remains<'_>| ()), igb.tree.at("containers"));
        let mut backend = HostBackend::with_functions(journal, folder, igb.functions());
        let spec = specs("name", "192.0.2.1").remove(0);
        backend.make(&spec).expect("made");
        igb.move_away(0);
        ip("link delete far0");
        igb.vanish(0);
        backend.repair(spec.name()).expect_err("it is not there");
        igb.come_back(0, "net7");
        ip("link add net7 type veth peer name far7");
        assert!(backend.repair(spec.name()).expect("restored"), "it was moved in again");
        assert_eq!((igb.vlans(), has("net7")), ([7, 0], false));
        igb.tree.move_away(&address_of_igb(0), "net7");
        assert!(!backend.repair(spec.name()).expect("nothing is missing"));
        let changed = specs("name", "192.0.2.9").remove(0);
        backend.make(&changed).expect("changed");
        let nics = backend.look(spec.name()).expect("it runs").nics;
        assert!(matches!(nics.get("wan"), Some(Some(_))), "{nics:?}");
        backend.end(spec.name()).expect("ended");
        assert!(has("net7") && !has("eth0v0"));
        assert_eq!(igb.vlans(), [0, 0]);
    };
    host.inside(work).expect("no panic inside");
}
