//! `attach` of a NIC, and the keys that belong to one kind of attachment.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::plan::{Attach, MacvtapMode, Plan, Replay, ReplayPace, SocketSide};
use crate::read::valued;
use crate::section::{At, Section, Words};
use crate::values;

/// The kinds of attachments, each with what stands behind its colon.
pub(crate) const KINDS: [(&str, Option<&str>); 10] = [
    ("switch", Some("NAME")),
    ("tap", Some("INTERFACE")),
    ("bridge", Some("INTERFACE")),
    ("ovs", Some("BRIDGE")),
    ("macvtap", Some("INTERFACE")),
    ("xdp", Some("INTERFACE")),
    ("pcap", Some("FILE")),
    ("vhost-user-backend", Some("SOCKET")),
    ("vhost-user-frontend", Some("SOCKET")),
    ("null", None),
];
const LATER: &[&str] = &["vf"];
/// Octets of memory that a virtual machine of another program may be allowed to share, and what it may where the file does not say:
/// more than most have, and so little that two thousand of them fit into our address space of 128 TiB.
const MEMORY_MAX: RangeInclusive<u64> = 2 << 20..=4 << 40;
const DEFAULT_MEMORY_MAX: u64 = 64 << 30;
/// Octets of the path of a socket, unix(7).
const LONGEST_SOCKET: usize = 107;

const MODES: Words<MacvtapMode> = Words {
    noun: ("macvtap mode", "modes"),
    now: &[
        (MacvtapMode::Bridge.name(), MacvtapMode::Bridge),
        (MacvtapMode::Private.name(), MacvtapMode::Private),
        (MacvtapMode::Vepa.name(), MacvtapMode::Vepa),
        (MacvtapMode::Passthru.name(), MacvtapMode::Passthru),
    ],
    later: &[],
};

const PACES: Words<ReplayPace> = Words {
    noun: ("pace", "paces"),
    now: &[(ReplayPace::Fast.name(), ReplayPace::Fast), (ReplayPace::Recorded.name(), ReplayPace::Recorded)],
    later: &[],
};

const SIDES: Words<SocketSide> = Words {
    noun: ("side of a socket", "sides"),
    now: &[
        (SocketSide::Listen.name(), SocketSide::Listen),
        (SocketSide::Connect.name(), SocketSide::Connect),
    ],
    later: &[],
};

/// Reads what a NIC is plugged into.
pub(crate) fn read(section: &Section<'_>, plan: &Plan) -> Option<Attach> {
    let At { value, line } = section.required_text("attach", "\"tap:tap0\"")?;
    let attach = parse(value, plan).map_err(|what| section.fault(line, "attach", what)).ok()?;
    only_for(section, "macvtap_mode", "macvtap:INTERFACE", matches!(attach, Attach::Macvtap { .. }));
    only_for(section, "replay", "pcap:FILE", matches!(attach, Attach::Pcap { .. }));
    if section.has("replay_pace") && !section.has("replay") {
        let what = "it says how fast a file is replayed; add replay = \"FILE\", or remove it";
        section.fault(section.line_of("replay_pace"), "replay_pace", what);
    }
    let vhost_user = matches!(attach, Attach::VhostUserBackend { .. } | Attach::VhostUserFrontend { .. });
    only_for(section, "socket", "vhost-user-backend:SOCKET", vhost_user);
    let shares = matches!(attach, Attach::VhostUserBackend { .. });
    only_for(section, "memory_max", "vhost-user-backend:SOCKET", shares);
    Some(with_keys(section, attach))
}

/// How much memory a machine that is plugged in may share.
pub(crate) fn memory_max(section: &Section<'_>) -> u64 {
    valued(section, "memory_max", "\"64G\"", read_memory_max).unwrap_or(DEFAULT_MEMORY_MAX)
}

/// Reads a bound of memory in octets: `64M`, `3G`.
///
/// # Errors
/// One line: it is none, or is out of range.
pub fn read_memory_max(text: &str) -> Result<u64, String> {
    values::memory_within(text, &MEMORY_MAX)
}

