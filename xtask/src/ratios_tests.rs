use super::{interval, table};
use crate::results::parse;

#[test]
fn the_interval_is_that_of_the_sign_test() {
    // n = 10: the 2nd and the 9th value (97.9 %).
    let (low, median, high) = interval((1..=10).map(f64::from).collect()).unwrap();
    assert_eq!((low, median, high), (2.0, 5.5, 9.0));
    // n = 6: the smallest and the largest (96.9 %).
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
    assert!(text.contains("| 6 | 6 | 3.04 | 2.86..3.21 | 2.5 | yes |"), "{text}");
    assert!(!text.contains("ovs"));
}
