//! Edits, files, deaths and restarts in any order end in the plan that a file with the accepted edits has.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::tests::questions::isolated_in;

/// Reaction of a process to a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Follows,
    Refuses,
    Dies,
}

/// Event of a test run.
#[derive(Clone, Debug)]
enum Happens {
    /// A client requests this, and the data plane and the router's process react as given.
    Asked(Request, [Fate; 2]),
    /// The data plane (0) or the router's process (1) dies.
    Death(usize),
}

/// Kernel router and group beside the routers of [`ISOLATED`].
const BESIDE: &str = "[[router]]\nname = \"wall\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"198.51.100.1/24\"\n\
    [[group]]\nname = \"duo\"\nkind = \"parallel\"\nmembers = 2\nengine = \"process\"\n\
    [[group.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"203.0.113.1/24\"\n";

const SHARES: &str = "{ policy = \"shares\", weight = 2 }";

const SETTINGS: [(&str, &str, &str); 25] = [
    ("edge", "limit", "5kpps"),
    ("core", "limit", "7kpps"),
    ("core", "limit", "none"),
    ("edge", "spin", "9us"),
    ("core", "spin", "always"),
    ("core", "restart", "never"),
    ("edge", "state", "stopped"),
    ("core", "state", "stopped"),
    ("edge", "lan.link", "down"),
    ("edge", "lan.link", "up"),
    ("core", "lan.link", "down"),
    ("core", "limit", "fast"),
    ("core", "guarantee", "1kpps"),
    ("core", "guarantee", "none"),
    ("core", "pin.vcpu", "0"),
    ("core", "pin.vcpu", "any"),
    ("core", "pin.vhost", "1"),
    ("core", "sched", SHARES),
    ("core", "sched.vhost.weight", "5"),
    ("wall", "forwarding", "false"),
    ("wall", "rp_filter", "strict"),
    ("wall", "state", "stopped"),
    ("duo", "spin", "7us"),
    ("duo", "members", "1"),
    ("duo", "members", "3"),
];

fn asked() -> impl Strategy<Value = Request> {
    let of_router = |name: &'static str| {
        let name = || name.to_owned();
        let (stop, start) = (Request::Stop { name: name() }, Request::Start { router: name() });
        prop::sample::select(vec![stop, start, Request::Restart { router: name() }])
    };
    let text = format!("{ISOLATED}{BESIDE}");
    let files = [text.clone(), text.replace("192.0.2.1/24", "192.0.2.9/24"), "nonsense".to_owned()];
    let file = prop::sample::select(files.to_vec());
    prop_oneof![
        6 => prop::sample::select(SETTINGS.to_vec()).prop_map(|(router, key, value)| set(router, key, value)),
        1 => Just(set("core", "state", "running")),
        1 => of_router("edge"),
        1 => of_router("core"),
        1 => of_router("wall"),
        1 => file.prop_map(|text| Request::Apply { file: "f.toml".to_owned(), text, dry_run: false }),
    ]
}

fn happens() -> impl Strategy<Value = Happens> {
    let fate = || prop_oneof![5 => Just(Fate::Follows), 1 => Just(Fate::Refuses), 1 => Just(Fate::Dies)];
    prop_oneof![
        6 => (asked(), [fate(), fate()]).prop_map(|(request, fates)| Happens::Asked(request, fates)),
        1 => (0..2_usize).prop_map(Happens::Death),
    ]
}

/// A run, with the plans that its data plane and its router's process follow.
struct World {
    stage: Stage,
    planes: Vec<(Scripted, Plan)>,
}

impl World {
    /// Plays the living processes until no messages arrive any more.
    fn plays(&mut self, fates: [Fate; 2]) {
        let (mut left, mut quiet) = (fates, 0);
        while quiet < 3 {
            quiet += 1;
            self.stage.turn().expect("it goes on");
            for (plane, runs) in &mut self.planes {
                let fate = &mut left[usize::from(runs.routers.len() == 1)];
                while let Some(told) = (!plane.is_dead()).then(|| plane.told()).flatten() {
                    quiet = 0;
                    match told {
                        ToPlane::Start(orders) => {
                            *runs = orders.plan;
                            plane.say(&ToSupervisor::Started { at_ns: 0 });
                        }
                        ToPlane::Apply { id, orders, .. } => match std::mem::replace(fate, Fate::Follows) {
                            Fate::Follows => {
                                *runs = orders.plan;
                                plane.answer(id, Ok(Answer::Applied { changes: Vec::new(), dry_run: false }));
                            }
                            Fate::Refuses => plane.answer(id, Err(api::Error::new("not now"))),
                            Fate::Dies => plane.die(),
                        },
                        ToPlane::Ask { id, request: Request::Counters { .. } } => {
                            plane.answer(id, Ok(Answer::Counters(api::Counters::default())));
                        }
                        ToPlane::Ask { id, .. } => {
                            plane.answer(id, Ok(Answer::Done { message: "done".to_owned() }));
                        }
                        ToPlane::Ping => plane.say(&ToSupervisor::Pong),
                        _ => {}
                    }
                }
            }
            self.stage.until(|stage| {
                let supervisor = stage.supervisor();
                !supervisor.changes.is_prepared() && supervisor.kernels.watched().is_none()
            });
            self.meets_new_ones();
        }
    }

