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

#[test]
fn a_probe_that_was_sent_before_it_counts_tells_nothing_and_the_time_runs_from_the_beginning() {
    let ms = Duration::from_millis;
    let mut passed = Passed::new(2);
    passed.begin(ms(100));
    passed.count_from(ms(103));
    // Those that a dying member still forwards.
    passed.note(0, (ms(101), ms(102)));
    passed.note(1, (ms(102), ms(104)));
    assert_eq!((passed.all_after(), &passed.arrived[..]), (None, &[None, None][..]));
    passed.note(0, (ms(103), ms(104)));
    assert_eq!(passed.all_after(), None);
    passed.note(1, (ms(140), ms(142)));
    // The first arrival of a flow is the one that counts, and there are no further flows.
    passed.note(1, (ms(141), ms(150)));
    passed.note(2, (ms(141), ms(150)));
    assert_eq!(passed.all_after(), Some(ms(42)));
    passed.begin(ms(200));
    assert_eq!(passed.all_after(), None);
    passed.note(0, (ms(200), ms(201)));
    passed.note(1, (ms(201), ms(202)));
    assert_eq!(passed.all_after(), Some(ms(2)));
}
