use std::thread;

use super::*;

/// A limiter for two NICs and the loaded program of NIC 1, if this user may load programs.
fn limited(words: [u64; 3]) -> Option<(Limiter, OwnedFd)> {
    let limiter = crate::granted(Limiter::new(2))?;
    limiter.fill(words).expect("the same right");
    let maps = Maps { bucket: limiter.bucket.as_fd(), counters: limiter.counters.as_fd() };
    let program =
        bpf::load(Purpose::TrafficControl, &program::assemble(1, &maps)).expect("the kernel takes it");
    Some((limiter, program))
}

/// Runs the program on `packets` packets. Returns the number of admitted ones.
fn offer(program: &OwnedFd, packets: u64) -> u64 {
    let answer = |_| bpf::run(program.as_fd(), &[0; 60]).expect("it runs").cast_signed();
    let answers: Vec<i32> = (0..packets).map(answer).collect();
    assert!(answers.iter().all(|answer| [program::NEXT, program::DROP].contains(answer)), "{answers:?}");
    answers.iter().filter(|answer| **answer == program::NEXT).count() as u64
}

/// An interval longer than any test.
const AGES: u64 = 1000 * SECOND;

#[test]
fn a_bucket_holds_its_time_and_at_least_32_packets() {
    assert_eq!(bucket(SECOND), [SECOND, 32 * SECOND, 0]);
    assert_eq!(bucket(SECOND / 1_000_000), [64_000, DEPTH, 0]);
    assert_eq!(bucket(0), [1, DEPTH, 0]);
    assert_eq!(bucket(u64::MAX)[1], u64::MAX);
}

#[test]
fn without_a_limit_all_come_in_and_nothing_is_counted() {
    let Some((limiter, program)) = limited([0; 3]) else { return };
    assert_eq!(offer(&program, 100), 100);
    assert_eq!(limiter.counted(1).expect("it has two"), LimitCounters::default());
    assert_eq!(limiter.get().expect("it is told"), None);
}

#[test]
fn what_the_bucket_holds_comes_in_and_the_rest_is_counted() {
    let Some((limiter, program)) = limited(bucket(AGES)) else { return };
    assert_eq!(offer(&program, 100), MIN_BURST);
    let counted = limiter.counted(1).expect("it has two");
    assert_eq!(counted, LimitCounters { in_frames: 100, passed: MIN_BURST, drop_limit: 100 - MIN_BURST });
    assert_eq!(limiter.counted(0).expect("it has two"), LimitCounters::default());
    assert!(limiter.counted(2).is_err(), "it has no third");
    limiter.set(None).expect("the same right");
    assert_eq!(offer(&program, 100), 100);
}

#[test]
fn the_next_nic_of_a_number_begins_with_nothing() {
    let Some((mut limiter, program)) = limited(bucket(AGES)) else { return };
    offer(&program, 40);
    limiter.detach(1);
    assert_eq!(limiter.counted(1).expect("it has two").in_frames, 40);
    limiter.forget(1).expect("it has two");
    assert_eq!(limiter.counted(1).expect("it has two"), LimitCounters::default());
    assert!(limiter.forget(2).is_err(), "it has no third");
}

#[test]
fn a_limit_that_is_set_anew_begins_with_a_full_bucket() {
    let Some((limiter, program)) = limited(bucket(AGES)) else { return };
    assert_eq!(offer(&program, 40), MIN_BURST);
    limiter.fill(bucket(2 * AGES)).expect("the same right");
    assert_eq!(offer(&program, 40), MIN_BURST);
    for pps in [1, 1000, 3_000_000, MOST] {
        limiter.set(Some(pps)).expect("the same right");
        let told = limiter.get().expect("it is told").expect("there is one");
        assert!(told.abs_diff(pps) <= pps / 1000, "{told} for {pps}");
    }
}

/// A due time in the past counts like the present: an idle NIC accumulates no more than its bucket.
#[test]
fn idle_time_is_not_saved() {
    let [interval, depth, _] = bucket(AGES);
    let Some((_limiter, program)) = limited([interval, depth, 1]) else { return };
    assert_eq!(offer(&program, 100), MIN_BURST);
}

#[test]
fn those_that_are_due_later_are_lost() {
    let [interval, depth, _] = bucket(AGES);
    let Some((_limiter, program)) = limited([interval, depth, u64::MAX]) else { return };
    assert_eq!(offer(&program, 100), 0);
}

/// Several CPUs update the word without a lock, and together admit no more than the bucket holds.
#[test]
fn several_senders_share_one_bucket() {
    let packets = 1000 * MIN_BURST;
    let Some((limiter, program)) = limited(bucket(AGES)) else { return };
    let passed: u64 = thread::scope(|scope| {
        let senders: Vec<_> = (0..4).map(|_| scope.spawn(|| offer(&program, packets))).collect();
        senders.into_iter().map(|sender| sender.join().expect("it ends")).sum()
    });
    assert_eq!(passed, MIN_BURST);
    let counted = limiter.counted(1).expect("it has two");
    assert_eq!((counted.in_frames, counted.passed), (4 * packets, MIN_BURST));
}

#[test]
fn a_nic_that_is_none_is_refused() {
    let Some((mut limiter, _program)) = limited([0; 3]) else { return };
    assert_eq!(
        limiter.attach(2, 1).expect_err("it has two").to_string(),
        "there is no NIC 2: this router has 2, counted from 0"
    );
    assert!(matches!(limiter.attach(0, u32::MAX), Err(Error::NoInterface { .. })));
}
