//! Scheduling of threads, their affinity, and rates.

use std::time::Duration;

use super::bad::{GOOD, errors};
use crate::{Affinity, Allowed, Fault, Guarantee, Plan, Policy, Rate, Reservation, Sched, Shares, parse};

/// The valid file with other lines in place of `engine = "kvm"`, line 6, in a router's table, and without
/// `pin`.
fn router(lines: &str) -> String {
    GOOD.replacen("engine = \"kvm\"", lines, 1).replacen("pin = { vcpu = \"1\", vhost = \"0\" }\n", "", 1)
}

#[track_caller]
fn plan(lines: &str) -> Plan {
    parse(&router(lines), "f.toml").expect("a good file")
}

#[track_caller]
fn sched(value: &str) -> Sched {
    plan(&format!("sched = {value}")).routers[0].sched.clone()
}

const DEADLINE: &str = "{ policy = \"deadline\", runtime = \"170ms\", period = \"200ms\" }";

fn ms(runtime: u64, deadline: u64, period: u64) -> Policy {
    let [runtime, deadline, period] = [runtime, deadline, period].map(Duration::from_millis);
    Policy::Deadline(Reservation { runtime, deadline, period, reclaim: false })
}

#[test]
fn policies() {
    assert!(plan("").routers[0].sched.is_empty());
    let all = |value: &str| sched(value).all.expect("a policy for all");
    assert_eq!(all(DEADLINE), ms(170, 200, 200));
    assert_eq!(
        all("{ policy = \"deadline\", runtime = \"1ms\", deadline = \"5ms\", period = \"10ms\" }"),
        ms(1, 5, 10)
    );
    assert_eq!(all("{ policy = \"fifo\", priority = 98 }"), Policy::Fifo { priority: 98 });
    assert_eq!(all("{ policy = \"rr\", priority = 1 }"), Policy::Rr { priority: 1 });
    assert_eq!(all("{ policy = \"other\" }"), Policy::Other);
    assert_eq!(all("{ policy = \"shares\" }"), Policy::Shares(Shares::ORDINARY));
    assert_eq!(
        all("{ policy = \"shares\", weight = 2, quota = 0.5 }"),
        Policy::Shares(Shares { weight: 200, quota: Some(500) })
    );
    assert_eq!(
        all("{ policy = \"shares\", weight = 0.05, quota = 1.25 }"),
        Policy::Shares(Shares { weight: 5, quota: Some(1250) })
    );
}

#[test]
fn policies_of_classes() {
    let sched = sched(&format!("{{ vhost = {DEADLINE} }}"));
    assert_eq!((sched.of_vcpu(), sched.of_vhost()), (Policy::Other, ms(170, 200, 200)));
    let text =
        "{ vcpu = { policy = \"fifo\", priority = 98 }, vhost = { policy = \"fifo\", priority = 99 } }";
    let both = super::sched::sched(text);
    assert_eq!(both.of_vcpu(), Policy::Fifo { priority: 98 });
    assert_eq!(both.of_vhost(), Policy::Fifo { priority: 99 });
}

#[test]
fn what_is_written_is_read_again() {
    for text in [
        DEADLINE,
        "{ policy = \"deadline\", runtime = \"90us\", deadline = \"1ms\", period = \"1s\", reclaim = true }",
        "{ policy = \"shares\", weight = 2, quota = 0.5 }",
        "{ policy = \"shares\", weight = 0.05 }",
        "{ policy = \"other\" }",
        "{ vcpu = { policy = \"fifo\", priority = 98 }, vhost = { policy = \"rr\", priority = 1 } }",
    ] {
        let sched: Sched = text.parse().expect("a policy");
        assert_eq!(sched.to_string(), text);
        assert_eq!(sched, self::sched(text));
    }
}

