use host::State;
use support::schema::check_lines;

use super::{Finding, lines, table};

#[test]
fn columns_line_up() {
    let findings = [
        Finding::new(State::Ok, "a", "1", "one"),
        Finding::new(State::Note, "long", "50 µs", "two"),
        Finding::new(State::No, "b", "", "three"),
    ];
    assert_eq!(
        table(&findings),
        "ok    a     1      one\nnote  long  50 µs  two\nno    b            three\n"
    );
}

#[test]
fn an_object_for_each_finding() {
    let findings = [
        Finding::new(State::Ok, "a", "1", "one\ntwo"),
        Finding::new(State::Note, "b", "50 µs", "\"quoted\""),
        Finding::new(State::No, "c", "", ""),
    ];
    let text = lines(&findings).expect("JSON");
    assert_eq!(text.lines().count(), findings.len());
    check_lines("doctor", &text);
    let state = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["state"].clone();
    assert_eq!(text.lines().map(state).collect::<Vec<_>>(), ["ok", "note", "no"]);
}
