//! Settings of running routers: validated like a file, and defined in one table.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{Fault, Guarantee, Key, Plan, Rate, Setting, parse};

/// Keys of a router with their values, as a file writes them.
type Lines = BTreeMap<&'static str, String>;

fn file(lines: &Lines) -> String {
    let lines: Vec<String> = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    format!(
        "[[router]]\nname = \"edge\"\n{}[[router.nic]]\nname = \"wan\"\nattach = \"tap:t0\"\n\
         [[router]]\nname = \"core\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n",
        lines.concat()
    )
}

fn lines(pairs: &[(&'static str, &str)]) -> Lines {
    pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
}

#[track_caller]
fn plan(pairs: &[(&'static str, &str)]) -> Plan {
    parse(&file(&lines(pairs)), "f.toml").expect("a good file")
}

fn refused(plan: &Plan, key: &str, value: &str) -> String {
    plan.with("edge", key, value).expect_err(value).to_string()
}

/// A setting, with the equivalent line of a file; `None`: no line.
#[derive(Debug)]
struct Case {
    key: &'static str,
    value: &'static str,
    line: &'static str,
    file: Option<&'static str>,
}

/// Each key with valid and invalid values.
const CASES: &[Case] = &[
    case("guarantee", "40kpps", "guarantee.rate", Some("\"40kpps\"")),
    case("guarantee", "400kpps", "guarantee.rate", Some("\"400kpps\"")),
    case("guarantee", "much", "guarantee.rate", Some("\"much\"")),
    case("guarantee", "0pps", "guarantee.rate", Some("\"0pps\"")),
    case("guarantee.rate", "90kpps", "guarantee.rate", Some("\"90kpps\"")),
    case("guarantee.rate", "none", "guarantee.rate", Some("\"none\"")),
    case("limit", "50kpps", "limit", Some("\"50kpps\"")),
    case("limit", "1Mpps", "limit", Some("\"1Mpps\"")),
    case("limit", "fast", "limit", Some("\"fast\"")),
    case("limit", "none", "limit", None),
    case("pin.vcpu", "0-1", "pin.vcpu", Some("\"0-1\"")),
    case("pin.vcpu", "x", "pin.vcpu", Some("\"x\"")),
    case("pin.vcpu", "any", "pin.vcpu", None),
    case("pin.vhost", "1", "pin.vhost", Some("\"1\"")),
    case("pin.vhost", "3-1", "pin.vhost", Some("\"3-1\"")),
    case("pin.vhost", "any", "pin.vhost", None),
    case("affinity.vcpu", "0,1", "affinity.vcpu", Some("\"0,1\"")),
    case("affinity.vcpu", "free", "affinity.vcpu", Some("\"free\"")),
    case("affinity.vcpu", "all", "affinity.vcpu", Some("\"all\"")),
    case("affinity.vcpu", "auto", "affinity.vcpu", None),
    case("affinity.vhost", "free", "affinity.vhost", Some("\"free\"")),
    case("affinity.vhost", "", "affinity.vhost", Some("\"\"")),
    case("affinity.vhost", "auto", "affinity.vhost", None),
    case("sched", "{ policy = \"rr\", priority = 2 }", "sched", Some("{ policy = \"rr\", priority = 2 }")),
    case("sched", "{ policy = \"rr\" }", "sched", Some("{ policy = \"rr\" }")),
    case("sched", "{ policy = \"best\" }", "sched", Some("{ policy = \"best\" }")),
    case("spin", "70us", "spin", Some("\"70us\"")),
    case("spin", "always", "spin", Some("\"always\"")),
    case("spin", "2s", "spin", Some("\"2s\"")),
    case("spin", "soon", "spin", Some("\"soon\"")),
    case("restart", "never", "restart", Some("\"never\"")),
    case("restart", "maybe", "restart", Some("\"maybe\"")),
    case("state", "stopped", "state", Some("\"stopped\"")),
    case("state", "running", "state", Some("\"running\"")),
    case("state", "failed", "state", Some("\"failed\"")),
];

const fn case(
    key: &'static str,
    value: &'static str,
    line: &'static str,
    file: Option<&'static str>,
) -> Case {
    Case { key, value, line, file }
}

/// Possible contents of a router's table.
fn table() -> impl Strategy<Value = Lines> {
    let one = |pairs: &'static [&'static [(&'static str, &'static str)]]| prop::sample::select(pairs);
    let rates = one(&[
        &[],
        &[("guarantee.rate", "\"80kpps\"")],
        &[("guarantee.rate", "\"80kpps\""), ("guarantee.frame", "1514")],
    ]);
    let limits = one(&[&[], &[("limit", "\"80kpps\"")], &[("limit", "\"800kpps\"")]]);
    let places = one(&[
        &[],
        &[("pin.vcpu", "\"1\"")],
        &[("pin.vhost", "\"0\""), ("affinity.vcpu", "\"0\"")],
        &[("affinity.vhost", "\"free\"")],
    ]);
    let others = one(&[&[], &[("vhost", "\"kernel\"")], &[("sched", "{ policy = \"other\" }")]]);
    (rates, limits, places, others).prop_map(|(rates, limits, places, others)| {
        [rates, limits, places, others].into_iter().flat_map(lines).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_a_file_may_not_say_nobody_can_set(table in table(), case in prop::sample::select(CASES.iter().collect::<Vec<_>>())) {
        let before = parse(&file(&table), "f.toml");
        prop_assume!(before.is_ok());
        let before = before.expect("it was asked");
        let mut table = table;
        match case.file {
            Some(value) => drop(table.insert(case.line, value.to_owned())),
            None => drop(table.remove(case.line)),
        }
        match (parse(&file(&table), "f.toml"), before.with("edge", case.key, case.value)) {
            (Ok(said), Ok(set)) => prop_assert_eq!(said.routers, set.routers),
            (Err(said), Err(set)) => {
                let set = set.to_string();
                let place = format!("router edge: {}: ", case.key);
                prop_assert!(set.starts_with(&place), "{}", set);
                for error in said.errors {
                    prop_assert!(set.contains(&error.what), "{} is not in {}", error.what, set);
                }
            }
            (said, set) => prop_assert!(false, "{}={}: {:?}, {:?}", case.key, case.value, said.err(), set.err()),
        }
    }
}

#[test]
fn another_rate_is_promised_for_frames_of_the_size_that_was_promised() {
    let before = plan(&[("guarantee.rate", "\"20kpps\""), ("guarantee.frame", "1514")]);
    let promised = |plan: &Plan| plan.routers[0].guarantee;
    let rate = |pps| Rate::from_pps(pps).expect("a rate");
    let more = before.with("edge", "guarantee", "40kpps").expect("a rate");
    assert_eq!(promised(&more), Some(Guarantee { rate: rate(40_000), frame: 1514 }));
    let smaller = more.with("edge", "guarantee.frame", "600").expect("a size");
    assert_eq!(promised(&smaller), Some(Guarantee { rate: rate(40_000), frame: 600 }));
    let whole = smaller.with("edge", "guarantee", "{ rate = \"9kpps\", frame = 80 }").expect("a table");
    assert_eq!(promised(&whole), Some(Guarantee { rate: rate(9_000), frame: 80 }));
    let none = whole.with("edge", "guarantee", "none").expect("nothing");
    assert_eq!(promised(&none), None);
    let anew = none.with("edge", "guarantee.rate", "1kpps").expect("a rate");
    assert_eq!(promised(&anew), Some(Guarantee::of(rate(1_000))));
    for (plan, value, why) in [
        (&none, "600", "nothing is promised yet; set guarantee=RATE first"),
        (&more, "59", "59 is out of range; write 60 to 9230"),
        (&more, "big", "a string where a whole number from 60 to 9230 is expected"),
        (&more, "60 }\nlimit = 1", "a string where a whole number from 60 to 9230 is expected"),
    ] {
        assert_eq!(refused(plan, "guarantee.frame", value), format!("router edge: guarantee.frame: {why}"));
    }
}

#[test]
fn what_is_refused_names_the_key_and_no_line_of_a_file() {
    let promised = plan(&[("guarantee.rate", "\"20kpps\""), ("limit", "\"30kpps\""), ("pin.vcpu", "\"1\"")]);
    let kernel = plan(&[("vhost", "\"kernel\"")]);
    for (plan, key, value, line) in [
        (
            &promised,
            "limit",
            "10kpps",
            "limit: 10kpps is less than guarantee = \"20kpps\"; write at least that much",
        ),
        (
            &promised,
            "guarantee",
            "40kpps",
            "guarantee: limit: 30kpps is less than guarantee = \"40kpps\"; write at least that much",
        ),
        (
            &promised,
            "affinity.vcpu",
            "free",
            "affinity.vcpu: pin.vcpu = \"1\" says it already; remove one of the two",
        ),
        (
            &kernel,
            "limit",
            "10kpps",
            "limit: with vhost = \"kernel\" the kernel lets frames in, and nobody counts them; write another vhost",
        ),
        (
            &promised,
            "sched.priority",
            "7",
            "sched.priority: nothing is set yet; write the whole, e.g. 'sched={ policy = \"shares\", weight = 2 }'",
        ),
        (
            &promised,
            "sched",
            "{ policy = \"fifo\", priority = 0 }",
            "sched: sched.priority: 0 is out of range; write 1 to 99",
        ),
        (&promised, "lan.link", "up", "lan.link: there is no NIC \"lan\"; NICs: wan"),
        (&promised, "wan.link", "out", "wan.link: \"out\" is no state of a link; states: up, down"),
        (
            &promised,
            "pin.vcpu",
            "x",
            "pin.vcpu: \"x\" is not a list of CPUs; write e.g. \"1\" or \"0-1,3\", or any",
        ),
        (
            &promised,
            "limit",
            "fast",
            "limit: \"fast\" is no rate; write e.g. \"400kpps\" or \"1.2Mpps\", or none",
        ),
        (&promised, "restart", "maybe", "restart: \"maybe\" is no restart policy; policies: always, never"),
        (
            &promised,
            "spin",
            "-1",
            "spin: \"-1\" is not a time; write e.g. \"50us\", or \"always\" to never sleep",
        ),
        (&promised, "state", "on", "state: \"on\" is no state; states: running, stopped"),
    ] {
        assert_eq!(refused(plan, key, value), format!("router edge: {line}"));
    }
    // Another router's promise may be in the way.
    let errors = promised.errors([Fault::new(1, "guarantee", "no rate fits"), Fault::new(0, "sched", "why")]);
    assert_eq!(
        errors.of_setting("edge", "sched.runtime").to_string(),
        "router edge: sched.runtime: why; router core: guarantee: no rate fits"
    );
    let unknown = refused(&promised, "memory", "64M");
    assert!(
        unknown.starts_with("\"memory\" cannot be set while a router runs; keys: restart, "),
        "{unknown}"
    );
    let nobody = promised.with("egde", "limit", "none").expect_err("nobody").to_string();
    assert_eq!(nobody, "there is no router \"egde\"; routers: edge, core");
}

/// A group of this kind, by the name of the router of other files.
fn group(kind: &str) -> Plan {
    let text = format!(
        "[[group]]\nname = \"edge\"\n{kind}\n[[group.nic]]\nname = \"wan\"\nattach = \"tap:edge-wan\"\naddress = \"192.0.2.1/24\"\n\
         [[group.nic]]\nname = \"lan\"\nattach = \"tap:edge-lan\"\naddress = \"198.51.100.1/24\"\n"
    );
    parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn numbers_of_routers_are_set_for_groups_alone_and_by_the_key_of_their_kind() {
    let parallel = group("kind = \"parallel\"\nmembers = 2");
    assert_eq!(parallel.with("edge", "members", "3"), Ok(group("kind = \"parallel\"\nmembers = 3")));
    let stages = group("kind = \"multistage\"\nbackends = 2");
    assert_eq!(stages.with("edge", "backends", "3"), Ok(group("kind = \"multistage\"\nbackends = 3")));
    assert_eq!(refused(&parallel, "backends", "3"), "group edge: backends: this kind of group has members");
    assert_eq!(refused(&stages, "members", "3"), "group edge: members: this kind of group has backends");
    assert_eq!(refused(&parallel, "awake", "many"), "group edge: awake: \"many\" is no number; write e.g. 3");
    for key in ["members", "backends", "spare", "balancers", "awake"] {
        assert_eq!(refused(&plan(&[]), key, "1"), format!("router edge: {key}: only a group has it"));
    }
}

#[test]
fn each_setting_of_the_table_can_be_set_as_it_is_explained() {
    let fifo = "{ policy = \"fifo\", priority = 20 }";
    let plain = plan(&[("guarantee.rate", "\"20kpps\"")]);
    let scheduled = plan(&[("sched", fifo)]);
    let kernel = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n[[router.nic]]\nname = \"wan\"\nattach = \"veth:v0\"\n";
    let kernel = parse(kernel, "f.toml").expect("a good file");
    let (parallel, stages) =
        (group("kind = \"parallel\"\nmembers = 2"), group("kind = \"multistage\"\nbackends = 2"));
    for setting in Setting::all() {
        let name = match setting.name.as_str() {
            "NIC.link" => "wan.link",
            "sched.KEY" => "sched.priority",
            "sched.CLASS" => "sched.vhost",
            "sched.CLASS.KEY" => "sched.vhost.priority",
            name => name,
        };
        assert_eq!(Setting::find(name), Some(setting.clone()));
        let values: Vec<&str> = match setting.key {
            Key::Sched if name.ends_with("priority") => vec!["30"],
            Key::Sched => vec![fifo],
            key if key == Key::GuaranteeFrame || key.is_of_group() => setting.value.split(" to ").collect(),
            _ => setting.value.split(", ").collect(),
        };
        for value in values {
            let of = match setting.key {
                Key::Sched => &scheduled,
                key if key.is_of_kernel() => &kernel,
                _ if ["backends", "balancers"].contains(&name) => &stages,
                key if key.is_of_group() => &parallel,
                _ => &plain,
            };
            let set = of.with("edge", name, value);
            assert!(set.is_ok(), "{name}={value}: {set:?}");
        }
    }
    let named = [
        "sched.colour",
        "sched.disk.priority",
        "link",
        "edge.wan.link",
        "pin",
        "pin.disk",
        "",
        "guarantee.size",
    ];
    assert!(named.iter().all(|name| Setting::find(name).is_none()));
}
