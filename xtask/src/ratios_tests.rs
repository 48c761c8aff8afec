use super::{interval, median_of, of, table};
use crate::results::{Sample, parse};

#[test]
fn the_interval_is_that_of_the_sign_test() {
    // n = 10: 2nd and 9th value (97.9 %).
    let (low, median, high) = interval((1..=10).map(f64::from).collect()).unwrap();
    assert_eq!((low, median, high), (2.0, 5.5, 9.0));
    // n = 6: smallest and largest value (96.9 %).
    assert_eq!(interval((1..=6).map(f64::from).collect()), Some((1.0, 3.5, 6.0)));
    assert_eq!(interval(vec![1.0; 5]), None);
}

#[test]
fn pairs_are_made_round_by_round_and_judged_by_the_interval() {
    let mut samples = Vec::new();
    for round in 0..6 {
        let ours = 40 + round;
        samples.extend(parse(&format!(
            "RESULT name=forward/kvm/virtio-net/64 unit=mpps median={ours} min=1 max=50 n=5 c2c_ns=100"
        )));
        samples.extend(parse(
            "RESULT name=dpdk_router_l3fwd_lpm_plain_64 unit=mpps median=14 min=1 max=50 n=5 c2c_ns=110",
        ));
    }
    let text = table(&samples);
    assert!(text.contains("| near | 6 | 3.04 | 2.86..3.21 | >= 2.5 | yes |"), "{text}");
    assert!(!text.contains("ovs"));
}

#[test]
fn pairs_are_judged_by_where_the_cores_were_each_place_in_a_row_of_its_own() {
    let of = |name: &str, rate: f64, c2c: u32| {
        parse(&format!("RESULT name={name} unit=mpps median={rate} min=1 max=50 n=5 c2c_ns={c2c}"))
    };
    let round = |ours: f64, c2c: [u32; 2]| {
        [of("forward/kvm/virtio-net/64", ours, c2c[0]), of("dpdk_router_l3fwd_lpm_plain_64", 10.0, c2c[1])]
    };
    let near = (0..6).flat_map(|_| round(40.0, [100, 110]));
    let far = (0..7).flat_map(|_| round(20.0, [400, 450]));
    let moved = (0..2).flat_map(|_| round(90.0, [100, 450]));
    let text = table(&far.chain(moved).chain(near).flatten().collect::<Vec<_>>());
    let rows: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("l3fwd_lpm_plain_64 | ").map(|(_, rest)| rest))
        .collect();
    assert_eq!(
        rows,
        [
            "near | 6 | 4.00 | 4.00..4.00 | >= 2.5 | yes |",
            "far | 7 | 2.00 | 2.00..2.00 | >= 2.5 | no |",
            "moved | 2 | 9.00 | - | >= 2.5 | too few |",
        ]
    );
}

#[test]
fn single_figures_are_judged_by_their_interval_over_the_rounds() {
    let round = |share: f64| {
        let name = "livelock/kvm/e1000-base/64/work=2000/queue=256/unprotected";
        parse(&format!("RESULT name={name} unit=share median={share} min=0 max=1 n=5"))
    };
    let rows = |shares: [f64; 6]| table(&shares.into_iter().filter_map(round).collect::<Vec<_>>());
    assert!(rows([0.1, 0.2, 0.2, 0.3, 0.3, 0.4]).contains("| 6 | 0.2500 | 0.1000..0.4000 | <= 0.5 | yes |"));
    assert!(rows([0.8; 6]).contains("| no |") && rows([0.1, 0.4, 0.4, 0.6, 0.6, 0.7]).contains("| open |"));
    assert!(rows([0.54; 6]).contains("| no, close |") && rows([0.46; 6]).contains("| yes, close |"));
    let trips = |us: f64, name: &str| {
        parse(&format!("RESULT name=round-trip/kvm/{name}/64/sleeping unit=us median={us} min=1 max=9 n=5"))
    };
    let both = (0..6).flat_map(|_| [trips(50.0, "e1000-csb"), trips(100.0, "e1000-base")]);
    let text = table(&both.flatten().collect::<Vec<_>>());
    assert!(text.contains("| 0.50 | 0.50..0.50 | <= 1.05 | yes |"), "{text}");
}

#[test]
fn single_figures_are_judged_by_where_the_cores_were_too_and_too_few_are_left_open() {
    let of = |exits: f64, c2c: u32| {
        let name = "forward/kvm/e1000-csb/64";
        parse(&format!(
            "RESULT name={name} unit=mpps median=9 min=1 max=50 n=5 exits_per_packet={exits} c2c_ns={c2c}"
        ))
    };
    let far = (0..7).map(|_| of(0.1, 400));
    let between = (0..2).map(|_| of(0.5, 300));
    let near = (0..6).map(|_| of(0.01, 100));
    let text = table(&far.chain(between).chain(near).flatten().collect::<Vec<_>>());
    let rows: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(" exits_per_packet | ").map(|(_, rest)| rest))
        .collect();
    assert_eq!(
        rows,
        [
            "near | 6 | 0.0100 | 0.0100..0.0100 | <= 0.02 | yes |",
            "between | 2 | 0.5000 | - | <= 0.02 | too few |",
            "far | 7 | 0.1000 | 0.1000..0.1000 | <= 0.02 | no |",
        ]
    );
}

