use super::*;

#[test]
fn a_nic_whom_the_frames_are_for_and_a_rate() {
    let of = |rate| Aim { router: "edge".to_owned(), nic: "in".to_owned(), to: [10, 0, 0, 9].into(), rate };
    assert_eq!(aim("edge.in=10.0.0.9"), Ok(of(None)));
    assert_eq!(aim("edge.in=10.0.0.9@130k"), Ok(of(Some(130e3))));
    for wrong in ["edge=10.0.0.9", "edge.in", "edge.in=10.0.0", "edge.in=10.0.0.9@", "edge.in=10.0.0.9@-1"] {
        assert!(aim(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_was_sent_is_a_line() {
    let told = line(&aim("edge.in=10.0.0.9").unwrap(), Sent { offered: 3000, taken: 2000 }, 2.0);
    assert_eq!(told, "edge.in: 3000 frames offered, 2000 taken by its TAP, 1.0 kpps\n");
}
