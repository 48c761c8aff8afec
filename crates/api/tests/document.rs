//! All examples in `docs/control.md` are valid messages, and there is one for each kind.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

/// Lines of the document's JSON blocks.
fn examples() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control.md");
    let text = std::fs::read_to_string(&path).expect("docs/control.md");
    let blocks = text.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.flat_map(str::lines).map(str::to_owned).collect()
}

/// Name of the only field of an object.
fn kind(message: &Value) -> String {
    let object = message.as_object().expect("an object");
    assert_eq!(object.len(), 1, "{message}");
    object.keys().next().expect("one").clone()
}

/// All known kinds, as listed in the parser's error about an unknown one.
fn kinds(error: &str) -> BTreeSet<String> {
    let list = error.split("expected one of ").nth(1).unwrap_or_else(|| panic!("no list in {error:?}"));
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn each_example_is_the_message_that_it_shows() {
    let examples = examples();
    assert!(examples.len() > 20, "{}", examples.len());
    for line in &examples {
        let shown: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let again = if shown.get("request").is_some() {
            let request = api::parse_request(line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}"));
            api::encode_request(&request)
        } else {
            let outcome = api::parse_answer(line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}"));
            api::encode_answer(&outcome)
        };
        let again: Value = serde_json::from_slice(&again.expect("JSON")).expect("JSON");
        assert_eq!(again, shown);
    }
}

#[test]
fn each_kind_has_an_example() {
    let mut shown = BTreeSet::new();
    let mut fates = BTreeSet::new();
    for line in examples() {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        for side in ["request", "answer"] {
            shown.extend(message.get(side).map(|message| (side, kind(message))));
        }
        fates.extend(message.pointer("/answer/packet/fate").map(kind));
    }
    let unknown = json!({ "version": api::VERSION, "request": { "?": {} } }).to_string();
    let requests = kinds(&api::parse_request(unknown.as_bytes()).expect_err("no such request").message);
    let unknown = json!({ "version": api::VERSION, "answer": { "?": {} } }).to_string();
    let answers = kinds(&api::parse_answer(unknown.as_bytes()).expect_err("no such answer").message);
    assert!(requests.len() >= 10 && answers.len() >= 7);
    let requests = requests.into_iter().map(|kind| ("request", kind));
    let all: BTreeSet<_> = requests.chain(answers.into_iter().map(|kind| ("answer", kind))).collect();
    assert_eq!(shown, all);
    let wanted = ["answered", "dropped", "kept", "left", "not_placed", "not_seen"].map(str::to_owned);
    assert_eq!(fates, wanted.into());
}

#[test]
fn the_bounds_are_those_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control.md");
    let text = std::fs::read_to_string(&path).expect("docs/control.md");
    let limits = api::Limits::default();
    let seconds = [limits.line, limits.idle, limits.stall].map(|time| format!("{} s", time.as_secs()));
    let octets = [api::LONGEST_REQUEST, api::LONGEST_APPLY, api::LONGEST_ANSWER, limits.output];
    let octets = octets.map(|octets| octets.to_string());
    let clients = format!("At most {} clients", limits.clients);
    for bound in seconds.iter().chain(&octets).chain([&clients]) {
        assert!(text.contains(bound.as_str()), "{bound} is not in the document");
    }
}