/// (value of `sched`, key, error)
const FAULTS: &[(&str, &str, &str)] = &[
    (
        "\"fifo\"",
        "sched",
        "a string where a table such as { policy = \"deadline\", runtime = \"170ms\", period = \"200ms\" } is expected",
    ),
    ("{ }", "sched.policy", "missing; write e.g. policy = \"deadline\""),
    (
        "{ policy = \"idle\" }",
        "sched.policy",
        "\"idle\" is no policy; policies: other, fifo, rr, deadline, shares",
    ),
    ("{ policy = \"fifo\" }", "sched.priority", "missing; write e.g. priority = 50"),
    ("{ policy = \"fifo\", priority = 100 }", "sched.priority", "100 is out of range; write 1 to 99"),
    (
        "{ policy = \"rr\", priority = 5, weight = 2 }",
        "sched.weight",
        "only policy = \"shares\" has it; remove it",
    ),
    (
        "{ policy = \"shares\", runtime = \"1ms\" }",
        "sched.runtime",
        "only policy = \"deadline\" has it; remove it",
    ),
    (
        "{ policy = \"deadline\", period = \"1ms\" }",
        "sched.runtime",
        "missing; write e.g. runtime = \"170ms\"",
    ),
    (
        "{ policy = \"deadline\", runtime = \"2ms\", period = \"1ms\" }",
        "sched.runtime",
        "2ms is more than period = \"1ms\"; runtime <= deadline <= period",
    ),
    (
        "{ policy = \"deadline\", runtime = \"2ms\", deadline = \"4ms\", period = \"3ms\" }",
        "sched.deadline",
        "4ms is more than period = \"3ms\"; runtime <= deadline <= period",
    ),
    (
        "{ policy = \"deadline\", runtime = \"9us\", period = \"1ms\" }",
        "sched.runtime",
        "\"9us\" is out of range; write \"10us\" to \"10s\"",
    ),
    (
        "{ policy = \"deadline\", runtime = \"9\", period = \"1ms\" }",
        "sched.runtime",
        "\"9\" is not a time; write e.g. \"90us\", \"170ms\" or \"1s\"",
    ),
    ("{ policy = \"shares\", weight = 0 }", "sched.weight", "0 is out of range; write 0.05 to 100"),
    ("{ policy = \"shares\", weight = nan }", "sched.weight", "nan is out of range; write 0.05 to 100"),
    ("{ policy = \"shares\", quota = 65.0 }", "sched.quota", "65.0 is out of range; write 0.01 to 64"),
    (
        "{ policy = \"shares\", quota = \"1\" }",
        "sched.quota",
        "a string where a number from 0.01 to 64 is expected",
    ),
    ("{ policy = \"shares\", wight = 1 }", "sched.wight", "unknown key; did you mean \"weight\"?"),
    (
        "{ vcpu = { policy = \"fifo\", priority = 0 } }",
        "sched.vcpu.priority",
        "0 is out of range; write 1 to 99",
    ),
    ("{ vcpu = { policy = \"other\" }, policy = \"rr\" }", "sched.policy", "unknown key; keys: vcpu, vhost"),
];

#[test]
fn policies_that_are_none() {
    for (value, key, what) in FAULTS {
        assert_eq!(errors(&router(&format!("sched = {value}"))), format!("f.toml:6: router.{key}: {what}"));
        let told = value.parse::<Sched>().expect_err("no policy").to_string();
        assert_eq!(told, format!("{key}: {what}"));
    }
}

#[test]
fn one_key_changed() {
    let held: Sched = DEADLINE.parse().expect("a policy");
    let with = |key: &str, value: &str| held.with(key, value).map(|sched| sched.to_string());
    let shorter = "{ policy = \"deadline\", runtime = \"90ms\", period = \"200ms\" }";
    assert_eq!(with("runtime", "90ms").as_deref(), Ok(shorter));
    assert_eq!(
        with("reclaim", "true").as_deref(),
        Ok("{ policy = \"deadline\", runtime = \"170ms\", period = \"200ms\", reclaim = true }")
    );
    assert_eq!(
        with("vhost.runtime", "90ms"),
        Ok(format!("{{ vcpu = {DEADLINE}, vhost = {shorter} }}")),
        "the other class keeps what it had"
    );
    let fifo = "{ policy = \"fifo\", priority = 3 }";
    assert_eq!(with("", fifo).as_deref(), Ok(fifo));
    assert_eq!(with("vcpu", fifo), Ok(format!("{{ vcpu = {fifo}, vhost = {DEADLINE} }}")));
    assert_eq!(with("policy", "other").as_deref(), Ok("{ policy = \"other\" }"));
}

#[test]
fn changes_that_are_none() {
    let held: Sched = DEADLINE.parse().expect("a policy");
    let classes: Sched = format!("{{ vcpu = {DEADLINE} }}").parse().expect("a policy");
    let refused =
        |held: &Sched, key: &str, value: &str| held.with(key, value).expect_err("no change").to_string();
    assert_eq!(
        refused(&held, "runtime", "300ms"),
        "sched.runtime: 300ms is more than period = \"200ms\"; runtime <= deadline <= period"
    );
    assert_eq!(refused(&held, "weight", "2"), "sched.weight: only policy = \"shares\" has it; remove it");
    assert_eq!(refused(&held, "policy", "fifo"), "sched.priority: missing; write e.g. priority = 50");
    assert_eq!(refused(&held, "bus.runtime", "1ms"), "\"bus\" is no class of threads; classes: vcpu, vhost");
    assert_eq!(
        refused(&classes, "runtime", "1ms"),
        "each class has its own; write sched.vcpu.runtime or sched.vhost.runtime"
    );
    assert_eq!(
        refused(&Sched::default(), "weight", "2"),
        "nothing is set yet; write the whole, e.g. 'sched={ policy = \"shares\", weight = 2 }'"
    );
    for (key, value) in [
        ("priority", "1, policy = \"rr\""),
        ("runtime", "1ms\", period=\"2ms"),
        ("reclaim", "true } \n sched = {"),
        ("", "{}}\n[router]"),
        ("", ""),
        ("a = 1", "2"),
        ("vcpu", "{ vcpu = { policy = \"other\" } }"),
    ] {
        refused(&held, key, value);
    }
}

