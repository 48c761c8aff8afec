use proptest::prelude::*;

use super::*;
use crate::line::{encode_request, parse_answer};
use crate::{Answer, VERSION};

const PS: &[u8] = b"{\"version\":1,\"request\":{\"ps\":{}}}\n";

fn start() -> (Conversation, Instant) {
    let now = Instant::now();
    (Conversation::new(Limits::default(), now), now)
}

fn done(message: &str) -> Outcome {
    Ok(Answer::Done { message: message.to_owned() })
}

fn said(talk: &Conversation) -> Vec<Outcome> {
    let lines = talk.unsent().split(|octet| *octet == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| parse_answer(line).expect("an answer")).collect()
}

fn error_said(talk: &Conversation) -> String {
    match said(talk).as_slice() {
        [Err(error)] => error.message.clone(),
        other => panic!("not one error: {other:?}"),
    }
}

#[test]
fn a_request_is_answered_and_then_the_next_one_is_heard() {
    let (mut talk, now) = start();
    talk.receive(PS, now);
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    assert!(!talk.listens(), "it is to be answered first");
    assert_eq!(talk.hear(now), Input::Nothing);
    assert!(!talk.is_due());
    talk.answer(&done("first"), false, now);
    assert!(talk.is_due(), "the second request waits");
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    talk.answer(&done("second"), false, now);
    assert_eq!(said(&talk), [done("first"), done("second")]);
    let len = talk.unsent().len();
    talk.sent(len, now);
    assert_eq!((talk.unsent(), talk.kept()), (&[][..], 0));
    assert_eq!((talk.hear(now), talk.end(now)), (Input::Nothing, None));
}

#[test]
fn several_answers_to_one_request() {
    let (mut talk, now) = start();
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    talk.answer(&done("part"), true, now);
    assert!(talk.is_asked());
    talk.answer(&done("last"), false, now);
    assert!(!talk.is_asked());
    talk.answer(&done("nobody asked"), false, now);
    assert_eq!(said(&talk), [done("part"), done("last")]);
}

#[test]
fn empty_lines_and_carriage_returns_are_passed_over() {
    let (mut talk, now) = start();
    talk.receive(b"\r\n\n\n{\"version\":1,\"request\":{\"ps\":{}}}\r\n\n", now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    talk.answer(&done(""), false, now);
    assert_eq!(talk.hear(now), Input::Nothing);
    assert_eq!(said(&talk).len(), 1);
}

#[test]
fn garbage_is_answered_once_and_left() {
    let (mut talk, now) = start();
    talk.receive(b"GET / HTTP/1.1\r\nHost: here\r\n", now);
    assert_eq!(talk.hear(now), Input::Garbage);
    assert!(!talk.listens());
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Nothing);
    assert!(error_said(&talk).starts_with("not a message of version 1:"), "{}", error_said(&talk));
    assert_eq!(talk.end(now), None, "the answer is still to be sent");
    let len = talk.unsent().len();
    talk.sent(len, now);
    assert_eq!(talk.end(now), Some(DisconnectReason::Done));
}

#[test]
fn what_is_wrong_is_said_with_what_would_be_right() {
    for (line, wanted) in [
        (
            "{\"version\":2,\"request\":{\"ps\":{}}}",
            "version 2 of the control protocol is not spoken here: send \"version\":1",
        ),
        ("{\"request\":{\"ps\":{}}}", "the message does not say its version: send \"version\":1"),
        (
            "{\"version\":1,\"request\":{\"pss\":{}}}",
            "unknown variant `pss`, expected one of `ps`, `counters`, `show`",
        ),
        ("{\"version\":1,\"request\":{\"ps\":{\"all\":true}}}", "unknown field `all`"),
        (
            "{\"version\":1,\"request\":{\"show\":{\"router\":\"a\",\"b\":1}}}",
            "unknown field `b`, expected `router`",
        ),
        ("{\"version\":1,\"request\":{\"ps\":{}},\"id\":4}", "unknown field `id`"),
        ("{\"version\":1}", "missing field `request`"),
        ("{\"version\":1,\"request\":{\"set\":{\"router\":\"a\",\"key\":\"b\"}}}", "missing field `value`"),
        ("{\"version\":-1}", "not a message of version 1"),
        ("[]", "not a message of version 1"),
        ("\u{0}\u{1}", "not a message of version 1"),
    ] {
        let (mut talk, now) = start();
        talk.receive(format!("{line}\n").as_bytes(), now);
        assert_eq!(talk.hear(now), Input::Garbage, "{line}");
        assert!(error_said(&talk).contains(wanted), "{line}: {}", error_said(&talk));
        assert!(!error_said(&talk).contains('\n'));
    }
    assert_eq!(VERSION, 1, "the lines above");
}

