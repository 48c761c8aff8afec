use api::{Counters, RouterStatus, State};
use support::schema::check_lines;

use super::{Interval, MemberStates, Screen, member_states};

fn counters(at_ns: u64, counters: &[(&str, u64)], cpu: &[(&str, u64)]) -> Counters {
    let map = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    Counters { at_ns, counters: map(counters), cpu_ns: map(cpu), ..Counters::default() }
}

const FILE: &str = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n\
                    address = \"192.0.2.1/24\"\n";

#[test]
fn the_table_shows_rates_drops_and_shares() {
    let plan = config::parse(FILE, "x.toml").expect("a good file");
    let earlier = counters(1_000_000_000, &[("edge.wan.rx.frames", 10)], &[("edge/vcpu0", 0)]);
    let moved = [
        ("edge.wan.rx.frames", 2010),
        ("edge.wan.rx.bytes", 250_000),
        ("edge.wan.rx.drop_no_buffer", 3),
        ("edge.vcpu0.forwarded", 1000),
        ("edge.vcpu0.exit.halt", 10),
    ];
    let later = counters(3_000_000_000, &moved, &[("edge/vcpu0", 1_000_000_000)]);
    let table = Interval::between(&earlier, &later).table(&plan, &MemberStates::new());
    let words = |line: usize| -> Vec<&str> {
        table.lines().nth(line).into_iter().flat_map(str::split_whitespace).collect()
    };
    assert_eq!(words(1), ["edge.wan", "1000", "1.0", "0", "0.0"]);
    assert_eq!(words(2), ["edge:", "exits/packet", "0.01000;", "CPU", "%", "vcpu0", "50.0"]);
    assert_eq!(table.lines().last(), Some("drops: edge.wan.rx.drop_no_buffer 3"));
}

const GROUP: &str = "[[group]]\nname = \"core\"\nkind = \"multistage\"\nbalancer = \"vm\"\nbackends = 2\nremote = 1\n\
                     interconnect = \"bridge:br0\"\n\
                     [[group.nic]]\nname = \"wan\"\nattach = \"tap:w\"\naddress = \"192.0.2.1/24\"\n\
                     [[group.nic]]\nname = \"lan\"\nattach = \"tap:l\"\naddress = \"198.51.100.1/24\"\n";

/// The status of a router that is this member of its group, or of none.
fn status(name: &str, member: Option<&str>) -> RouterStatus {
    RouterStatus {
        name: name.to_owned(),
        engine: "kvm".to_owned(),
        state: State::Running,
        since_ms: 0,
        restarts: 0,
        reason: None,
        pid: None,
        member: member.map(str::to_owned),
        threads: Vec::new(),
    }
}

#[test]
fn each_member_has_a_line_with_its_part_and_its_rate() {
    let plan = config::parse(GROUP, "x.toml").expect("a good file");
    let moved = [
        ("core_0.wan.group.passed", 1000),
        ("core_0.lan.group.passed", 500),
        ("core_0.wan.group.told", 9),
        ("core_01.wan.group.passed", 7),
        ("core_63.lan.group.passed", 300),
        ("core_lb0.wan.group.passed", 1800),
    ];
    let interval = Interval::between(&counters(SECOND, &[], &[]), &counters(3 * SECOND, &moved, &[]));
    let routers = [
        status("core_0", Some("serving, 128 of 256 buckets")),
        status("core_1", Some("suspect, 0 of 256 buckets")),
        status("core_lb0", Some("serving, 2 of 2 links")),
        status("core_63", Some("serving, 128 of 256 buckets")),
        // Removed meanwhile, and no member of a group.
        status("core_9", Some("leaving, 0 of 256 buckets")),
        status("edge", None),
    ];
    let table = interval.table(&plan, &member_states(&routers));
    let lines: Vec<&str> = table.lines().filter(|line| line.ends_with(" passed")).collect();
    let mut wanted = [
        "core_0: serving, 128 of 256 buckets; 750 pps passed",
        "core_1: suspect, 0 of 256 buckets; 0 pps passed",
        "core_63: serving, 128 of 256 buckets; 150 pps passed",
        "core_lb0: serving, 2 of 2 links; 900 pps passed",
    ];
    let mut found = lines.clone();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{table}");
    // Nothing is known of them before the first answer.
    assert!(!interval.table(&plan, &MemberStates::new()).contains(" passed"));
}