    /// Replaces dead processes by those started for them.
    fn meets_new_ones(&mut self) {
        self.planes.retain(|(plane, _)| !plane.is_dead());
        for plane in self.stage.planes().into_iter().filter(|plane| !plane.is_dead()) {
            if self.planes.iter().all(|(known, _)| known.pid() != plane.pid()) {
                let orders = std::iter::from_fn(|| plane.told()).find_map(|told| match told {
                    ToPlane::Start(orders) => Some(orders.plan),
                    _ => None,
                });
                if let Some(plan) = orders {
                    plane.say(&ToSupervisor::Started { at_ns: 0 });
                    self.planes.push((plane, plan));
                }
            }
        }
    }

    fn dies(&mut self, which: usize) {
        if let Some((plane, _)) =
            self.planes.iter().find(|(_, runs)| usize::from(runs.routers.len() == 1) == which)
        {
            plane.die();
        }
    }

    /// Restarts all dead processes.
    fn recovers(&mut self) {
        for _ in 0..4 {
            self.stage.after(10 * SECOND).expect("it goes on");
            self.plays([Fate::Follows; 2]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any sequence of edits, refused edits, files, crashes and restarts ends in the plan of a file that has
    /// the accepted edits as lines, and all processes and the kernel run that plan.
    #[test]
    fn everybody_runs_what_the_edits_make_of_the_file(all in prop::collection::vec(happens(), 1..8)) {
        let mut file = WrittenFile { text: format!("{ISOLATED}{BESIDE}"), lines: BTreeMap::new() };
        let (mut stage, main, own) = isolated_in(&file.text);
        stage.supervisor().changes.file_opener.open = Arc::new(|_, _| Ok(Default::default()));
        let plan = stage.plan();
        let planes = vec![(main, plan.of_data_plane()), (own, plan.of_isolated("edge").expect("there is one"))];
        let mut world = World { stage, planes };
        for happened in all {
            match happened {
                Happens::Death(which) => world.dies(which),
                Happens::Asked(request, fates) => {
                    let mut client = world.stage.client(&request);
                    world.plays(fates);
                    if client.next_answer().is_ok() {
                        file.follows(&request);
                    }
                }
            }
            world.recovers();
            let (runs, expected) = (world.stage.plan().clone(), file.plan());
            prop_assert_eq!(&runs.routers, &expected.routers);
            prop_assert_eq!(&runs.groups, &expected.groups);
            let told: BTreeMap<usize, &Plan> =
                world.planes.iter().map(|(_, plan)| (plan.routers.len(), plan)).collect();
            prop_assert_eq!(world.planes.len(), 2);
            let (main, own) = (runs.of_data_plane(), runs.of_isolated("edge").expect("there is one"));
            prop_assert_eq!(told.get(&main.routers.len()).copied(), Some(&main));
            prop_assert_eq!(told.get(&1).copied(), Some(&own));
            let in_kernel = runs.in_kernel().filter(|router| !router.is_stopped()).map(|router| router.name.clone());
            prop_assert_eq!(world.stage.kernel.running(), in_kernel.collect::<Vec<_>>());
        }
    }
}

/// File, with lines for what was set since.
struct WrittenFile {
    text: String,
    /// Values in the notation of a file, by router and key.
    lines: BTreeMap<(String, String), String>,
}

impl WrittenFile {
    fn plan(&self) -> Plan {
        let mut text = self.text.clone();
        for ((router, key), value) in &self.lines {
            insert(&mut text, router, key, value);
        }
        config::parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}\n{text}"))
    }

    /// Writes down a request that was accepted.
    fn follows(&mut self, request: &Request) {
        match request {
            Request::Set { router, key, value } if key == "state" && value == "running" => self.runs(router),
            Request::Set { router, key, value } => self.has(router, key, value),
            Request::Stop { name } => self.has(name, "state", "stopped"),
            Request::Start { router } | Request::Restart { router } => self.runs(router),
            Request::Apply { text, .. } => {
                self.text.clone_from(text);
                self.lines.retain(|(_, key), _| key == "state" || key.ends_with(".link"));
            }
            _ => {}
        }
    }

    /// A router that is not stopped is started where it is; the file stays.
    fn runs(&mut self, router: &str) {
        if let Some(state) = self.lines.get_mut(&(router.to_owned(), "state".to_owned())) {
            "\"running\"".clone_into(state);
        }
    }

    fn has(&mut self, router: &str, key: &str, value: &str) {
        let (key, value) = match key {
            // The classes of threads have policies of their own then.
            "sched.vhost.weight" => {
                let other = format!("{{ policy = \"shares\", weight = {value} }}");
                ("sched", format!("{{ vcpu = {SHARES}, vhost = {other} }}"))
            }
            "sched" | "members" | "forwarding" => (key, value.to_owned()),
            _ => (key, format!("{value:?}")),
        };
        let place = (router.to_owned(), key.to_owned());
        match value.as_str() {
            "\"none\"" | "\"any\"" => drop(self.lines.remove(&place)),
            _ => drop(self.lines.insert(place, value)),
        }
    }
}

/// Inserts a line below the name of a router, or of its NIC, or in the place of the line that is there.
fn insert(text: &mut String, router: &str, key: &str, value: &str) {
    let after = |from: usize, name: &str| {
        let line = format!("name = \"{name}\"\n");
        from + text.split_at(from).1.find(&line).expect("the name is there") + line.len()
    };
    let own = after(0, router);
    let (at, key) = match key.split_once('.') {
        Some((nic, "link")) => (after(own, nic), "link"),
        _ => (own, key),
    };
    match key {
        "members" => *text = text.replacen("members = 2\n", &format!("members = {value}\n"), 1),
        _ => text.insert_str(at, &format!("{key} = {value}\n")),
    }
}