#[test]
fn nesting_without_end_is_garbage() {
    for open in ["[", "{\"a\":", "{\"version\":1,\"request\":["] {
        let (mut talk, now) = start();
        talk.receive((open.repeat(5000) + "\n").as_bytes(), now);
        assert_eq!(talk.hear(now), Input::Garbage);
    }
}

#[test]
fn only_a_file_may_be_long() {
    let long = "x".repeat(LONGEST_REQUEST);
    let show = encode_request(&Request::Show { router: long.clone() }).expect("JSON");
    let (mut talk, now) = start();
    talk.receive(&show, now);
    assert_eq!(talk.hear(now), Input::Garbage);
    assert_eq!(error_said(&talk), "the request is too long: at most 65536 octets fit into its line");

    let apply = Request::Apply { file: "a.toml".to_owned(), text: long, dry_run: false };
    let (mut talk, now) = start();
    for octets in encode_request(&apply).expect("JSON").chunks(4096) {
        assert_eq!(talk.hear(now), Input::Nothing);
        talk.receive(octets, now);
    }
    assert_eq!(talk.hear(now), Input::Request(apply));
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    for (start_of_line, most) in
        [("", LONGEST_REQUEST), ("{\"version\":1,\"request\":{ \"apply\" : {", LONGEST_APPLY)]
    {
        let (mut talk, now) = start();
        talk.receive(start_of_line.as_bytes(), now);
        let mut heard = Input::Nothing;
        let mut octets = start_of_line.len();
        while heard == Input::Nothing {
            talk.receive(&[b' '; 1000], now);
            octets += 1000;
            heard = talk.hear(now);
        }
        assert_eq!(heard, Input::Garbage);
        assert!(octets > most && octets <= most + 1000, "{octets}");
        assert!(talk.kept() < 200, "{}", talk.kept());
    }
}

#[test]
fn a_client_that_asks_and_closes_its_side_gets_its_answer() {
    let (mut talk, now) = start();
    talk.receive(PS, now);
    talk.end_input();
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    assert_eq!(talk.end(now), None);
    talk.answer(&done("here"), false, now);
    assert_eq!((talk.end(now), talk.is_due()), (None, true));
    let len = talk.unsent().len();
    talk.sent(len, now);
    assert_eq!(talk.end(now), Some(DisconnectReason::Done));
}

#[test]
fn a_last_line_without_newline_is_not_taken_for_a_request() {
    let (mut talk, now) = start();
    talk.receive(&PS[..PS.len() - 1], now);
    assert_eq!(talk.hear(now), Input::Nothing);
    talk.end_input();
    assert_eq!(talk.hear(now), Input::Garbage);
    assert_eq!(error_said(&talk), "the last line has no end: each request ends with a newline");
}

#[test]
fn half_a_line_has_a_time_limit_that_more_octets_do_not_lengthen() {
    let (mut talk, now) = start();
    let limits = Limits::default();
    for second in 0..10 {
        let now = now + Duration::from_secs(second);
        talk.receive(b"{", now);
        assert_eq!((talk.hear(now), talk.end(now)), (Input::Nothing, None), "after {second} s");
    }
    assert_eq!(talk.end(now + limits.line), Some(DisconnectReason::HalfLine));
}

#[test]
fn a_silent_client_is_left_but_not_while_it_waits_for_its_answer() {
    let (mut talk, now) = start();
    let limits = Limits::default();
    assert_eq!(talk.end(now + limits.idle - Duration::from_millis(1)), None);
    assert_eq!(talk.end(now + limits.idle), Some(DisconnectReason::Idle));
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    let late = now + 10 * limits.idle;
    assert_eq!(talk.end(late), None);
    talk.answer(&done(""), false, late);
    let len = talk.unsent().len();
    talk.sent(len, late);
    assert_eq!(talk.end(late + limits.idle / 2), None, "its time begins anew");
}

