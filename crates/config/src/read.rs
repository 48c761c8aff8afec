//! Conversion of the document into a plan, table by table. Checks across tables are in `verify`.

use std::time::Duration;

use crate::group;
use crate::plan::{
    Engine, Misdeed, Plan, Power, Restart, Role, Router, Spin, Switch, Telemetry, VhostThreads,
};
use crate::section::{Keywords, Section, WithLine};
use crate::source_lines::SourceLines;
use crate::values;
use crate::{affinity, control, forwarding, isolated, kernel, keys, linux, memory, nic, rate, route, sched};

pub(crate) const ENGINES: Keywords<Option<Engine>> = Keywords {
    noun: ("engine", "engines"),
    now: &[
        ("kvm", Some(Engine::Kvm)),
        ("process", Some(Engine::Process)),
        ("linux", Some(Engine::Linux)),
        ("kernel", Some(Engine::Kernel)),
        ("lxc", Some(Engine::Lxc)),
    ],
    later: &[],
};

/// Roles that a file can give; roles for a lab's traffic are excluded.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum RoleWord {
    #[default]
    Router,
    Echo,
    Hostile,
}

const ROLES: Keywords<RoleWord> = Keywords {
    noun: ("role", "roles"),
    now: &[("router", RoleWord::Router), ("echo", RoleWord::Echo), ("hostile", RoleWord::Hostile)],
    later: &[],
};

const MISDEED_WORDS: [(&str, Misdeed); Misdeed::ALL.len()] = {
    let mut words = [("", Misdeed::Registers); Misdeed::ALL.len()];
    let mut n = 0;
    while n < words.len() {
        words[n] = (Misdeed::ALL[n].name(), Misdeed::ALL[n]);
        n += 1;
    }
    words
};

const MISDEEDS: Keywords<Misdeed> =
    Keywords { noun: ("misdeed", "misdeeds"), now: &MISDEED_WORDS, later: &[] };

pub(crate) const RESTARTS: Keywords<Restart> = Keywords {
    noun: ("restart policy", "policies"),
    now: &[(Restart::Always.name(), Restart::Always), (Restart::Never.name(), Restart::Never)],
    later: &[],
};

pub(crate) const POWERS: Keywords<Power> = Keywords {
    noun: ("state", "states"),
    now: &[(Power::Running.name(), Power::Running), (Power::Stopped.name(), Power::Stopped)],
    later: &[],
};

const VHOSTS: Keywords<VhostThreads> = Keywords {
    noun: ("way to cut vhost threads", "ways"),
    now: &[
        (VhostThreads::Shared.name(), VhostThreads::Shared),
        (VhostThreads::PerNic.name(), VhostThreads::PerNic),
        (VhostThreads::Split.name(), VhostThreads::Split),
        (VhostThreads::PerQueue.name(), VhostThreads::PerQueue),
        (VhostThreads::Kernel.name(), VhostThreads::Kernel),
        (VhostThreads::Vmm.name(), VhostThreads::Vmm),
    ],
    later: &[],
};

/// Tables of `[[router]]`.
const TABLES: [&str; 4] = ["nic", "route", "neighbour", "interface"];

/// Default ageing time of a switch's addresses in seconds, as in Linux bridges.
const DEFAULT_AGEING: u32 = 300;

/// Converts the whole document; `stem` is the file's name without `.toml`.
pub(crate) fn document(document: &Section<'_>, stem: &str, places: SourceLines) -> Plan {
    document.expect_keys(&["name", "telemetry", "switch", "router", "group"], &[]);
    let (name, named) = (run_name(document, stem), document.has("name"));
    let mut plan = Plan { name, named, places, ..Plan::default() };
    plan.telemetry = telemetry(document, &mut plan.places);
    plan.switches = switches(document);
    for section in document.tables("router") {
        let index = plan.routers.len();
        let router = router(&section, index, &mut plan);
        plan.routers.push(router);
    }
    group::read_all(document, &mut plan);
    if !document.has("router") && !document.has("group") {
        document.report.error(0, "router", "missing; a file describes at least one [[router]]");
    }
    plan
}

fn run_name(document: &Section<'_>, stem: &str) -> String {
    let Some(given) = document.text("name", "\"lab\"") else {
        let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let name = name.to_ascii_lowercase();
        if let Err(what) = values::run_name(&name) {
            document.report.error(0, "name", format!("the file's own name, {what}; or write name = \"...\""));
        }
        return name;
    };
    if let Err(what) = values::run_name(given.value) {
        document.fault(given.line, "name", what);
    }
    given.value.to_owned()
}

fn telemetry(document: &Section<'_>, places: &mut SourceLines) -> Telemetry {
    let Some(section) = document.table("telemetry", "[telemetry]") else { return Telemetry::default() };
    section.expect_keys(&["prometheus"], &[]);
    places.lines.insert((None, None, "prometheus"), section.line_of("prometheus"));
    Telemetry { prometheus: valued(&section, "prometheus", "\"127.0.0.1:9477\"", values::listen) }
}