#[test]
fn affinities() {
    let affinity = |lines: &str| plan(lines).routers[0].affinity.clone();
    assert_eq!(affinity(""), Affinity::default());
    let set = "0-1".parse().map(Allowed::Within).expect("a set");
    assert_eq!(
        affinity("affinity = { vcpu = \"0-1\", vhost = \"free\" }"),
        Affinity { vcpu: set, vhost: Allowed::Free }
    );
    assert_eq!(
        errors(&router("affinity = { vcpu = \"all\" }")),
        "f.toml:6: router.affinity.vcpu: \"all\" is not a list of CPUs; write e.g. \"1\" or \"0-1,3\", or \"free\""
    );
    assert_eq!(
        errors(&router("pin = { vcpu = \"1\" }\naffinity = { vcpu = \"0-1\" }")),
        "f.toml:7: router.affinity.vcpu: pin.vcpu = \"1\" says it already; remove one of the two"
    );
}

#[test]
fn rates() {
    let rate = |text: &str| text.parse::<Rate>().map(Rate::pps);
    assert_eq!(rate("400kpps"), Ok(400_000));
    assert_eq!(rate("1.25Mpps"), Ok(1_250_000));
    assert_eq!(rate("0.5kpps"), Ok(500));
    assert_eq!(rate("1pps"), Ok(1));
    assert_eq!(rate("1000Mpps"), Ok(1_000_000_000));
    for text in
        ["400", "kpps", ".5kpps", "5.kpps", "1.2345kpps", "1.5pps", "-1pps", "1 kpps", "1.2.3Mpps", ""]
    {
        let told = rate(text).expect_err("no rate").to_string();
        assert!(told.ends_with("is no rate; write e.g. \"400kpps\" or \"1.2Mpps\""), "{told}");
    }
    for text in ["0pps", "1001Mpps", "0.0kpps", "99999999999999999999Mpps"] {
        let told = rate(text).expect_err("no rate").to_string();
        assert!(told.ends_with("is out of range; write \"1pps\" to \"1000Mpps\""), "{told}");
    }
    let shown = |pps| Rate::from_pps(pps).map(|rate| rate.to_string());
    assert_eq!(shown(1_250_000).as_deref(), Some("1250kpps"));
    assert_eq!(shown(3_000_000).as_deref(), Some("3Mpps"));
    assert_eq!(shown(1_001).as_deref(), Some("1001pps"));
    assert_eq!(shown(0), None);
}

#[test]
fn promises_and_limits() {
    let promised = |value: &str| plan(&format!("guarantee = {value}")).routers[0].guarantee;
    let rate = Rate::from_pps(400_000).expect("a rate");
    assert_eq!(promised("\"400kpps\""), Some(Guarantee { rate, frame: 60 }));
    assert_eq!(promised("{ rate = \"0.4Mpps\", frame = 1514 }"), Some(Guarantee { rate, frame: 1514 }));
    assert_eq!(plan("limit = \"400kpps\"").routers[0].limit, Some(rate));
    for (lines, line) in [
        ("guarantee = 4", "guarantee: an integer where a string such as \"400kpps\" is expected"),
        ("guarantee = { frame = 60 }", "guarantee.rate: missing; write e.g. rate = \"400kpps\""),
        (
            "guarantee = { rate = \"1kpps\", frame = 59 }",
            "guarantee.frame: 59 is out of range; write 60 to 9230",
        ),
        ("limit = \"fast\"", "limit: \"fast\" is no rate; write e.g. \"400kpps\" or \"1.2Mpps\""),
        (
            "guarantee = \"2kpps\"\nlimit = \"1kpps\"",
            "limit: 1kpps is less than guarantee = \"2kpps\"; write at least that much",
        ),
    ] {
        let number = 5 + lines.lines().count();
        assert_eq!(errors(&router(lines)), format!("f.toml:{number}: router.{line}"));
    }
}

/// `show` prints these words, and `set` accepts them.
#[test]
fn any_auto_and_none_stand_for_a_missing_key() {
    let plain = plan("").routers;
    for lines in [
        "pin = { vcpu = \"any\", vhost = \"any\" }",
        "affinity = { vcpu = \"auto\", vhost = \"auto\" }",
        "guarantee = \"none\"",
        "limit = \"none\"",
    ] {
        assert_eq!(plan(lines).routers, plain, "{lines}");
    }
}

#[test]
fn faults_that_are_found_later_have_their_lines() {
    let plan = plan("sched = { vcpu = { policy = \"other\" } }\nlimit = \"1kpps\"");
    let faults = [Fault::new(0, "limit", "too much"), Fault::new(0, "sched.vcpu", "why")];
    assert_eq!(
        plan.errors(faults).to_string(),
        "f.toml:6: router.sched.vcpu: why\nf.toml:7: router.limit: too much"
    );
}