#[test]
fn who_does_not_read_is_left() {
    let (mut talk, now) = start();
    let limits = Limits::default();
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    talk.answer(&done("unread"), true, now);
    assert_eq!(talk.end(now + limits.stall / 2), None);
    assert_eq!(talk.end(now + limits.stall), Some(DisconnectReason::SlowReader));
    talk.sent(1, now + limits.stall / 2);
    assert_eq!(talk.end(now + limits.stall), None, "it took something meanwhile");
}

#[test]
fn answers_that_nobody_reads_have_a_bound() {
    let now = Instant::now();
    let limits = Limits { output: 1000, ..Limits::default() };
    let mut talk = Conversation::new(limits, now);
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    let part = done(&"x".repeat(100));
    while talk.end(now).is_none() {
        talk.answer(&part, true, now);
        assert!(talk.kept() <= limits.output);
    }
    assert_eq!((talk.end(now), talk.is_due()), (Some(DisconnectReason::SlowReader), true));
}

#[test]
fn an_answer_that_is_too_long_becomes_an_error() {
    let now = Instant::now();
    let mut talk = Conversation::new(Limits { output: 1000, ..Limits::default() }, now);
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    talk.answer(&done(&"x".repeat(1000)), false, now);
    assert_eq!(talk.end(now), None);
    assert!(error_said(&talk).contains("too long: ask for less"), "{}", error_said(&talk));
}

#[test]
fn a_broken_connection_ends_the_talk() {
    let (mut talk, now) = start();
    talk.receive(PS, now);
    assert_eq!(talk.hear(now), Input::Request(Request::Ps {}));
    talk.answer(&done(""), true, now);
    talk.connection_broken();
    assert_eq!((talk.end(now), talk.is_due(), talk.is_asked()), (Some(DisconnectReason::Broken), true, true));
}

/// Input of a client: requests, perhaps followed by something else.
#[derive(Clone, Debug)]
struct Sent {
    requests: Vec<Request>,
    /// Positions at which the octets are split.
    cuts: Vec<prop::sample::Index>,
    tail: Vec<u8>,
}

fn request() -> impl Strategy<Value = Request> {
    let name = "[a-z\"\\\\\n]{0,12}";
    prop_oneof![
        Just(Request::Ps {}),
        name.prop_map(|router| Request::Show { router }),
        proptest::option::of(name).prop_map(|router| Request::Counters { router }),
        (name, name, ".{0,20}").prop_map(|(router, key, value)| Request::Set { router, key, value }),
        proptest::option::of(any::<u64>()).prop_map(|since| Request::Events { since }),
        (name, proptest::option::of(any::<u64>()))
            .prop_map(|(member, known)| Request::Remote { member, known }),
        (name, "(?s).{0,300}", any::<bool>()).prop_map(|(file, text, dry_run)| Request::Apply {
            file,
            text,
            dry_run
        }),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    let cuts = proptest::collection::vec(any::<prop::sample::Index>(), 0..20);
    let tail = proptest::collection::vec(any::<u8>(), 0..40);
    (proptest::collection::vec(request(), 0..8), cuts, tail).prop_map(|(requests, cuts, tail)| Sent {
        requests,
        cuts,
        tail,
    })
}

proptest! {
    #[test]
    fn requests_are_heard_in_order_however_they_are_cut(sent in sent()) {
        let (mut talk, now) = start();
        let mut octets: Vec<u8> = Vec::new();
        for request in &sent.requests {
            octets.extend(encode_request(request).expect("JSON"));
        }
        octets.extend(&sent.tail);
        let mut cuts: Vec<_> = sent.cuts.iter().map(|cut| cut.index(octets.len() + 1)).collect();
        cuts.extend([0, octets.len()]);
        cuts.sort_unstable();
        let mut heard = Vec::new();
        for pair in cuts.windows(2) {
            talk.receive(&octets[pair[0]..pair[1]], now);
            while let Input::Request(request) = talk.hear(now) {
                talk.answer(&Ok(Answer::Done { message: String::new() }), false, now);
                heard.push(request);
            }
        }
        prop_assert_eq!(&heard[..sent.requests.len()], &sent.requests[..]);
    }

    #[test]
    fn nothing_that_is_received_panics_or_piles_up(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 0..60),
    ) {
        let (mut talk, now) = start();
        let mut garbage = 0;
        for piece in &pieces {
            if talk.listens() {
                talk.receive(piece, now);
            }
            garbage += usize::from(talk.hear(now) == Input::Garbage);
            prop_assert!(talk.kept() <= LONGEST_APPLY + 2000);
        }
        prop_assert!(garbage <= 1);
    }
}
