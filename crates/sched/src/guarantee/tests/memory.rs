use super::*;

const KIND: Kind = Kind { class: Class::Vhost, path: Path::Tap, exits: false, far: false };
const TODAY: &str = "2026-11-22";

fn machine() -> Machine {
    let [cpu, kernel, ringroad] = ["Some CPU (family 6 model 167)", "6.18.44", "0.1.0"].map(str::to_owned);
    Machine { cpu, kernel, ringroad }
}

fn day(text: &str) -> Day {
    text.parse().expect("a day")
}

fn way(device: &str) -> CostKey {
    CostKey { kind: KIND, device: device.to_owned(), cpus: 1 }
}

/// Window of so many packets of 60 octets in passes of this length, at this cost.
fn window(frames: u64, batch: u64, cycles: u64) -> Observation {
    Observation { cycles: frames * cycles, frames, octets: frames * 60, batches: frames / batch }
}

fn note(memory: &mut CostMemory, window: &Observation, times: usize) {
    (0..times).for_each(|_| memory.note(&way("tap"), window, Idleness::Never, day(TODAY)));
}

/// Records windows of a saturated thread.
fn lag(memory: &mut CostMemory, window: &Observation, times: usize) {
    (0..times).for_each(|_| memory.note(&way("tap"), window, Idleness::Behind, day(TODAY)));
}

/// Memory in which a packet of a way costs so many cycles.
fn knowing(cycles: u64) -> CostMemory {
    let mut memory = CostMemory::new(machine());
    note(&mut memory, &window(4000, 50, cycles), 10);
    memory
}

fn cost(memory: &CostMemory) -> Option<f64> {
    Some(memory.cost(&way("tap"), 60.0)?.cycles)
}

#[track_caller]
fn close(found: Option<f64>, wanted: f64) {
    assert!(found.is_some_and(|found| (found / wanted - 1.0).abs() < 0.03), "{found:?} and not {wanted}");
}

#[test]
fn a_model_begins_with_what_is_remembered_and_new_sights_outweigh_it() {
    let mut model = knowing(5467).model(&way("tap"), 64.0).expect("enough was seen");
    let begins = model.per_frame(60.0, 50.0);
    assert_eq!(begins.basis, Basis::Remembered { day: day(TODAY), frames: 40_000 });
    close(Some(begins.cycles), 5467.0);
    for _ in 0..10 {
        model.learn(&window(4000, 50, 9000));
    }
    let seen = model.per_frame(60.0, 50.0);
    assert!(seen.cycles > 7500.0, "after a second it is mostly what is seen: {}", seen.cycles);
    assert_eq!(seen.basis, Basis::Measured { frames: 40_000 });
}

#[test]
fn several_lengths_of_passes_are_a_line() {
    let mut memory = CostMemory::new(machine());
    for batch in [16, 40, 100] {
        note(&mut memory, &window(4000, batch, 5000 + 24_000 / batch), 10);
    }
    let model = memory.model(&way("tap"), 60.0).expect("enough was seen");
    for batch in [16.0, 32.0, 64.0] {
        close(Some(model.per_frame(60.0, batch).cycles), 5000.0 + 24_000.0 / batch);
    }
}

#[test]
fn the_longest_passes_count_and_only_they_can_show_that_packets_are_dear() {
    let mut memory = CostMemory::new(machine());
    note(&mut memory, &window(4000, 20, 30_000), 10);
    assert_eq!((cost(&memory), memory.model(&way("tap"), 60.0).is_none()), (None, true), "it woke up");
    let mut cheap = CostMemory::new(machine());
    note(&mut cheap, &window(4000, 20, 4000), 10);
    close(cost(&cheap), 4000.0);
    note(&mut memory, &window(4000, 40, 5000), 10);
    close(cost(&memory), 5000.0);
    note(&mut memory, &window(4000, 64, 3000), 2);
    close(cost(&memory), 5000.0);
    note(&mut memory, &window(4000, 64, 3000), 1);
    close(cost(&memory), 3000.0);
    // A slow machine shows its cost when it is full.
    close(cost(&knowing(30_000)), 30_000.0);
}

