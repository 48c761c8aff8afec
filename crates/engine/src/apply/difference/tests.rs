use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use config::{
    Attach, CpuSet, Deliver, Engine, FlowHash, Itr, LinkState, Mac, Neighbour, Nic, NicModel, Pin, Power,
    QueueLen, Role, Spin, Switch, TransmitMode, VhostThreads,
};
use proptest::prelude::*;

use super::*;

/// Model of a run, carried from plan to plan by steps alone.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    switches: BTreeMap<String, Duration>,
    routers: BTreeMap<String, Seen>,
}

/// A router without the parts that depend on its plan: switches by name, routes by prefix.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    router: Router,
    attachments: Vec<String>,
    routes: BTreeMap<Prefix, Route>,
}

fn seen(router: &Router) -> Seen {
    let attachments = router.nics.iter().map(|nic| nic.attach.to_string()).collect();
    let routes = router.routes.iter().map(|route| (route.to, *route)).collect();
    let mut router = router.clone();
    router.routes.clear();
    // The placement of threads belongs to the owner of the instance: no step changes it.
    router.pin = Pin::default();
    router.nics.iter_mut().for_each(|nic| nic.attach = Attach::null());
    Seen { router, attachments, routes }
}

impl Model {
    fn of(plan: &Plan) -> Self {
        let switches = plan.switches.iter().map(|switch| (switch.name.clone(), switch.ageing));
        let routers = plan.routers.iter().map(|router| (router.name.clone(), seen(router)));
        Self { switches: switches.collect(), routers: routers.collect() }
    }

    /// Carries out one step; panics if that is not possible in the current state.
    fn carry_out(&mut self, step: &Step, to: &Plan) {
        let ageing = |name: &str| to.switches.iter().find(|switch| switch.name == *name).map(|s| s.ageing);
        match step {
            Step::AddSwitch(name) => {
                let old = self.switches.insert(name.clone(), ageing(name).expect("in the new plan"));
                assert_eq!(old, None, "{name} is there already");
            }
            Step::SetAgeing(name) => {
                *self.switches.get_mut(name).expect("there") = ageing(name).expect("in the new plan");
            }
            Step::RemoveSwitch(name) => {
                let used = |seen: &Seen| seen.attachments.contains(&format!("switch:{name}"));
                assert!(!self.routers.values().any(used), "somebody is on {name}");
                assert!(self.switches.remove(name).is_some(), "{name} is not there");
            }
            Step::AddRouter(name) => {
                assert!(!self.routers.contains_key(name), "{name} is there already");
                self.insert(name, to);
            }
            Step::RemoveRouter(name) => {
                assert!(self.routers.remove(name).is_some(), "{name} is not there");
            }
            Step::ReplaceRouter(name, why) => {
                assert!(!why.is_empty() && self.routers.contains_key(name));
                self.insert(name, to);
            }
            Step::ChangeRoutes(name, changes) => {
                let routes = &mut self.routers.get_mut(name).expect("there").routes;
                changes.iter().for_each(|change| change_route(routes, change));
            }
            Step::Adjust(name, settings) => {
                let (own, to) =
                    (self.routers.get_mut(name).expect("there"), router(to, name).expect("in the new plan"));
                settings.iter().for_each(|setting| adjust(&mut own.router, setting, to));
            }
            Step::Power(name) => {
                self.routers.get_mut(name).expect("there").router.state =
                    router(to, name).expect("there").state;
            }
        }
    }

    fn insert(&mut self, name: &str, to: &Plan) {
        let new = seen(router(to, name).expect("in the new plan"));
        for attachment in new.attachments.iter().filter_map(|text| text.strip_prefix("switch:")) {
            assert!(self.switches.contains_key(attachment), "{attachment} is not there yet");
        }
        self.routers.insert(name.to_owned(), new);
    }
}

fn adjust(own: &mut Router, setting: &Setting, to: &Router) {
    match setting {
        Setting::Restart => own.restart = to.restart,
        Setting::Limit => own.limit = to.limit,
        Setting::Spin => own.spin = to.spin,
        Setting::Link(nic) => {
            let new = to.nics.iter().find(|new| new.name == *nic).expect("in the new plan");
            own.nics.iter_mut().find(|own| own.name == *nic).expect("there").link = new.link;
        }
    }
}

fn change_route(routes: &mut BTreeMap<Prefix, Route>, change: &RouteChange) {
    match change {
        RouteChange::Add(route) => assert_eq!(routes.insert(route.to, *route), None),
        RouteChange::Turn(old, new) => assert_eq!(routes.insert(old.to, *new), Some(*old)),
        RouteChange::Remove(route) => assert_eq!(routes.remove(&route.to), Some(*route)),
    }
}

