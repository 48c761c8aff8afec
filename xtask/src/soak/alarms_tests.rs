use super::*;

#[test]
fn each_suspicion_is_a_fault_and_so_is_a_member_that_was_ended() {
    let quiet = Counted { suspected: 0, rounds: 1000, excused: 200 };
    assert_eq!(faults(quiet, &[]), [""; 0]);
    let told = faults(Counted { suspected: 2, ..quiet }, &["file/duo_1: charged: it forwards no probe"]);
    assert_eq!(told.len(), 2);
    assert!(told[0].contains("duo_1") && told[1].starts_with("2 times"), "{told:?}");
}

#[test]
fn a_member_that_is_ended_is_told_by_the_kind_of_the_event() {
    assert!(tells_of_an_end("2026-11-21T07:04:30.123Z file/duo_1: charged: it forwards no probe"));
    assert!(tells_of_an_end(
        "2026-11-21T07:04:30.123Z file/duo_1: failed: its process (pid 7) was killed for it"
    ));
    assert!(!tells_of_an_end("2026-11-21T07:04:30.123Z file/duo: notice: 2 members instead of 1"));
}

#[test]
fn a_group_that_is_never_judged_shows_nothing() {
    let excused = Counted { suspected: 0, rounds: 7, excused: 7 };
    assert_eq!(faults(excused, &[]).len(), 1);
    assert_eq!(faults(Counted::default(), &[]).len(), 1);
}

#[test]
fn only_what_was_counted_meanwhile_counts() {
    let before = Counted { suspected: 1, rounds: 100, excused: 9 };
    let after = Counted { suspected: 1, rounds: 700, excused: 10 };
    assert_eq!(after.since(before), Counted { suspected: 0, rounds: 600, excused: 1 });
}