fn switches(document: &Section<'_>) -> Vec<Switch> {
    let Some(tables) = document.table("switch", "[switch.lan]") else { return Vec::new() };
    let mut switches = Vec::new();
    for (name, section) in tables.named_tables() {
        if let Err(what) = values::name(name.value) {
            tables.fault(name.line, name.value, what);
        }
        let Some(section) = section else { continue };
        section.expect_keys(&["ageing"], &[]);
        let ageing = section.number("ageing", 1..=1_000_000, DEFAULT_AGEING);
        switches.push(Switch { name: name.value.to_owned(), ageing: Duration::from_secs(ageing.into()) });
    }
    switches
}

/// Reads a router, or what the members of a group are like.
pub(crate) fn router(section: &Section<'_>, index: usize, plan: &mut Plan) -> Router {
    let known = [keys::names(keys::ROUTER), group::names_in(section), TABLES.to_vec()];
    section.expect_keys(&known.concat(), &[]);
    for key in keys::names(keys::ROUTER) {
        remember(plan, (index, None), key, section.line_of(key));
    }
    let name = required_name(section, "\"edge\"", values::router_name);
    let pin = affinity::pin(section, index, plan);
    let (guarantee, limit) = (rate::guarantee(section), rate::limit(section));
    let engine = section.word("engine", &ENGINES);
    let (linux, kernel) = (linux::read(section, engine), kernel::read(section, engine));
    let memory = match &linux {
        _ if kernel.is_some() => Some(0),
        Some(_) => Some(linux::memory(section)),
        None => valued(section, "memory", "\"32M\"", values::memory),
    };
    let mut router = Router {
        name,
        engine,
        linux,
        kernel,
        container: kernel::container(section, engine),
        role: role(section),
        restart: section.word("restart", &RESTARTS),
        state: section.has("state").then(|| section.word("state", &POWERS)),
        vcpus: if kernel.is_some() { 0 } else { section.number("vcpus", 1..=16, 1) },
        memory: memory.unwrap_or_default(),
        vhost: section.word("vhost", &VHOSTS),
        affinity: affinity::read(section, index, plan),
        pin,
        sched: sched::read(section, index, plan),
        guarantee,
        limit,
        spin: valued(section, "spin", "\"50us\"", values::spin).unwrap_or(Spin::default()),
        isolate: isolated::read(section),
        nics: Vec::new(),
        routes: Vec::new(),
        neighbours: Vec::new(),
        forwarding: forwarding::Forwarding::default(),
        control: control::read(section, index, plan),
    };
    router.nics = nic::read_all(section, index, &router, plan);
    linux::verify(section, &router);
    kernel::verify(section, &router);
    isolated::verify(section, &router);
    router.forwarding = forwarding::read(section, &router.nics);
    kernel::verify_filters(section, &router);
    control::verify(section, &router);
    let links = forwarding::links(&router.nics, &router.forwarding.interfaces);
    router.routes = route::routes(section, &links);
    router.neighbours = route::neighbours(section, &links);
    if memory.is_none() {
        router.memory = memory::default(&router);
    }
    router
}

fn role(section: &Section<'_>) -> Role {
    let word = section.word("role", &ROLES);
    let misdeed = valued(section, "misdeed", "\"spin\"", |text| MISDEEDS.find(text));
    match (word, misdeed) {
        (RoleWord::Hostile, Some(misdeed)) => return Role::Hostile(misdeed),
        (RoleWord::Hostile, None) if !section.has("misdeed") => section.missing("misdeed", "\"spin\""),
        (RoleWord::Hostile, None) | (_, None) => {}
        (_, Some(_)) => {
            let what = "only a hostile router has one; remove it, or write role = \"hostile\"";
            section.fault(section.line_of("misdeed"), "misdeed", what);
        }
    }
    if word == RoleWord::Echo { Role::Echo } else { Role::Router }
}

/// Parses a required name; an empty one stands for an invalid one, which was reported.
pub(crate) fn required_name(
    section: &Section<'_>,
    example: &str,
    check: fn(&str) -> Result<(), String>,
) -> String {
    let Some(WithLine { value, line }) = section.required_text("name", example) else { return String::new() };
    match check(value) {
        Ok(()) => value.to_owned(),
        Err(what) => {
            section.fault(line, "name", what);
            String::new()
        }
    }
}

/// Parses a string of a special form; `None` if it is missing, or invalid, which is reported.
pub(crate) fn valued<T>(
    section: &Section<'_>,
    key: &str,
    example: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let WithLine { value, line } = section.text(key, example)?;
    read(value).map_err(|what| section.fault(line, key, what)).ok()
}

/// Parses a string of a special form, or the word that stands for a missing key.
pub(crate) fn valued_or<T>(
    section: &Section<'_>,
    key: &str,
    (example, none): (&str, &str),
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let read = |text: &str| if text == none { Ok(None) } else { read(text).map(Some) };
    valued(section, key, example, read).flatten()
}

/// Stores the line of a value for errors that are found later.
pub(crate) fn remember(plan: &mut Plan, part: (usize, Option<usize>), key: &'static str, line: u32) {
    plan.places.lines.insert((Some(part.0), part.1, key), line);
}
