//! Objective: `ringroad doctor` examines everything within 3 seconds, and `ringroad check` prints the plan of the
//! examples; neither leaves anything behind on the host.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output, Stdio};

fn ringroad(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringroad"));
    command.args(words).current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("the command starts")
}

fn stdout(words: &[&str]) -> String {
    let output = ringroad(words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{words:?}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8 on stdout")
}

const WHAT: &[&str] = &[
    "/dev/kvm",
    "/dev/net/tun",
    "/dev/vhost-net",
    "huge pages",
    "CPUs",
    "CPU model",
    "core to core",
    "governor",
    "steal",
    "TSC",
    "SCHED_FIFO",
    "SCHED_DEADLINE",
    "cgroups",
    "autogroups",
    "ceilings",
    "user",
    "CAP_NET_ADMIN",
    "open files",
    "locked memory",
];

#[test]
fn doctor_speaks_json() {
    let text = stdout(&["doctor", "--json"]);
    assert!(text.lines().count() >= WHAT.len());
    for line in text.lines() {
        let finding: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        for key in ["state", "what", "figure", "meaning"] {
            assert!(finding[key].is_string(), "{key}: {line}");
        }
        assert_eq!(finding.as_object().map(|finding| finding.len()), Some(4), "{line}");
    }
}

/// Returns the objects of `check --json`, and true if it found nothing wrong.
fn checked(file: &str) -> (Vec<serde_json::Value>, bool) {
    let output = ringroad(&["check", file, "--json"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8 on stdout");
    let objects = text.lines().map(|line| serde_json::from_str(line).expect("one object a line"));
    (objects.collect(), output.status.success())
}

#[test]
fn check_speaks_json() {
    let (objects, is_good) = checked("examples/two-routers.toml");
    let of = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    assert!(is_good && of("error").is_empty(), "{objects:?}");
    assert_eq!((&objects[0]["kind"], &objects[0]["memory_mib"]), (&"plan".into(), &64.into()));
    assert_eq!((of("switch").len(), of("thread").len()), (1, 6));
    let [west, east] = of("router")[..] else { panic!("{objects:?}") };
    assert_eq!((&west["name"], &east["name"]), (&"west".into(), &"east".into()));
    assert_eq!((&west["settings"]["vcpus"], &west["nics"][0]["settings"]["mtu"]), (&1.into(), &1500.into()));
    assert!(of("finding").iter().any(|finding| finding["what"] == "/dev/kvm"), "{objects:?}");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.toml");
    fs::write(&file, "[[router]]\nname = \"edge\"\nvcpus = 99\n").expect("written");
    let (objects, is_good) = checked(file.to_str().expect("UTF-8"));
    assert!(!is_good && objects.iter().all(|object| object["kind"] == "error"), "{objects:?}");
    let wrong = objects.iter().find(|object| object["key"] == "router.vcpus").expect("the fault");
    assert_eq!((&wrong["line"], &wrong["file"]), (&3.into(), &file.to_str().into()));
}

#[test]
fn check_prints_the_plan() {
    let text = stdout(&["check", "examples/two-routers.toml"]);
    for line in [
        "plan two-routers",
        "switch backbone: west.core east.core, ageing 300 s",
        "router west: kvm, 1 vCPU, 32 MiB, sleeps after 50µs without work",
        "  route 0.0.0.0/0 via 203.0.113.2 out of core",
        "  route ::/0 via 2001:db8:c::2 out of core",
        "  thread west/vcpu0 on any CPU",
        "memory 64 MiB for 2 routers",
        "this host",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} is missing in\n{text}");
    }
    assert!(text.contains("tap:rr-west 192.0.2.1/24 2001:db8:1::1/64, mtu 1500, 1 x 1024 entries"), "{text}");
}

#[test]
fn check_prints_the_file_of_a_back_end_on_another_host() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("core.toml");
    let nic = |name: &str, net: &str| {
        format!(
            "[[group.nic]]\nname = '{name}'\nattach = 'tap:t02-{name}'\naddress = '{net}.1/24'\nmtu = 1400\n"
        )
    };
    let text = "[[group]]\nname = 'core'\nkind = 'multistage'\nbackends = 1\nbalancer = 'vm'\n\
                tunnels = 'udp:10.0.0.1:4800-10.0.0.2:4900'\n"
        .to_owned()
        + &nic("wan", "192.0.2")
        + &nic("lan", "198.51.100");
    fs::write(&path, text).expect("written");
    let file = path.to_str().expect("a path");
    let far = stdout(&["check", file, "--remote", "core_63"]);
    for line in [
        "attach = \"udp:10.0.0.2:4900-10.0.0.1:4800\"",
        "attach = \"udp:10.0.0.2:4901-10.0.0.1:4801\"",
        "address = [\"198.51.100.1/24\"]",
        "to = \"192.0.0.2/32\"",
    ] {
        assert_eq!(far.lines().filter(|own| *own == line).count(), 1, "{line}\n{far}");
    }
    assert_eq!(far.lines().filter(|line| *line == "mtu = 1400").count(), 2, "{far}");
    let refused = ringroad(&["check", file, "--remote", "core_0"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    assert!(told.contains("\"core_0\" is no back end on another host; write one of core_63"), "{told}");
}

#[test]
fn neither_leaves_anything() {
    let things = || -> BTreeSet<String> {
        let folders = ["/sys/class/net", "/run/ringroad", "/run/netns"];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        let paths = entries.map(|entry| entry.path().display().to_string());
        paths.filter(|path| path.contains("rr-") || path.starts_with("/run/ringroad/one-router")).collect()
    };
    let before = things();
    stdout(&["check", "examples/one-router.toml"]);
    stdout(&["doctor"]);
    assert_eq!(things(), before);
}

mod all {
    use super::*;

    #[test]
    fn doctor_looks_at_everything() {
        let text = stdout(&["doctor"]);
        for line in text.lines() {
            let state = line.split("  ").next().unwrap_or_default();
            assert!(["ok", "no", "note"].contains(&state.trim()), "{line}");
        }
        for what in WHAT {
            let named = text
                .lines()
                .filter(|line| line.get(6..).is_some_and(|rest| rest.starts_with(&format!("{what}  "))));
            assert_eq!(named.count(), 1, "{what}\n{text}");
        }
    }

    #[test]
    fn a_reader_that_leaves_is_no_fault() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringroad"));
        let mut child =
            command.arg("doctor").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }

    #[test]
    fn check_tells_models_and_modes() {
        let text = stdout(&["check", "examples/e1000.toml"]);
        for nic in [
            "  nic left e1000 (csb) 02:",
            "  nic right e1000 (send-combining of 32 frames above 20000 a second) 02:",
        ] {
            assert_eq!(text.lines().filter(|line| line.starts_with(nic)).count(), 1, "{nic}\n{text}");
        }
        assert!(text.contains(", 1 x 1024 entries, interrupts at least 25µs apart\n"), "{text}");
        let text = stdout(&["check", "examples/one-router.toml"]);
        assert_eq!(text.matches(" virtio-net 02:").count(), 2, "{text}");
    }
}