#[test]
fn an_access_that_is_a_kick_counts_once() {
    let plan = config::parse(FILE, "x.toml").expect("a good file");
    let moved = [
        ("edge.vcpu0.forwarded", 1000),
        // Of these, 700 left the guest for the VMM, and KVM coalesced 150.
        ("edge.vcpu0.wan.kicks", 850),
        ("edge.vcpu0.exit.mmio_write", 700),
        ("edge.wan.registers.tdt_write", 600),
        ("edge.wan.registers.rdt_write", 100),
        ("edge.wan.registers.coalesced_tdt", 150),
        ("edge.wan.interrupts.raised", 50),
        ("edge.wan.interrupts.suppressed", 5000),
    ];
    let table = Interval::between(&counters(0, &[], &[]), &counters(1_000_000_000, &moved, &[]))
        .table(&plan, &MemberStates::new());
    assert!(table.contains("exits/packet 0.90000"), "{table}");
}

#[test]
fn counters_that_start_anew_do_not_turn_into_giants() {
    let earlier = counters(0, &[("edge.wan.rx.frames", 1000)], &[("edge/vcpu0", 5_000_000_000)]);
    let later = counters(1_000_000_000, &[("edge.wan.rx.frames", 7)], &[("edge/vcpu0", 10_000_000)]);
    let json = Interval::between(&earlier, &later).json();
    assert_eq!(
        json,
        r#"{"counters":{"edge.wan.rx.frames":7},"cpu_percent":{"edge/vcpu0":1.0},"seconds":1.0}"#
    );
}

#[test]
fn a_clock_that_stands_still_divides_by_no_zero() {
    let same = counters(5, &[("edge.wan.rx.frames", 1)], &[]);
    assert!(Interval::between(&same, &same).json().contains("\"seconds\":1e-9"));
}

#[test]
fn tables_follow_each_other_where_there_is_no_terminal() {
    let mut screen = Screen { terminal: false, lines: 0 };
    assert_eq!([screen.draw("a\nb\n"), screen.draw("c\n")], ["a\nb\n", "c\n"]);
    let mut screen = Screen { terminal: true, lines: 0 };
    assert_eq!([screen.draw("a\nb\n"), screen.draw("c\n")], ["a\nb\n", "\x1b[2A\x1b[Jc\n"]);
    screen.leave();
    assert_eq!(screen.draw("d\n"), "d\n");
}

#[test]
fn what_is_known_of_threads_and_cores_is_shown() {
    let plan = config::parse(FILE, "x.toml").expect("a good file");
    let moved = [
        ("edge.vcpu0.forwarded", 1000),
        ("edge/vcpu0.sched.guest_ns", 800_000_000),
        ("edge/vcpu0.sched.system_ns", 200_000_000),
        ("edge/vcpu0.sched.wait_ns", 20_000_000),
        ("edge/vcpu0.sched.switches", 300),
        ("edge/vcpu0.sched.wakeups", 200),
        ("host.cpu1.guest_ns", 800_000_000),
        ("host.cpu1.softirq_ns", 600_000_000),
        ("host.cpu1.irq_ns", 100_000_000),
        ("host.cpu1.idle_ns", 500_000_000),
    ];
    let later = counters(2_000_000_000, &moved, &[("edge/vcpu0", 1_000_000_000)]);
    let table =
        Interval::between(&counters(0, &[], &[("edge/vcpu0", 0)]), &later).table(&plan, &MemberStates::new());
    let lines: Vec<&str> = table.lines().collect();
    let thread =
        "  edge/vcpu0: CPU 50.0 %, guest 40.0 %, kernel 10.0 %, waits 1.0 %; 150 switches/s, 100 wake-ups/s";
    assert_eq!(lines[3], thread);
    let core = "CPU 1 %: guest 40.0 irq 5.0 softirq 30.0 idle 25.0";
    assert_eq!(lines[4..6], ["CPUs, softirq by ticks:", core]);
}

#[test]
fn who_told_interrupts_apart_is_said_where_cores_are_known() {
    let source = |traced_ns: Option<u64>| {
        let columns = [("host.cpu10.softirq_ns", 600_000_000), ("host.cpu10.idle_ns", 400_000_000)];
        let traced = traced_ns.map(|ns| ("host.cpu10.traced_ns", ns));
        let moved: Vec<_> = columns.into_iter().chain(traced).collect();
        let later = counters(1_000_000_000, &moved, &[]);
        let interval = Interval::between(&counters(0, &[], &[]), &later);
        let json: serde_json::Value = serde_json::from_str(&interval.json()).expect("JSON");
        let said = json["softirq_by"].as_str().expect("a source").to_owned();
        assert!(interval.cores().starts_with(&format!("CPUs, softirq by {said}:\nCPU 10 %: softirq 60.0 ")));
        said
    };
    assert_eq!([None, Some(500_000_000), Some(1_000_000_000)].map(source), ["ticks", "ticks", "tracer"]);
    let none = Interval::between(&counters(0, &[], &[]), &counters(1, &[("edge.wan.rx.frames", 1)], &[]));
    assert!(none.cores().is_empty() && !none.json().contains("softirq_by"));
}

