//! Keys about running a router: engine, role, restart, queues, memory, and access to its counters.

use std::path::PathBuf;

use super::bad::{GOOD, errors};
use crate::{
    Engine, FlowHash, HostFacts, LinkState, Listen, Misdeed, Plan, Power, Restart, Role, Spin, VhostThreads,
    parse,
};

/// The valid file with other lines in place of `engine = "kvm"`, line 6, in a router's table.
fn router(lines: &str) -> String {
    GOOD.replacen("engine = \"kvm\"", lines, 1)
}

/// The valid file with other lines in place of `queues = 1`, line 19, in a NIC's table.
fn nic(lines: &str) -> String {
    GOOD.replacen("queues = 1", lines, 1)
}

#[track_caller]
fn plan(text: &str) -> Plan {
    parse(text, "f.toml").expect("a good file")
}

#[test]
fn roles() {
    let role = |lines: &str| plan(&router(lines)).routers[0].role;
    assert_eq!(role(""), Role::Router);
    assert_eq!(role("role = \"router\""), Role::Router);
    assert_eq!(role("role = \"echo\""), Role::Echo);
    for misdeed in Misdeed::ALL {
        let lines = format!("role = \"hostile\"\nmisdeed = \"{}\"", misdeed.name());
        assert_eq!(role(&lines), Role::Hostile(misdeed));
    }
}

#[test]
fn roles_that_are_none() {
    assert_eq!(
        errors(&router("role = \"source\"")),
        "f.toml:6: router.role: \"source\" is no role; roles: router, echo, hostile"
    );
    assert_eq!(
        errors(&router("role = \"hostile\"")),
        "f.toml:4: router.misdeed: missing; write e.g. misdeed = \"spin\""
    );
    assert_eq!(
        errors(&router("role = \"hostile\"\nmisdeed = \"murder\"")),
        "f.toml:7: router.misdeed: \"murder\" is no misdeed; misdeeds: registers, descriptors, loops, addresses, \
         indices, kicks, sleep, spin, triple-fault, old-epoch, chains, resets, commands, tables"
    );
    assert_eq!(
        errors(&router("role = \"hostile\"\nmisdeed = 4")),
        "f.toml:7: router.misdeed: an integer where a string such as \"spin\" is expected"
    );
    for role in ["", "role = \"echo\"\n"] {
        let line = 6 + role.lines().count();
        assert_eq!(
            errors(&router(&format!("{role}misdeed = \"spin\""))),
            format!(
                "f.toml:{line}: router.misdeed: only a hostile router has one; remove it, or write role = \"hostile\""
            )
        );
    }
}

#[test]
fn restart_policies() {
    let restart = |lines: &str| plan(&router(lines)).routers[0].restart;
    assert_eq!(restart(""), Restart::Always);
    assert_eq!(restart("restart = \"always\""), Restart::Always);
    assert_eq!(restart("restart = \"never\""), Restart::Never);
    assert_eq!(
        errors(&router("restart = \"sometimes\"")),
        "f.toml:6: router.restart: \"sometimes\" is no restart policy; policies: always, never"
    );
    assert_eq!("never".parse(), Ok(Restart::Never));
    assert_eq!("250us".parse(), Ok(Spin::For(std::time::Duration::from_micros(250))));
    let wrong = "soon".parse::<Spin>().expect_err("no time");
    assert_eq!(
        wrong.to_string(),
        "\"soon\" is not a time; write e.g. \"50us\", or \"always\" to never sleep"
    );
}

#[test]
fn routers_that_are_stopped_and_cables_that_are_out() {
    let state = |lines: &str| plan(&router(lines)).routers[0].state;
    assert_eq!(state(""), None);
    assert_eq!(state("state = \"running\""), Some(Power::Running));
    assert_eq!(state("state = \"stopped\""), Some(Power::Stopped));
    assert_eq!(
        errors(&router("state = \"off\"")),
        "f.toml:6: router.state: \"off\" is no state; states: running, stopped"
    );
    let with_link = |link: &str| router("").replacen("attach =", &format!("{link}attach ="), 1);
    let link = |word: &str| plan(&with_link(word)).routers[0].nics[0].link;
    assert_eq!(link(""), None);
    assert_eq!(link("link = \"up\"\n"), Some(LinkState::Up));
    assert_eq!(link("link = \"down\"\n"), Some(LinkState::Down));
    let wrong = errors(&with_link("link = \"out\"\n"));
    assert!(wrong.contains("router.nic.link: \"out\" is no state of a link; states: up, down"), "{wrong}");
}

