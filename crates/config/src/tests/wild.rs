//! Whatever a file holds, parsing yields a plan or errors of one line each.

use proptest::prelude::*;

use crate::parse;

fn one_line_each(text: &str) {
    if let Err(errors) = parse(text, "f.toml") {
        assert!(!errors.is_empty());
        for line in errors.lines() {
            assert!(line.starts_with("f.toml") && !line.contains(['\n', '\r']), "{line:?}");
        }
    }
}

/// Pieces that lead deep into the parser.
fn piece() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "[[router]]\n",
        "[[router.nic]]\n",
        "[[router.route]]\n",
        "[[router.neighbour]]\n",
        "[[group]]\n",
        "[[group.nic]]\n",
        "kind = 'multistage'\n",
        "members = 3\n",
        "scale = { min = 2, max = 1 }\n",
        "spare = 4\n",
        "[switch.lan]\n",
        "name = 'a'\n",
        "attach = 'switch:lan'\n",
        "attach = 'null'\n",
        "address = '10.0.0.1/24'\n",
        "address = ['10.0.0.1/24', 7]\n",
        "to = '0.0.0.0/0'\n",
        "via = '10.0.0.2'\n",
        "nic = 'a'\n",
        "pin = { vcpu = '0' }\n",
        "mac = '02:00:00:00:00:01'\n",
        "ageing = 5\n",
        "role = 'hostile'\n",
        "misdeed = 'spin'\n",
        "vhost = 'per-queue'\n",
        "[telemetry]\n",
        "prometheus = 'unix:/x'\n",
        "\"a\\nb\" = 1\n",
        "switch = 4\n",
    ]);
    let number = (
        "(name|vcpus|memory|queues|misdeed|prometheus|mtu|ring|ageing|spin|to|via)",
        "[-+0-9a-fx_.:/\"']{0,12}",
    );
    prop_oneof![
        4 => words.prop_map(str::to_owned),
        1 => number.prop_map(|(key, value)| format!("{key} = {value}\n")),
    ]
}

proptest! {
    #[test]
    fn any_text(text in "\\PC{0,200}") {
        one_line_each(&text);
    }

    #[test]
    fn almost_a_file(pieces in prop::collection::vec(piece(), 0..30)) {
        one_line_each(&pieces.concat());
    }
}

#[test]
fn deep_nesting_ends() {
    one_line_each(&"[".repeat(100_000));
    one_line_each(&format!("a = {}", "[".repeat(100_000)));
    one_line_each(&format!("{} = 1", ["a"; 10_000].join(".")));
}
