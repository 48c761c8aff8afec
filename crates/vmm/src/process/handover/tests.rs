use super::super::forker::socket_pair;
use super::*;

fn say(socket: &OwnedFd, octets: &[u8]) {
    assert_eq!(rustix::net::send(socket, octets, SendFlags::empty()), Ok(octets.len()));
}

fn heard(octets: &[u8]) -> Result<()> {
    let (ours, theirs) = socket_pair().expect("a socket pair");
    say(&theirs, octets);
    receive(&ours).and_then(judge)
}

fn report(step: u32, error: i32) -> [u8; 8] {
    let (step, error) = (step.to_ne_bytes(), error.to_ne_bytes());
    std::array::from_fn(|n| if n < 4 { step[n] } else { error[n - 4] })
}

#[test]
fn a_process_that_is_ready_says_so() {
    assert!(heard(&report(Step::Ready as u32, 0)).is_ok());
}

#[test]
fn what_fails_is_told_in_one_line_with_the_reason() {
    for step in &Step::ALL[1..] {
        let line = heard(&report(*step as u32, libc::EPERM)).expect_err("a failure").to_string();
        assert!(line.starts_with("the process ") && line.ends_with("(os error 1))"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    let line = heard(&report(Step::Orders as u32, 0)).expect_err("a failure").to_string();
    assert_eq!(line, "the process does not understand its orders");
}

#[test]
fn what_is_no_report_is_refused() {
    for octets in [&[0; 1][..], &[0; 7], &[0; 9], &[0; 4096]] {
        assert!(heard(octets).is_err(), "{} octets", octets.len());
    }
    assert!(heard(&report(Step::ALL.len() as u32, 0)).is_err());
    assert!(heard(&report(u32::MAX, i32::MIN)).is_err());
}

#[test]
fn a_process_that_goes_is_told_from_one_that_says_nothing() {
    let (ours, theirs) = socket_pair().expect("a socket pair");
    let silent = receive(&ours).expect_err("nothing was said");
    assert_eq!(silent.to_string(), "the process answers with something that is no report");
    drop(theirs);
    let gone = receive(&ours).expect_err("it is gone");
    assert_eq!(gone.to_string(), "the process ended before it was confined");
}

#[test]
fn names_leave_room_for_the_vcpu_and_break_no_letter() {
    let text = |name| {
        let short = short(name);
        let end = short.iter().position(|octet| *octet == 0).expect("a zero at its end");
        String::from_utf8(short[..end].to_vec()).expect("whole letters")
    };
    assert_eq!(text("edge"), "edge");
    assert_eq!(text("exactly8"), "exactly8");
    assert_eq!(text("longer-than-that"), "longer-t");
    assert_eq!(text("München-Süd"), "München");
    assert_eq!(text("sieben7ü"), "sieben7");
    assert_eq!(text(""), "");
}

#[test]
fn a_vcpu_without_a_place_runs_anywhere() {
    let places = places(&[3, 5]);
    assert_eq!(places[..3], [3, 5, ANYWHERE]);
    assert!(places[3..].iter().all(|place| *place == ANYWHERE));
}

#[test]
fn more_descriptors_than_a_message_takes_are_refused_not_cut_off() {
    let (ours, _theirs) = socket_pair().expect("a socket pair");
    let many = vec![ours.as_fd(); fd_passing::MOST + 1];
    assert!(send(&ours, &[0u64], &many).is_err());
}
