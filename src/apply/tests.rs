use api::Change;
use support::schema::check_lines;

use super::*;

#[test]
fn an_object_for_each_change() {
    let change = |hitless, why: Option<&str>| Change {
        what: "router edge: limit removed".to_owned(),
        hitless,
        why: why.map(str::to_owned),
    };
    let text = lines(&[change(true, None), change(false, Some("it starts anew"))]).expect("JSON");
    assert_eq!(text.lines().count(), 2);
    check_lines("apply", &text);
    assert_eq!(lines(&[]).expect("JSON"), "");
}
