use std::collections::BTreeSet;

use config::{Shares, parse};
use host::{Finding, State};
use sched::promises::Takes;
use sched::{ExclusiveCpus, Group, Interrupt, Irq};
use support::schema::Table;

use super::*;

const FILE: &str = r#"
[switch.lan]
[[router]]
name = "edge"
engine = "kvm"
vcpus = 2
pin = { vcpu = "0" }
sched.vcpu = { policy = "fifo", priority = 3 }
sched.vhost = { policy = "deadline", runtime = "1ms", period = "10ms" }
[[router.nic]]
name = "wan"
attach = "switch:lan"
address = "192.0.2.1/24"
[[router.route]]
to = "0.0.0.0/0"
via = "192.0.2.254"
[[router.neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:09"
"#;

/// A plan with a thread of each policy, and all objects that can be made for threads.
fn looked() -> CheckedPlan {
    let plan = parse(FILE, "x.toml").expect("a good file");
    let cpus: CpuSet = "0-1".parse().expect("CPUs");
    let slot = |name: &str, policy, group: Option<&str>| Slot {
        router: "edge".to_owned(),
        class: sched::Class::Vcpu(0),
        name: name.to_owned(),
        schedule: sched::Schedule {
            cpus: group.map(|_| cpus.clone()),
            placement: Placement::Pin,
            policy,
            island: None,
            group: group.map(str::to_owned),
        },
        neighbours: CpuNeighbours::Others,
    };
    let edge = &plan.routers[0].sched;
    let shares = Shares { weight: 250, quota: Some(1500) };
    let outline = Outline {
        slots: vec![
            slot("edge/vcpu0", edge.vcpu.expect("a policy"), None),
            slot("edge/vhost", edge.vhost.expect("a policy"), None),
            slot("edge/x", Policy::Shares(shares), Some("edge")),
        ],
        islands: vec![ExclusiveCpus { cpus: cpus.clone(), reserved: 0.1, most: 1.9 }],
        groups: vec![Group { name: "edge".to_owned(), shares }],
        interrupts: vec![Interrupt {
            interface: "eth0".to_owned(),
            irq: Irq { number: 31, name: "eth0-rx-0".to_owned() },
            cpus,
        }],
        notes: vec!["mind this".to_owned()],
    };
    let mut planned = Planned::default();
    planned.outline = outline;
    CheckedPlan {
        plan,
        threads: Ok(planned),
        by_process: Some("no KVM here".to_owned()),
        findings: vec![Finding::new(State::Note, "CPUs", "2 usable", "few")],
        faults: Errors::default(),
    }
}

fn objects(text: &str) -> Vec<Value> {
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().expect("a kind")
}

#[test]
fn each_line_is_what_its_kind_says() {
    let objects = objects(&lines(&looked()));
    let kinds: BTreeSet<&str> = objects.iter().map(kind).collect();
    let wanted = ["cpuset", "finding", "group", "interrupt", "note", "plan", "router", "switch", "thread"];
    assert_eq!(kinds, wanted.into());
    objects.iter().for_each(|object| Table::of(&format!("check {}", kind(object))).check(object));
    assert_eq!(kind(&objects[0]), "plan");
    let one = |wanted: &str| objects.iter().find(|object| kind(object) == wanted).expect("one");
    assert_eq!(one("switch")["ports"], json!(["edge.wan"]));
    assert_eq!(one("router")["settings"]["vcpus"], 2);
    assert_eq!(one("router")["nics"][0]["settings"]["mtu"], 1500);
    assert_eq!(one("group")["weight"], 2.5);
    assert_eq!(one("interrupt")["cpus"], json!([0, 1]));
    let threads: Vec<&Value> = objects.iter().filter(|object| kind(object) == "thread").collect();
    assert_eq!((&threads[0]["priority"], &threads[1]["period_ns"]), (&json!(3), &json!(10_000_000)));
    assert_eq!(threads[2]["group"], "edge");
}

#[test]
fn threads_that_nothing_is_planned_for_are_where_the_file_has_them() {
    let looked = CheckedPlan { threads: Ok(Planned::default()), ..looked() };
    let objects = objects(&lines(&looked));
    let threads: Vec<&Value> = objects.iter().filter(|object| kind(object) == "thread").collect();
    threads.iter().for_each(|thread| Table::of("check thread").check(thread));
    let cpus: Vec<_> = threads.iter().map(|thread| (thread["name"].as_str(), thread.get("cpus"))).collect();
    let zero = json!([0]);
    let wanted =
        [(Some("edge/vcpu0"), Some(&zero)), (Some("edge/vcpu1"), Some(&zero)), (Some("edge/vhost"), None)];
    assert_eq!(cpus, wanted);
}

#[test]
fn each_error_has_its_place_in_the_file() {
    let errors =
        parse("name = \"UP\"\n[[router]]\nname = \"edge\"\nvcpus = 99\n", "x.toml").expect_err("faults");
    let objects = objects(&super::errors(&errors));
    assert_eq!(objects.len(), errors.errors.len());
    objects.iter().for_each(|object| Table::of("check error").check(object));
    let vcpus = objects.iter().find(|object| object["key"] == "router.vcpus").expect("the fault");
    assert_eq!((&vcpus["file"], &vcpus["line"]), (&json!("x.toml"), &json!(4)));
    let missing = config::load(std::path::Path::new("/nonexistent/x.toml")).expect_err("no file");
    objects_of_a_missing_file(&super::errors(&missing));
}

fn objects_of_a_missing_file(text: &str) {
    let objects = objects(text);
    Table::of("check error").check(&objects[0]);
    assert!(objects[0].get("line").is_none() && objects.len() == 1, "{text}");
}

#[test]
fn a_promise_says_what_it_takes_in_numbers() {
    let takes = Takes { cpu: 1, share: 0.25, cycles: 20_000.0, basis: "an estimate".to_owned() };
    let object = guarantee(Promised { router: "edge", pps: 20_000.0, takes: vec![takes] });
    Table::of("check guarantee").check(&object);
    assert_eq!(object["takes"][0]["cpu"], 1);
}