#[test]
fn too_little_is_no_evidence() {
    let mut memory = CostMemory::new(machine());
    // Hardly a packet, passes of a few, nothing at all, nonsense.
    for new in [
        window(199, 16, 5000),
        window(4000, 15, 5000),
        window(0, 1, 1),
        Observation::default(),
        Observation { cycles: u64::MAX, frames: 300, octets: 0, batches: 1 },
        Observation { cycles: 1, frames: u64::MAX, octets: u64::MAX, batches: 0 },
        Observation { octets: u64::MAX, ..window(4000, 16, 5000) },
        window(4000, 16, 100),
        window(4000, 16, 500_000),
    ] {
        note(&mut memory, &new, 100);
        assert_eq!(memory, CostMemory::new(machine()), "{new:?}");
    }
    // A thread that polls an empty queue between short passes.
    memory.note(&way("tap"), &window(20_000, 40, 5000), Idleness::Polling, day(TODAY));
    assert_eq!(memory, CostMemory::new(machine()));
    note(&mut memory, &window(4999, 16, 5000), 2);
    assert!(cost(&memory).is_none(), "9998 packets");
    note(&mut memory, &window(200, 16, 5000), 1);
    close(cost(&memory), 5000.0);
    // Neither for frames of another size, nor for another router, class or number of CPUs.
    assert!(memory.cost(&way("tap"), 1514.0).is_none());
    assert!(memory.cost(&way("ovs"), 60.0).is_none());
    let vcpu = Kind { class: Class::Vcpu, ..KIND };
    assert!(memory.cost(&CostKey { kind: vcpu, ..way("tap") }, 60.0).is_none());
    assert!(memory.cost(&CostKey { cpus: 2, ..way("tap") }, 60.0).is_none());
    // A polling thread has no time for that in long passes.
    let mut polling = CostMemory::new(machine());
    polling.note(&way("tap"), &window(20_000, 50, 5000), Idleness::Polling, day(TODAY));
    assert!(cost(&polling).is_some());
}

#[test]
fn long_passes_of_a_cpu_that_rests_are_not_the_longest() {
    let noted = |rest, cycles| {
        let mut memory = CostMemory::new(machine());
        memory.note(&way("tap"), &window(20_000, 64, cycles), rest, day(TODAY));
        memory
    };
    assert_eq!(cost(&noted(Idleness::Asleep, 30_000)), None, "it woke up for each");
    close(cost(&noted(Idleness::Asleep, 4000)), 4000.0);
    let mut memory = noted(Idleness::Asleep, 4000);
    memory.note(&way("tap"), &window(20_000, 64, 5000), Idleness::Never, day(TODAY));
    close(cost(&memory), 5000.0);
    // A saturated thread shows best what packets cost.
    memory.note(&way("tap"), &window(20_000, 64, 4500), Idleness::Behind, day(TODAY));
    memory.note(&way("tap"), &window(20_000, 64, 5500), Idleness::Never, day(TODAY));
    close(cost(&memory), 4500.0);
    let read = CostMemory::read(&memory.json(), &machine()).expect("it is sound");
    assert_eq!(cost(&read), cost(&memory));
}

#[test]
fn the_dear_end_is_remembered_and_what_is_over_is_forgotten() {
    let mut memory = CostMemory::new(machine());
    lag(&mut memory, &window(4000, 50, 5000), 10);
    for n in 0..300 {
        lag(&mut memory, &window(4000, 50, if n % 5 == 0 { 6000 } else { 5000 }), 1);
    }
    let mixed = cost(&memory).expect("it is known");
    assert!((5500.0..5950.0).contains(&mixed), "the mean is 5200, and {mixed} is remembered");
    // Expensive for a second.
    lag(&mut memory, &window(4000, 50, 9000), 10);
    let dear = cost(&memory).expect("it is known");
    assert!(dear > 7000.0, "{dear}");
    // Ten seconds of traffic later, and half a minute.
    lag(&mut memory, &window(4000, 50, 5000), 100);
    let later = cost(&memory).expect("it is known");
    assert!(later < 5000.0 + 0.45 * (dear - 5000.0), "{dear} became {later}");
    lag(&mut memory, &window(4000, 50, 5000), 300);
    close(cost(&memory), 5000.0);
}

#[test]
fn what_was_written_is_read() {
    let mut memory = knowing(5467);
    for (n, octets) in (0..).zip([60, 200, 512, 1000, 1514, 9000, 65_549]) {
        let window = Observation { octets: 777 * octets, ..window(777, 16 + 3 * n, 5001 + n) };
        let kind = Kind { class: Class::Vcpu, path: Path::Xdp, exits: true, far: true };
        let way = CostKey { kind, device: "kvm split e1000-csb/tap \"x\" é".to_owned(), cpus: 2 };
        memory.note(&way, &window, Idleness::Never, day("2027-01-31"));
    }
    let text = memory.json();
    let read = CostMemory::read(&text, &machine()).expect("it is ours");
    assert_eq!(read.json(), text);
    assert_eq!(CostMemory::read(&read.json(), &machine()), Ok(read.clone()));
    close(cost(&read), 5467.0);
    for wanted in ["\"version\": 2", "\"Some CPU (family 6 model 167)\"", "\"class\": \"vhost\"", TODAY] {
        assert!(text.contains(wanted), "{text}");
    }
}

#[test]
fn what_is_of_another_machine_is_not_used() {
    let text = knowing(5467).json();
    for other in [
        Machine { cpu: "Another".to_owned(), ..machine() },
        Machine { kernel: "6.12.1".to_owned(), ..machine() },
        Machine { ringroad: "0.2.0".to_owned(), ..machine() },
    ] {
        let error = CostMemory::read(&text, &other).expect_err("it is of another one");
        assert_eq!(error, Unusable::Elsewhere(machine()));
        assert_eq!(
            error.to_string(),
            "it is true for another machine: Some CPU (family 6 model 167), kernel 6.18.44, ringroad 0.1.0"
        );
    }
}