#[test]
fn engines() {
    let engine = |lines: &str| plan(&router(lines)).routers[0].engine;
    assert_eq!(engine(""), None);
    assert_eq!(engine("engine = \"kvm\""), Some(Engine::Kvm));
    assert_eq!(engine("engine = \"process\""), Some(Engine::Process));
}

#[test]
fn the_host_chooses_where_the_file_does_not() {
    let without = HostFacts { no_kvm: Some("/dev/kvm is not there".to_owned()), ..HostFacts::default() };
    let mut open = plan(&router(""));
    assert_eq!(open.choose_engines(&HostFacts::default()), None);
    assert_eq!(open.routers[0].engine, Some(Engine::Kvm));

    let mut open = plan(&router(""));
    let line = open.choose_engines(&without);
    assert_eq!(line.as_deref(), Some("no KVM (/dev/kvm is not there): runs as a process: edge"));
    assert_eq!(open.routers[0].engine, Some(Engine::Process));
    assert_eq!(open.choose_engines(&without), None, "it is said once");

    let mut fixed = plan(GOOD);
    assert_eq!(fixed.choose_engines(&without), None);
    assert_eq!(fixed.routers[0].engine, Some(Engine::Kvm), "what the file says stays");
    let refused = fixed.check_host(&HostFacts { cpus: (0..8).collect(), ..without });
    assert_eq!(
        refused.to_string(),
        "f.toml:6: router.engine: /dev/kvm is not there; write engine = \"process\", or remove the key"
    );
}

#[test]
fn queue_pairs_and_their_threads() {
    let queues = |text: &str| plan(text).routers[0].nics[0].queues;
    assert_eq!(queues(&nic("")), 1);
    let four = nic("").replacen("vcpus = 1", "vcpus = 4", 1).replacen("32M", "64M", 1);
    assert_eq!(queues(&four), 4, "a pair for each vCPU where the file says nothing");
    assert_eq!(
        errors(&nic("queues = 2")),
        "f.toml:19: router.nic.queues: 2 queue pairs for 1 vCPU, but each needs one of its own; write vcpus = 2, \
         or at most queues = 1"
    );
    let per_queue = four.replacen("vhost = \"shared\"", "vhost = \"per-queue\"", 1);
    let per_queue = per_queue.replacen("name = \"lan\"", "name = \"lan\"\nqueues = 2", 1);
    let plan = plan(&per_queue);
    let router = &plan.routers[0];
    assert_eq!((router.vhost, router.vhost_threads()), (VhostThreads::PerQueue, 4));
    let names: Vec<String> = router.threads().into_iter().map(|(name, _)| name).skip(4).collect();
    assert_eq!(names, ["edge/q0", "edge/q1", "edge/q2", "edge/q3"]);
    assert_eq!([0, 1].map(|nic| router.outer_queues(&router.nics[nic])), [4, 2]);
}

#[test]
fn hashes() {
    let hash = |lines: &str| plan(&nic(lines)).routers[0].nics[0].hash;
    assert_eq!(hash(""), FlowHash::Flow);
    assert_eq!(hash("hash = \"flow\""), FlowHash::Flow);
    assert_eq!(hash("hash = \"symmetric\""), FlowHash::Symmetric);
    assert_eq!(
        errors(&nic("hash = \"random\"")),
        "f.toml:19: router.nic.hash: \"random\" is no way to spread flows; ways: flow, symmetric"
    );
}

#[test]
fn memory_that_cannot_hold_the_rings() {
    let nic = |n: u32| format!("[[router.nic]]\nname = 'n{n}'\nattach = 'null'\nring = RING\n");
    let file = |nics: u32, vcpus: u32, ring: u32, memory: &str| {
        let nics: String = (0..nics).map(nic).collect();
        format!("[[router]]\nname = 'a'\nvcpus = {vcpus}\nmemory = '{memory}'\n{nics}")
            .replace("RING", &ring.to_string())
    };
    assert!(parse(&file(2, 1, 1024, "32M"), "f.toml").is_ok());
    assert!(parse(&file(2, 2, 1024, "32M"), "f.toml").is_ok());
    assert!(parse(&file(8, 1, 256, "32M"), "f.toml").is_ok());
    let too_much = file(8, 16, 1024, "32M");
    assert_eq!(
        errors(&too_much),
        "f.toml:4: router.memory: 32 MiB cannot hold 256 rings (2 for each NIC and vCPU) of up to 1024 entries, with \
         their buffers; write memory = \"562M\""
    );
    assert!(parse(&too_much.replace("32M", "562M"), "f.toml").is_ok(), "what it asks for is enough");
    let never = errors(&file(32, 16, 1024, "1G"));
    assert!(never.ends_with("with their buffers; write a smaller ring, or fewer vcpus"), "{never}");
}