#[test]
fn a_promise_is_shown_with_what_became_of_it() {
    let plan = config::parse(FILE, "x.toml").expect("a good file");
    let at = |ms: u64, broken: u64| {
        let moved = [
            ("edge.guarantee.promised", 20 * ms),
            ("edge.guarantee.offered", 40 * ms),
            ("edge.guarantee.delivered", 21 * ms),
            ("edge.guarantee.kept_ms", ms - broken),
            ("edge.guarantee.broken_ms", broken),
        ];
        counters(ms * 1_000_000, &moved, &[])
    };
    // The counters belong to a moment up to 0.1 s before they are read.
    let mut later = at(1900, 0);
    later.at_ns = 2_000_000_000;
    let interval = Interval::between(&at(1000, 0), &later);
    let table = interval.table(&plan, &MemberStates::new());
    let line = "edge: guarantee 20000 pps, kept; 21000 of 40000 pps delivered";
    assert!(table.lines().any(|shown| shown == line), "{table}");
    let json: serde_json::Value = serde_json::from_str(&interval.json()).expect("JSON");
    let wanted = serde_json::json!({
        "edge": { "promised_pps": 20000, "offered_pps": 40000, "delivered_pps": 21000, "kept": true }
    });
    assert_eq!(json["guarantees"], wanted);

    let broken = Interval::between(&at(1000, 0), &at(2000, 300));
    let table = broken.table(&plan, &MemberStates::new());
    assert!(table.contains("edge: guarantee 20000 pps, not kept for 0.3 s; 21000 of "), "{table}");
    assert!(broken.json().contains("\"kept\":false"));
    // They were not updated in between.
    assert!(!Interval::between(&at(1000, 0), &at(1000, 0)).json().contains("guarantees"));
}

/// CPU shares of the threads of an interval, in percent.
fn shares(interval: &Interval) -> Vec<(&str, f64)> {
    interval.threads.iter().map(|(name, share)| (name.as_str(), *share)).collect()
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn who_reads_late_gives_no_thread_more_than_it_had() {
    // The thread's time was read at once, and then nothing ran for 0.9 s.
    let mut earlier = counters(10 * SECOND + 900_000_000, &[], &[("edge/vhost", 5 * SECOND)]);
    earlier.first_ns = 10 * SECOND;
    let mut later = counters(11 * SECOND, &[], &[("edge/vhost", 5 * SECOND + 91_000_000)]);
    later.first_ns = 11 * SECOND;
    assert_eq!(shares(&Interval::between(&earlier, &later)), [("edge/vhost", 9.1)], "91 ms of a second");
    // Another process has reported later than this one.
    let mut late = counters(11 * SECOND, &[], &[("edge/vhost", 6 * SECOND)]);
    late.also_read_within((12 * SECOND, 12 * SECOND));
    assert_eq!(shares(&Interval::between(&earlier, &late)), [("edge/vhost", 50.0)]);
}

#[test]
fn a_thread_that_was_not_read_before_has_no_share_yet() {
    let earlier = counters(10 * SECOND, &[], &[("edge/vcpu0", SECOND)]);
    // It is old, and was idle in this second.
    let later = counters(11 * SECOND, &[], &[("edge/vcpu0", SECOND), ("edge/vhost", 910_000_000)]);
    assert_eq!(shares(&Interval::between(&earlier, &later)), [("edge/vcpu0", 0.0)]);
    let after = counters(12 * SECOND, &[], &[("edge/vcpu0", SECOND), ("edge/vhost", 920_000_000)]);
    assert_eq!(shares(&Interval::between(&later, &after)), [("edge/vcpu0", 0.0), ("edge/vhost", 1.0)]);
    // At the start all threads are new.
    assert_eq!(shares(&Interval::since(10 * SECOND, &later)), [("edge/vcpu0", 100.0), ("edge/vhost", 91.0)]);
}

#[test]
fn an_interval_is_an_object_of_numbers() {
    let moved = [
        ("edge.wan.rx.frames", 7),
        ("edge.guarantee.promised", 20),
        ("edge.guarantee.offered", 30),
        ("edge.guarantee.delivered", 20),
        ("edge.guarantee.kept_ms", 1),
        ("edge.guarantee.broken_ms", 0),
        ("host.cpu10.softirq_ns", 600_000_000),
        ("host.cpu10.idle_ns", 400_000_000),
    ];
    let zeros = moved.map(|(name, _)| (name, 0));
    let later = counters(1_000_000_000, &moved, &[("edge/vcpu0", 10_000_000)]);
    let interval = Interval::between(&counters(0, &zeros, &[("edge/vcpu0", 0)]), &later);
    let text = interval.json() + "\n";
    check_lines("top", &text);
    for key in ["guarantees", "softirq_by", "cpu_percent"] {
        assert!(text.contains(key), "{key} is not in {text}");
    }
}
