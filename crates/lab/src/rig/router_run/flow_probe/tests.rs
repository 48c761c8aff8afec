use super::*;

#[test]
fn a_probe_carries_its_flow_and_the_time_at_which_it_was_sent() {
    let mut octets = written([2, 0, 0, 0, 1, 0], 513).unwrap();
    octets[tag::FLOW..tag::FLOW + TIME].copy_from_slice(&1_500_000_u64.to_be_bytes());
    assert_eq!(taken(&octets[tag::FLOW..]), Some((Duration::from_micros(1500), 513)));
    assert_eq!((taken(&octets[..9]), taken(&[])), (None, None));
    let other = written([2, 0, 0, 0, 1, 0], 514).unwrap();
    assert_ne!(octets[tag::UDP..tag::UDP + 2], other[tag::UDP..tag::UDP + 2], "flows differ in their ports");
}

#[test]
fn all_flows_pass_when_the_last_one_does() {
    let at = |ms| Some(Duration::from_millis(ms));
    assert_eq!(last(&[at(7), at(41), at(9)]), at(41));
    assert_eq!(last(&[at(7), None, at(9)]), None);
}