const SWITCHES: [&str; 3] = ["red", "green", "blue"];

/// Generates NICs from a few values of each kind, so that plans have much in common.
fn nic(name: &'static str, switches: &[&'static str]) -> impl Strategy<Value = Nic> + use<> {
    let switches = switches.to_vec();
    (0..=switches.len(), 0..3_u8, 1..3_u32, any::<bool>(), any::<bool>()).prop_map(
        move |(attach, mac, queues, odd, out)| Nic {
            name: name.to_owned(),
            model: NicModel::VirtioNet,
            mode: TransmitMode::default(),
            itr: Itr::default(),
            combine: 0,
            combine_above: 0,
            attach: switches
                .get(attach)
                .map_or_else(Attach::null, |name| Attach::read(&format!("switch:{name}")).expect("a switch")),
            link: out.then_some(LinkState::Down),
            mac: Mac([2, 0, 0, 0, 0, mac]),
            addresses: Vec::new(),
            six: config::six::Six::default(),
            vrf: None,
            reverse_path: config::forwarding::ReversePath::Off,
            queues,
            hash: if odd { FlowHash::Flow } else { FlowHash::Symmetric },
            queue_len: QueueLen::default(),
            offload: true,
            memory_max: 64 << 30,
            mtu: 1500,
            deliver: Deliver::Queued,
            ring: 1024,
        },
    )
}

fn route() -> impl Strategy<Value = Route> {
    (0..4_u8, 0..2_u8, 0..2_usize).prop_map(|(to, via, nic)| Route {
        to: Prefix { network: Ipv4Addr::new(10, to, 0, 0), len: 16 },
        via: (via > 0).then(|| Ipv4Addr::new(192, 0, 2, via)),
        nic,
    })
}

fn one_router(name: &'static str, switches: &[&'static str]) -> impl Strategy<Value = Router> + use<> {
    let nics = (nic("x", switches), nic("y", switches), 0..4_u8);
    let nics = nics.prop_map(|(x, y, which)| match which {
        0 => vec![x],
        1 => vec![y, x],
        _ => vec![x, y],
    });
    let routes = prop::collection::btree_map(0..4_u8, route(), 0..4);
    let pins = (0..3_u32, 0..2_u32, 0..3_u64);
    // Mostly the same, so that small differences occur alone.
    let rare =
        (prop::bool::weighted(0.2), prop::bool::weighted(0.2), prop::bool::weighted(0.2), any::<bool>());
    (nics, routes, pins, rare).prop_map(move |(nics, routes, pins, (more, never, known, process))| {
        let routes: BTreeMap<Prefix, Route> = routes.into_values().map(|route| (route.to, route)).collect();
        let cpu = |cpu: u32| (cpu > 0).then(|| CpuSet::from_cpus([cpu - 1])).flatten();
        let neighbour = Neighbour { address: Ipv4Addr::new(192, 0, 2, 9), mac: Mac([2; 6]), nic: 0 };
        Router {
            name: name.to_owned(),
            engine: Some(if process { Engine::Process } else { Engine::Kvm }),
            linux: None,
            kernel: None,
            container: None,
            role: Role::Router,
            restart: if never { Restart::Never } else { Restart::Always },
            state: (pins.0 == 2).then_some(Power::Stopped),
            vcpus: 1,
            memory: if more { 64 << 20 } else { 32 << 20 },
            vhost: VhostThreads::Shared,
            pin: Pin { vcpu: cpu(pins.0), vhost: cpu(pins.1) },
            affinity: config::Affinity::default(),
            sched: config::Sched::default(),
            guarantee: None,
            limit: config::Rate::from_pps(pins.2),
            spin: if pins.1 == 0 { Spin::Always } else { Spin::default() },
            isolate: false,
            nics,
            routes: routes.into_values().collect(),
            neighbours: if known { vec![neighbour] } else { Vec::new() },
            forwarding: config::forwarding::Forwarding::default(),
            control: None,
        }
    })
}

fn plan() -> impl Strategy<Value = Plan> {
    let switches = prop::sample::subsequence(SWITCHES.to_vec(), 0..=3).prop_shuffle();
    let ages = prop::collection::vec(1..3_u64, 3);
    (switches, ages).prop_flat_map(|(names, ages)| {
        let routers = (one_router("one", &names), one_router("two", &names), one_router("three", &names));
        let kept = prop::sample::subsequence(vec![0_usize, 1, 2], 0..=3).prop_shuffle();
        (routers, kept).prop_map(move |((one, two, three), kept)| {
            let all = [one, two, three];
            let switch = |(name, age): (&&str, &u64)| Switch {
                name: (*name).to_owned(),
                ageing: Duration::from_secs(*age),
            };
            Plan {
                switches: names.iter().zip(&ages).map(switch).collect(),
                routers: kept.iter().map(|n| all[*n].clone()).collect(),
                ..Plan::default()
            }
        })
    })
}

