//! Arbitrary text in place of configurations, answers of vtysh, lists of users and lines of logs. Finds panics and texts without bound.

use frr::{Content, Owner, Protocol, ask, log};

/// Runs one input: an octet that says what it is, and the text.
pub(crate) fn run(input: &[u8]) {
    let Some((what, text)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    match what % 4 {
        0 => {
            if let Err(fault) = Content::read(&text) {
                assert!(fault.line <= text.lines().count() && fault.to_string().len() < 600);
            }
        }
        1 => {
            for protocol in Protocol::ALL {
                let _ = ask::read(protocol, &text);
            }
        }
        2 => text.lines().for_each(|line| {
            let _ = log::read(line);
        }),
        _ => {
            let _ = Owner::find(&text);
        }
    }
}