fn with_keys(section: &Section<'_>, attach: Attach) -> Attach {
    match attach {
        Attach::Macvtap { interface, .. } => {
            Attach::Macvtap { interface, mode: section.word("macvtap_mode", &MODES) }
        }
        Attach::Pcap { file, .. } => {
            let pace = section.word("replay_pace", &PACES);
            let named = section.text("replay", "\"in.pcap\"");
            let replay = named.map(|at| Replay { file: PathBuf::from(at.value), pace });
            Attach::Pcap { file, replay }
        }
        Attach::VhostUserBackend { path, side } => {
            Attach::VhostUserBackend { path, side: side_of(section, side) }
        }
        Attach::VhostUserFrontend { path, side } => {
            Attach::VhostUserFrontend { path, side: side_of(section, side) }
        }
        other => other,
    }
}

fn side_of(section: &Section<'_>, otherwise: SocketSide) -> SocketSide {
    if section.has("socket") { section.word("socket", &SIDES) } else { otherwise }
}

fn only_for(section: &Section<'_>, key: &str, form: &str, fits: bool) {
    if section.has(key) && !fits {
        let what = format!("only a NIC with attach = \"{form}\" has it; remove it");
        section.fault(section.line_of(key), key, what);
    }
}

fn parse(text: &str, plan: &Plan) -> Result<Attach, String> {
    let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
    if LATER.contains(&kind) {
        return Err(format!("{kind:?} is not in this version; forms: {}", forms()));
    }
    // A word that is not among the kinds is none, whatever is read below; one alone misses what stands behind its colon.
    let known = KINDS.iter().find(|(known, behind)| *known == kind && (behind.is_some() || name.is_none()));
    let Some((kind, _)) = known else { return Err(format!("{text:?} is no attachment; forms: {}", forms())) };
    let name = name.unwrap_or_default();
    let interface = || values::interface(name).map(|()| name.to_owned());
    match *kind {
        "switch" => switch_index(name, plan).map(Attach::Switch),
        "tap" => interface().map(Attach::Tap),
        "bridge" => interface().map(Attach::Bridge),
        "ovs" => interface().map(Attach::Ovs),
        "macvtap" => interface().map(|interface| Attach::Macvtap { interface, mode: MacvtapMode::default() }),
        "xdp" => interface().map(Attach::Xdp),
        "pcap" => path(text, name, "wan.pcap").map(|file| Attach::Pcap { file, replay: None }),
        "vhost-user-backend" => socket(text, name, "/run/vm.sock")
            .map(|path| Attach::VhostUserBackend { path, side: SocketSide::Listen }),
        "vhost-user-frontend" => socket(text, name, "/run/ovs.sock")
            .map(|path| Attach::VhostUserFrontend { path, side: SocketSide::Connect }),
        _ => Ok(Attach::Null),
    }
}

/// How attachments are written: `tap:INTERFACE`.
fn forms() -> String {
    let form = |(kind, behind): &(&str, Option<&str>)| match behind {
        Some(behind) => format!("{kind}:{behind}"),
        None => (*kind).to_owned(),
    };
    KINDS.iter().map(form).collect::<Vec<_>>().join(", ")
}

fn path(text: &str, name: &str, example: &str) -> Result<PathBuf, String> {
    if name.is_empty() || name.contains('\0') {
        let kind = text.split(':').next().unwrap_or(text);
        return Err(format!("{text:?} names no file; write e.g. \"{kind}:{example}\""));
    }
    Ok(PathBuf::from(name))
}

fn socket(text: &str, name: &str, example: &str) -> Result<PathBuf, String> {
    if name.len() > LONGEST_SOCKET {
        let (has, most) = (name.len(), LONGEST_SOCKET);
        return Err(format!(
            "the path of a socket has at most {most} octets, and this one {has}; choose a shorter one"
        ));
    }
    path(text, name, example)
}

fn switch_index(name: &str, plan: &Plan) -> Result<usize, String> {
    if let Some(index) = plan.switches.iter().position(|switch| switch.name == name) {
        return Ok(index);
    }
    if values::name(name).is_err() {
        return Err(format!("\"switch:{}\" names no switch; write e.g. \"switch:lan\"", name.escape_debug()));
    }
    let known: Vec<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("there is no switch {name:?}; add [switch.{name}], or use one of: {known}"))
}