/// The router that a step concerns.
fn about(step: &Step) -> Option<&str> {
    match step {
        Step::AddSwitch(_) | Step::SetAgeing(_) | Step::RemoveSwitch(_) => None,
        Step::RemoveRouter(name)
        | Step::AddRouter(name)
        | Step::ReplaceRouter(name, _)
        | Step::ChangeRoutes(name, _)
        | Step::Adjust(name, _)
        | Step::Power(name) => Some(name),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_steps_lead_from_one_plan_to_the_other(from in plan(), to in plan()) {
        let mut model = Model::of(&from);
        for step in difference(&from, &to) {
            model.carry_out(&step, &to);
        }
        prop_assert_eq!(model, Model::of(&to));
    }

    #[test]
    fn what_is_the_same_is_not_touched(from in plan(), to in plan()) {
        let (before, after) = (Model::of(&from), Model::of(&to));
        let same = |name: &String| before.routers.get(name) == after.routers.get(name);
        let untouched: BTreeSet<&str> =
            before.routers.keys().filter(|name| same(name)).map(String::as_str).collect();
        for step in difference(&from, &to) {
            prop_assert!(about(&step).is_none_or(|name| !untouched.contains(name)), "{:?}", step);
        }
        prop_assert_eq!(difference(&from, &from), []);
    }

    #[test]
    fn routes_and_settings_need_no_replacement(from in plan(), to in plan()) {
        for step in difference(&from, &to) {
            let Step::ReplaceRouter(name, _) = step else { continue };
            let (mut old, new) = (Model::of(&from).routers[&name].clone(), Model::of(&to).routers[&name].clone());
            old.routes = new.routes.clone();
            (old.router.restart, old.router.limit) = (new.router.restart, new.router.limit);
            (old.router.spin, old.router.state) = (new.router.spin, new.router.state);
            old.router.nics.iter_mut().zip(&new.router.nics).for_each(|(old, new)| old.link = new.link);
            prop_assert_ne!(old, new);
        }
    }

    #[test]
    fn what_is_undone_was_never_done(from in plan(), to in plan()) {
        for step in difference(&from, &to) {
            let Step::ChangeRoutes(name, changes) = step else { continue };
            let before = Model::of(&from).routers[&name].routes.clone();
            let mut routes = before.clone();
            changes.iter().for_each(|change| change_route(&mut routes, change));
            changes.iter().rev().for_each(|change| change_route(&mut routes, &change.reversed()));
            prop_assert_eq!(routes, before);
        }
    }
}

#[test]
fn an_open_engine_stays_what_it_is() {
    let text = "[[router]]\nname='a'\n[[router.nic]]\nname='x'\nattach='null'\n";
    let open = config::parse(text, "f.toml").expect("a good file");
    let mut running = open.clone();
    running.routers[0].engine = Some(Engine::Process);
    assert_eq!(difference(&running, &open), []);
    let mut kvm = open;
    kvm.routers[0].engine = Some(Engine::Kvm);
    let why = vec!["engine process -> kvm".to_owned()];
    assert_eq!(difference(&running, &kvm), [Step::ReplaceRouter("a".to_owned(), why)]);
}

#[test]
fn reasons_name_what_differs() {
    let text = "[switch.lan]\n[[router]]\nname='a'\nspin='50us'\n\
        [[router.nic]]\nname='x'\nattach='switch:lan'\n[[router.nic]]\nname='y'\nattach='null'\n";
    let before = config::parse(text, "f.toml").expect("a good file");
    let why = |old: &str, new: &str| {
        let after = config::parse(&text.replace(old, new), "f.toml").expect("a good file");
        match difference(&before, &after).as_slice() {
            [Step::ReplaceRouter(_, why)] => why.join(", "),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        why("spin='50us'", "memory='64M'\nvcpus=2"),
        "vcpus 1 -> 2, memory 32M -> 64M, NIC x queues 1 -> 2, NIC y queues 1 -> 2"
    );
    assert_eq!(
        why("spin='50us'", "vhost='split'\nrole='echo'"),
        "role router -> echo, vhost shared -> split"
    );
    assert_eq!(why("name='y'\n", "name='y'\nmtu=1400\n"), "NIC y mtu 1500 -> 1400");
    assert_eq!(why("attach='null'", "attach='pcap:y.pcap'"), "NIC y attach null -> pcap:y.pcap");
    assert_eq!(why("name='y'", "name='z'"), "NIC y removed, NIC z added");
}
