//! Modes of macvlans and macvtaps: how those of one interface reach each other.

use kernel_router::Mode;

use crate::{Attach, Key, Keywords, Takes};

/// Mode of a single one, which takes over the interface.
const PASSTHRU: &str = "passthru";

const WORDS: &[(&str, ())] = &[("bridge", ()), ("private", ()), ("vepa", ()), (PASSTHRU, ())];

/// Returns the key with this name that selects the mode; `noun` is the name of such a mode.
pub(crate) const fn key(name: &'static str, noun: &'static str, does: &'static str) -> Key {
    let modes = Keywords { noun: (noun, "modes"), now: WORDS, later: &[] };
    Key::new(name, Takes::Word(modes), ("bridge, private, vepa, passthru", "bridge"), does)
}

/// Returns the mode that the key with this name selects.
pub(crate) fn mode(attach: &Attach, key: &str) -> Mode {
    match attach.key(key) {
        Some("private") => Mode::Private,
        Some("vepa") => Mode::Vepa,
        Some(PASSTHRU) => Mode::Passthru,
        _ => Mode::Bridge,
    }
}

/// Says what an interface in this mode is on `interface` of the host.
pub(crate) fn shown(mode: Mode, interface: &str) -> String {
    match mode {
        Mode::Passthru => format!("takes {interface} over"),
        _ => "an interface beside the host's own, which cannot reach it".to_owned(),
    }
}
