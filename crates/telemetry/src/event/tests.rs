use super::*;

fn event() -> Event {
    Event {
        unix_ms: Moment(1_795_244_670_123),
        ..Event::of_router("lab", "edge", Kind::Charged, "kicks without progress: 1000000 in 1 s")
    }
}

#[test]
fn an_event_is_one_line_of_text() {
    let text = "2026-11-21T07:04:30.123Z lab/edge: charged: kicks without progress: 1000000 in 1 s";
    assert_eq!(event().to_string(), text);
    let run = Event { unix_ms: Moment(0), ..Event::of_run("lab", Kind::DataPlaneDied, "") };
    assert_eq!(run.to_string(), "1970-01-01T00:00:00.000Z lab: data plane died");
}

#[test]
fn an_event_is_one_line_of_json_that_can_be_read_back() {
    let json = event().json();
    assert!(!json.contains('\n'));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["time"], "2026-11-21T07:04:30.123Z");
    assert_eq!(value["unix_ms"], 1_795_244_670_123u64);
    assert_eq!(value["kind"], "charged");
    assert_eq!(value["router"], "edge");
    let back: Event = serde_json::from_str(&serde_json::to_string(&event()).unwrap()).unwrap();
    assert_eq!(back, event());
}

#[test]
fn every_kind_has_the_name_that_json_shows() {
    for kind in Kind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}

#[test]
fn what_a_guest_says_cannot_make_a_second_line_or_move_the_cursor() {
    let spoken = Event::of_run("lab", Kind::Failed, "one\ntwo\r\x1b[2Jthree\u{85}four");
    assert_eq!(spoken.message, "one two  [2Jthree four");
    let foreign =
        Event { run: "a\nb".into(), router: Some("c\0d".into()), message: "\u{9b}31m".into(), ..event() };
    assert!(!foreign.cleaned().to_string().chars().any(char::is_control));
}

#[test]
fn a_message_has_a_greatest_length() {
    // Two octets per character, so that the cut falls into one.
    let long = Event::of_run("lab", Kind::Failed, format!("x{}", "ä".repeat(4000)));
    assert!(long.message.len() <= LONGEST_MESSAGE + '…'.len_utf8());
    assert!(long.message.ends_with("ä…"));
}

#[test]
fn what_is_not_an_event_is_refused() {
    for text in ["{}", "[]", r#"{"unix_ms":1,"run":"a","kind":"born","message":""}"#] {
        assert!(serde_json::from_str::<Event>(text).is_err(), "{text}");
    }
}
