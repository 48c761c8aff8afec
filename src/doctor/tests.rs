use super::{Finding, State, table};

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