#[test]
fn memory_is_by_default_what_the_rings_need() {
    let nic = |n: u32| format!("[[router.nic]]\nname = 'n{n}'\nattach = 'null'\n");
    let memory = |nics: u32, more: &str| {
        let nics: String = (0..nics).map(nic).collect();
        plan(&format!("[[router]]\nname = 'a'\n{more}{nics}")).routers[0].memory >> 20
    };
    assert_eq!((memory(2, ""), memory(2, "memory = '64M'\n")), (32, 64));
    assert_eq!((memory(8, "vcpus = 2\n"), memory(32, ""), memory(32, "vcpus = 4\n")), (78, 146, 556));
    assert_eq!(memory(2, "neighbours = 65536\nvcpus = 8\n"), 104);
}

#[test]
fn counters_for_prometheus() {
    let listen =
        |value: &str| plan(&format!("{GOOD}\n[telemetry]\nprometheus = \"{value}\"")).telemetry.prometheus;
    assert_eq!(plan(GOOD).telemetry.prometheus, None, "off unless the file asks for it");
    assert_eq!(plan(&format!("{GOOD}\n[telemetry]\n")).telemetry.prometheus, None);
    assert_eq!(listen("127.0.0.1:9477"), Some(Listen::Tcp(([127, 0, 0, 1], 9477).into())));
    assert_eq!(listen("unix:/run/x.sock"), Some(Listen::Unix(PathBuf::from("/run/x.sock"))));
    assert_eq!(listen("[::1]:9477").map(|listen| listen.to_string()).as_deref(), Some("[::1]:9477"));
    let example = "write e.g. \"127.0.0.1:9477\" or \"unix:/run/ringroad-metrics.sock\"";
    let long = format!("unix:/{}", "a".repeat(107));
    let socket = "names no socket by an absolute path of at most 107 octets";
    for (value, wrong) in [
        ("9477", "is no address with a port"),
        ("127.0.0.1", "is no address with a port"),
        ("localhost:9477", "is no address with a port"),
        ("127.0.0.1:0", ": nobody would find port 0"),
        ("unix:", socket),
        ("unix:/", socket),
        ("unix:run/x.sock", socket),
        ("unix:/run/../x.sock", socket),
        ("unix:/run/x/", socket),
        (&long, socket),
    ] {
        let space = if wrong.starts_with(':') { "" } else { " " };
        assert_eq!(
            errors(&format!("[telemetry]\nprometheus = \"{value}\"\n{GOOD}")),
            format!("f.toml:2: telemetry.prometheus: {value:?}{space}{wrong}; {example}")
        );
    }
    // Anyone who can reach the host could read it.
    for value in
        ["0.0.0.0:9477", "192.0.2.1:9477", "[::]:9477", "[2001:db8::1]:9477", "[::ffff:0.0.0.0]:9477"]
    {
        assert_eq!(
            errors(&format!("[telemetry]\nprometheus = \"{value}\"\n{GOOD}")),
            format!(
                "f.toml:2: telemetry.prometheus: {value:?} is no loopback address; {example}, and let a proxy with access \
                 control face the network"
            )
        );
    }
    for value in ["127.3.2.1:9477", "[::1]:9477", "[::ffff:127.0.0.1]:9477"] {
        assert!(listen(value).is_some(), "{value}");
    }
    assert_eq!(
        errors(&format!("telemetry = 1\n{GOOD}")),
        "f.toml:1: telemetry: an integer where a table such as [telemetry] is expected"
    );
    assert_eq!(
        errors(&format!("[telemetry]\nport = 1\n{GOOD}")),
        "f.toml:2: telemetry.port: unknown key; keys: prometheus"
    );
}

#[test]
fn limits() {
    let limit = |lines: &str| plan(&router(lines)).routers[0].limit.map(crate::Rate::pps);
    assert_eq!((limit(""), limit("limit = \"200kpps\"")), (None, Some(200_000)));
    let kernel = GOOD.replacen("vhost = \"shared\"", "vhost = \"kernel\"\nlimit = \"1kpps\"", 1);
    let kernel = kernel.replacen("attach = \"switch:lan\"", "attach = \"tap:tap1\"", 1);
    let kernel = kernel.replacen("deliver = \"queued\"\n", "", 1);
    assert_eq!(
        errors(&kernel),
        "f.toml:10: router.limit: with vhost = \"kernel\" the kernel lets frames in, and nobody counts them; write \
         another vhost"
    );
    let handed = router("limit = \"1kpps\"").replacen("tap:tap0", "vhost-user-frontend:/run/x.sock", 1);
    let handed = handed.replacen("queues = 1", "listen = true", 1);
    assert!(
        errors(&handed).contains("f.toml:6: router.limit: the peer of a vhost-user-frontend lets frames in")
    );
}