#[test]
fn a_headline_is_of_the_place_that_has_most_rounds_and_names_it() {
    let rounds = |count: usize, rate: u32, c2c: &str| -> Vec<Sample> {
        let line = |name: &str, rate: u32| {
            parse(&format!("RESULT name={name} unit=mpps median={rate} min=1 max=50 n=5{c2c}"))
        };
        (0..count).flat_map(|_| [line("ours", rate), line("theirs", 10)]).flatten().collect()
    };
    let (near, far) = (" c2c_ns=100", " c2c_ns=400");
    let told = |samples: &[Sample]| (median_of("ours", samples), of("ours", "theirs", samples));
    let text = |rate: &str, ratio: &str| (Some(rate.to_owned()), Some(ratio.to_owned()));
    let mixed = [rounds(6, 40, near), rounds(7, 20, far)].concat();
    assert_eq!(told(&mixed), text("20.0 mpps, far", "2.00 (2.00..2.00), far"));
    let equal = [rounds(6, 20, far), rounds(6, 40, near)].concat();
    assert_eq!(told(&equal), text("40.0 mpps, near", "4.00 (4.00..4.00), near"));
    assert_eq!(told(&rounds(6, 30, "")), text("30.0 mpps", "3.00 (3.00..3.00)"));
    let few = [rounds(3, 40, near), rounds(3, 20, far)].concat();
    assert_eq!(told(&few), (None, None));
}

#[test]
fn a_promise_beside_a_spinner_is_judged_by_what_its_line_says_of_timers_too() {
    let name = "guarantee/kvm/virtio-net/60/tap/beside-spinner";
    let rows = |delivered: f64, p99: f64| {
        let line = format!(
            "RESULT name={name} unit=delivered/promised median={delivered} min=0 max=1 n=1 neighbour_cpu=0.2 idle_cpu=0.001 timer_p99_ms={p99}"
        );
        table(&(0..6).filter_map(|_| parse(&line)).collect::<Vec<_>>())
    };
    let (good, starved, late) = (rows(1.0, 4.0), rows(0.7, 4.0), rows(1.0, 80.0));
    assert_eq!((good.matches("| yes").count(), good.matches("| no |").count()), (4, 0), "{good}");
    assert!(
        starved.contains(" median | not told | 6 | 0.7000 | 0.7000..0.7000 | >= 0.98 | no |"),
        "{starved}"
    );
    assert!(
        late.contains(" timer_p99_ms | not told | 6 | 80.0000 | 80.0000..80.0000 | <= 20 | no |"),
        "{late}"
    );
}

#[test]
fn what_is_compared_with_several_of_ours_has_a_partner_for_each() {
    let of = |name: &str, rate: u32| {
        parse(&format!("RESULT name=tcp-forward/{name} unit=gbps median={rate} min=1 max=99 n=2"))
    };
    let round = |kvm: u32, process: u32| {
        [
            ("kvm/virtio-net/tap", kvm),
            ("kernel/veth", 20),
            ("process/virtio-net/tap", process),
            ("kernel/veth", 40),
        ]
        .map(|(name, rate)| of(name, rate))
    };
    let samples: Vec<_> = (0..6).flat_map(|_| round(10, 30)).flatten().collect();
    let text = table(&samples);
    assert!(
        text.contains("| tcp-forward/kvm/virtio-net/tap / tcp-forward/kernel/veth | not told | 6 | 0.50 |"),
        "{text}"
    );
    assert!(
        text.contains(
            "| tcp-forward/process/virtio-net/tap / tcp-forward/kernel/veth | not told | 6 | 0.75 |"
        ),
        "{text}"
    );
}

#[test]
fn a_round_in_which_one_side_gave_no_result_has_no_pair_and_shifts_no_other() {
    let of = |name: &str, rate: u32, round: u32| {
        parse(&format!(
            "RESULT name={name} unit=mpps median={rate} min=1 max=999 n=5 c2c_ns=100 round={round}"
        ))
    };
    // The rates of a round differ from those of all others; the ratio is the same in each.
    let round = |round: u32| {
        let ours = (round != 2).then(|| of("forward/kvm/virtio-net/64", 30 << round, round)).flatten();
        let theirs = (round != 5).then(|| of("dpdk_router_l3fwd_lpm_plain_64", 10 << round, round)).flatten();
        [ours, theirs]
    };
    let samples: Vec<_> = (1..=8).flat_map(round).flatten().collect();
    let text = table(&samples);
    assert!(text.contains("| near | 6 | 3.00 | 3.00..3.00 | >= 2.5 | yes |"), "{text}");
}
