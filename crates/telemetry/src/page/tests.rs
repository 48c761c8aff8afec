use std::collections::{BTreeMap, BTreeSet};

use ledger::{Counter, E1000Registers, RouterCounters, VcpuExits};

use super::*;

/// Result of parsing a page: families with their types, and samples.
#[derive(Debug, Default)]
struct Parsed {
    kinds: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

/// Parses a page strictly by the specification of the format.
fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut helped = BTreeSet::new();
    let mut last = String::new();
    assert!(text.is_empty() || text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a sentence");
            assert!(helped.insert(name.to_owned()) && !help.is_empty(), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            assert!(helped.contains(name) && ["counter", "gauge"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(parsed.kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            last = name.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().unwrap();
            assert_eq!(name, last, "samples stand behind the type of their metric");
            assert!(is_name(name), "{line}");
            read_labels(&series[name.len()..]);
            assert!(
                parsed.samples.insert(series.to_owned(), value.parse().unwrap()).is_none(),
                "twice: {line}"
            );
        }
    }
    parsed
}

fn is_name(name: &str) -> bool {
    let mut octets = name.bytes();
    octets.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && octets.all(|octet| octet.is_ascii_alphanumeric() || octet == b'_')
}

/// Parses `{a="b",c="d"}` or an empty text; values are unescaped.
fn read_labels(text: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if text.is_empty() {
        return labels;
    }
    let mut rest = text.strip_prefix('{').unwrap();
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(is_name(name), "{text}");
        let mut value = String::new();
        let mut octets = after.char_indices();
        let end = loop {
            match octets.next().expect("a closing quote") {
                (at, '"') => break at,
                (_, '\\') => value.push(match octets.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("escape {c} in {text}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "label twice: {text}");
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    assert_eq!(rest, "}", "{text}");
    labels
}

#[test]
fn counters_of_a_nic_become_metrics_with_labels() {
    let nic = NicDirection::default();
    nic.frames.add(7);
    nic.drop_no_buffer.add(3);
    let mut page = Page::new();
    page.group("edge.wan.rx", &nic);
    page.group("core.lan.rx", &nic);
    let text = page.to_string();
    let parsed = parse(&text);
    assert_eq!(parsed.samples[r#"ringroad_nic_rx_frames_total{router="edge",nic="wan"}"#], 7.0);
    assert_eq!(
        parsed.samples[r#"ringroad_nic_rx_drops_total{router="core",nic="lan",reason="no_buffer"}"#],
        3.0
    );
    assert!(text.contains("# HELP ringroad_nic_rx_frames_total Frames moved through the ring.\n"), "{text}");
    assert_eq!(parsed.samples.len(), 2 * NicDirection::FIELDS.len());
}

#[test]
fn every_kind_of_group_has_its_metric() {
    let mut page = Page::new();
    for name in [
        "switch.lan.edge.wan.in_frames",
        "edge.vcpu0.forwarded",
        "edge.vcpu0.drop_ttl",
        "edge.vcpu11.exit.halt",
        "edge.vcpu0.wan.rx_frames",
        "edge.vcpu0.guests.vlan.in_frames",
        "edge.wan.tap.read.frames",
        "edge.wan.tap.write.drop_too_long",
        "edge.wan.tap.kernel.drop_full",
        "edge.wan.xdp.read.frames",
        "edge.wan.xdp.write.frames",
        "edge.wan.xdp.kernel.rx_invalid",
        "edge.wan.guest.rx.frames",
        "edge.wan.guest.tx.frames",
        "edge.wan.peer.handed",
        "edge.console.lost_full",
        "edge.wan.replay.skipped_cut",
        "edge.wan.kernel.drop_no_socket",
        "edge.wan.queue.frames",
        "edge.wan.registers.tdt_write",
        "edge.wan.interrupts.moderated",
        "edge/wan-rx.sleeps",
        "edge.guarantee.delivered",
        "control.accepted",
        "telemetry.served",
        "something.new.and.strange",
        "alone",
    ] {
        page.ledger(name, 1);
    }
    let parsed = parse(&page.to_string());
    let series: Vec<_> = parsed.samples.keys().map(String::as_str).collect();
    assert_eq!(
        series,
        [
            r#"ringroad_console_lost_full_total{router="edge"}"#,
            "ringroad_control_client_accepted_total",
            r#"ringroad_guarantee_delivered_total{router="edge"}"#,
            r#"ringroad_guest_nic_rx_frames_total{router="edge",vcpu="vcpu0",nic="wan"}"#,
            r#"ringroad_ingress_frames_total{router="edge",nic="wan"}"#,
            r#"ringroad_io_thread_sleeps_total{router="edge",thread="wan-rx"}"#,
            r#"ringroad_kernel_drops_total{router="edge",nic="wan",reason="no_socket"}"#,
            r#"ringroad_nic_interrupts_moderated_total{router="edge",nic="wan"}"#,
            r#"ringroad_nic_register_accesses_total{router="edge",nic="wan",access="tdt_write"}"#,
            r#"ringroad_other_alone_total{group=""}"#,
            r#"ringroad_other_strange_total{group="something.new.and"}"#,
            r#"ringroad_replay_skipped_cut_total{router="edge",nic="wan"}"#,
            r#"ringroad_router_drops_total{router="edge",vcpu="vcpu0",reason="ttl"}"#,
            r#"ringroad_router_forwarded_total{router="edge",vcpu="vcpu0"}"#,
            r#"ringroad_switch_port_in_frames_total{switch="lan",router="edge",nic="wan"}"#,
            r#"ringroad_tap_kernel_drops_total{router="edge",nic="wan",reason="full"}"#,
            r#"ringroad_tap_read_frames_total{router="edge",nic="wan"}"#,
            r#"ringroad_tap_write_drops_total{router="edge",nic="wan",reason="too_long"}"#,
            "ringroad_telemetry_client_served_total",
            r#"ringroad_vcpu_exits_total{router="edge",vcpu="vcpu11",reason="halt"}"#,
            r#"ringroad_vhost_user_guest_rx_frames_total{router="edge",nic="wan"}"#,
            r#"ringroad_vhost_user_guest_tx_frames_total{router="edge",nic="wan"}"#,
            r#"ringroad_vhost_user_peer_handed_total{router="edge",nic="wan"}"#,
            r#"ringroad_vlan_in_frames_total{router="edge",vcpu="vcpu0",interface="guests"}"#,
            r#"ringroad_xdp_kernel_rx_invalid_total{router="edge",nic="wan"}"#,
            r#"ringroad_xdp_read_frames_total{router="edge",nic="wan"}"#,
            r#"ringroad_xdp_write_frames_total{router="edge",nic="wan"}"#,
        ]
    );
}

#[test]
fn no_counter_of_a_known_group_is_left_out_or_falls_together_with_another() {
    let mut page = Page::new();
    page.group("edge.vcpu0", &RouterCounters::default());
    page.group("edge.vcpu0.exit", &VcpuExits::default());
    page.group("switch.lan.edge.wan", &PortCounters::default());
    page.group("edge.vcpu0.wan", &RouterNic::default());
    page.group("edge.vcpu0.wan.vlan", &VlanCounters::default());
    page.group("edge.wan.registers", &E1000Registers::default());
    page.group("edge.wan.interrupts", &NicInterrupts::default());
    let fields = |octets: usize| octets / size_of::<Counter>();
    let all = fields(size_of::<RouterCounters>())
        + fields(size_of::<VcpuExits>())
        + fields(size_of::<PortCounters>())
        + fields(size_of::<RouterNic>())
        + fields(size_of::<VlanCounters>())
        + fields(size_of::<E1000Registers>())
        + fields(size_of::<NicInterrupts>());
    assert_eq!(parse(&page.to_string()).samples.len(), all);
}

#[test]
fn threads_and_gauges() {
    let mut page = Page::new();
    page.thread("edge/vcpu0", 1_500_000_000);
    page.thread("ringroad/clock", 1);
    let up = Metric { name: "router_up", help: "Whether it runs.", counter: false };
    page.add(up, &[("router", "edge")], 1.0);
    page.add(up, &[("router", "core")], f64::INFINITY);
    let text = page.to_string();
    let parsed = parse(&text);
    assert_eq!(parsed.samples[r#"ringroad_thread_cpu_seconds_total{router="edge",thread="vcpu0"}"#], 1.5);
    assert_eq!(parsed.samples[r#"ringroad_router_up{router="edge"}"#], 1.0);
    assert_eq!(parsed.kinds["ringroad_router_up"], "gauge");
    assert!(text.contains("ringroad_router_up{router=\"core\"} +Inf\n"), "{text}");
}

#[test]
fn times_are_in_seconds_to_the_last_digit() {
    let mut page = Page::new();
    page.ledger("host.cpu3.idle_ns", u64::MAX);
    page.ledger("host.cpu3.irq_ns", 7);
    page.ledger("edge.guarantee.kept_ms", 1234);
    page.ledger("edge.guarantee.broken_ms", 0);
    page.ledger("something.took_us", 10_000_000);
    page.thread("edge/vcpu0", 9_007_199_254_740_993);
    let text = page.to_string();
    for line in [
        r#"ringroad_host_cpu_idle_seconds_total{cpu="3"} 18446744073.709551615"#,
        r#"ringroad_host_cpu_irq_seconds_total{cpu="3"} 0.000000007"#,
        r#"ringroad_guarantee_kept_seconds_total{router="edge"} 1.234"#,
        r#"ringroad_guarantee_broken_seconds_total{router="edge"} 0.000"#,
        r#"ringroad_other_took_seconds_total{group="something"} 10.000000"#,
        r#"ringroad_thread_cpu_seconds_total{router="edge",thread="vcpu0"} 9007199.254740993"#,
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in {text}");
    }
}

#[test]
fn hostile_names_and_values_cannot_break_the_format() {
    let mut page = Page::new();
    let metric = Metric { name: "x", help: "one\ntwo \\ three", counter: false };
    page.add(metric, &[("label", "a\"b\\c\nd} 1\nringroad_fake 2")], 1.0);
    page.ledger("a\"b\n.c{d}.e f", 1);
    page.ledger("ä.ö.ü", 1);
    let parsed = parse(&page.to_string());
    let series = parsed.samples.keys().find(|series| series.starts_with("ringroad_x")).unwrap();
    assert_eq!(read_labels(&series["ringroad_x".len()..])["label"], "a\"b\\c\nd} 1\nringroad_fake 2");
    assert_eq!(parsed.samples.len(), 3);
}

#[test]
fn the_same_counter_twice_is_one_sample() {
    let mut page = Page::new();
    page.ledger("edge.wan.rx.frames", 1);
    page.ledger("edge.wan.rx.frames", 2);
    assert_eq!(parse(&page.to_string()).samples.into_values().collect::<Vec<_>>(), [1.0]);
}

#[test]
fn an_empty_page_is_empty() {
    assert_eq!(Page::new().to_string(), "");
}