#[test]
fn a_hostile_document_is_told_in_a_line() {
    let good = knowing(5467).json();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from} is not in {good}");
        good.replace(from, to)
    };
    let nothing = format!("{{\"version\":2,\"machine\":{{\"cpu\":\"{}\",\"kernel\":\"", "\\n".repeat(500));
    let elsewhere = nothing + "6\",\"ringroad\":\"0\"},\"costs\":[]}";
    let many = {
        let at = good.find("[\n").expect("a list") + 1;
        let end = good.rfind(']').expect("its end");
        format!("{}{}{}", &good[..at], vec![&good[at..end]; 513].join(","), &good[end..])
    };
    let hostile = [
        String::new(),
        "{}".to_owned(),
        "[1".to_owned(),
        "\u{0}\n\n".to_owned(),
        "[".repeat(100_000),
        "{\"version\":2}".to_owned(),
        good[..good.len() / 2].to_owned(),
        with("\"version\": 2", "\"version\": 3"),
        with("\"version\": 2", "\"version\": 4294967296"),
        with("\"version\"", "\"\\n\\n\\u001b[2J\": 1, \"version\""),
        with("5467.0", "0"),
        with("5467.0", "-5467.0"),
        // It would be written as zero, which is refused when read.
        with("5467.0", "0.001"),
        with("5467.0", "1e9"),
        with("5467.0", "1e999"),
        with("5467.0", "null"),
        with("\"frames_to\": 128", "\"frames_to\": 129"),
        with("\"passes_from\": 48", "\"passes_from\": 47"),
        with("\"packets_of_a_pass\": 50.0", "\"packets_of_a_pass\": 1e300"),
        with("\"packets\": 40000", "\"packets\": 0"),
        with("\"device\": \"tap\"", "\"device\": \"\\u001b[2J\""),
        with("\"device\": \"tap\"", &format!("\"device\": \"{}\"", "x".repeat(201))),
        with(TODAY, "2026-13-22"),
        with(TODAY, "2026-1-222"),
        with(TODAY, "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}"),
        elsewhere,
        many,
    ];
    for text in hostile {
        let start: String = text.chars().take(100).collect();
        let line = CostMemory::read(&text, &machine()).expect_err(&start).to_string();
        assert!(!line.contains(char::is_control) && line.len() < 800, "{start}: {line}");
    }
}

#[test]
fn only_so_much_is_kept() {
    let mut memory = CostMemory::new(machine());
    for n in 0..3000 {
        let day = day(&format!("20{:02}-11-22", n / 100));
        memory.note(&way(&format!("{n:0200}")), &window(4000, 16, 5000), Idleness::Never, day);
    }
    memory.note(&way(&"x".repeat(201)), &window(40_000, 16, 5000), Idleness::Never, day("2099-11-22"));
    assert!(memory.model(&way(&"x".repeat(201)), 60.0).is_none());
    let text = memory.json();
    assert!(text.len() as u64 <= CostMemory::LONGEST, "{}", text.len());
    assert_eq!(text.matches("\"cycles\"").count(), 512);
    assert_eq!(CostMemory::read(&text, &machine()), Ok(memory));
    assert!(text.contains(&format!("{:0200}", 2999)) && !text.contains(&format!("{:0200}", 0)));
}

#[test]
fn what_two_runs_have_seen_is_put_together() {
    let (before, mut ours, mut theirs) = (knowing(5000), knowing(5000), knowing(5000));
    // Only one of the two has observed something new.
    note(&mut ours, &window(4000, 50, 4000), 500);
    close(cost(&ours.merged(&before, &before)), 4000.0);
    note(&mut theirs, &window(4000, 50, 4500), 500);
    close(cost(&before.merged(&before, &theirs)), 4500.0);
    // Both have: the more expensive one counts, whichever writes last.
    close(cost(&ours.merged(&before, &theirs)), 4500.0);
    close(cost(&theirs.merged(&before, &ours)), 4500.0);
    // Points that only one has are kept.
    theirs.note(&way("ovs"), &window(20_000, 50, 7000), Idleness::Never, day(TODAY));
    let both = ours.merged(&before, &theirs);
    assert!(both.model(&way("ovs"), 60.0).is_some());
    // Costs of another machine are ignored.
    let elsewhere = CostMemory::new(Machine { kernel: "6.12".to_owned(), ..machine() });
    assert_eq!(ours.merged(&before, &elsewhere), ours);
}

#[test]
fn days_are_read_as_they_are_written() {
    for text in ["2026-11-22", "0001-01-01", "9999-12-31"] {
        assert_eq!(day(text).to_string(), text);
    }
    for text in ["", "2026-11-2", "2026-00-01", "2026-01-32", "2026/11/22", "+026-11-22", "2026-11-22T"] {
        assert!(text.parse::<Day>().is_err(), "{text}");
    }
    assert!(day("2026-11-22") < day("2026-12-01"));
}
