//! Objective: for an invalid file `ringroad check` prints one line per fault, which names file, line and key and
//! says what would be right; the exit code is 1, nothing is on stdout, and invalid command-line words give exit
//! code 2.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn ringroad(words: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringroad"));
    command.args(words).current_dir(folder).output().expect("the command starts")
}

/// Checks a file with this content; returns its stderr after checking exit code and stdout.
fn faults(content: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.toml"), content).expect("written");
    let output = ringroad(&["check", "bad.toml"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).expect("UTF-8 on stderr")
}

/// A valid file, so that each case is wrong in exactly one way.
const GOOD: &str = "[[router]]\nname = \"edge\"\n\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n\
                    address = \"192.0.2.1/24\"\n";

#[test]
fn one_fault_is_one_line() {
    let cases = [
        (
            "192.0.2.1/24",
            "192.0.2.1/33",
            "bad.toml:7: router.nic.address: \"192.0.2.1/33\" is not an IPv4 prefix; write e.g. \"192.0.2.1/24\"",
        ),
        (
            "\"null\"",
            "\"switch:lan\"",
            "bad.toml:6: router.nic.attach: there is no switch \"lan\"; add [switch.lan], or use one of: none",
        ),
        (
            "\"null\"",
            "\"hub:lan\"",
            "bad.toml:6: router.nic.attach: \"hub:lan\" is no attachment; forms: switch:NAME, tap:INTERFACE, bridge:INTERFACE, ovs:BRIDGE, macvtap:INTERFACE, xdp:INTERFACE, veth:INTERFACE, macvlan:INTERFACE, link:INTERFACE, vf:INTERFACE, udp:LOCAL-REMOTE, pcap:FILE, vhost-user-backend:SOCKET, vhost-user-frontend:SOCKET, null",
        ),
        (
            "\"null\"",
            "7",
            "bad.toml:6: router.nic.attach: an integer where a string such as \"tap:tap0\" is expected",
        ),
        (
            "attach",
            "atach",
            "bad.toml:4: router.nic.attach: missing; write e.g. attach = \"tap:tap0\"\nbad.toml:6: router.nic.atach: unknown key; did you mean \"attach\"?",
        ),
        (
            "[[router]]",
            "telemetry.prometheus = \"0.0.0.0:9477\"\n[[router]]",
            "bad.toml:1: telemetry.prometheus: \"0.0.0.0:9477\" is no loopback address; write e.g. \"127.0.0.1:9477\" or \"unix:/run/ringroad-metrics.sock\", and let a proxy with access control face the network",
        ),
        (
            "/24\"\n",
            "/24\"\n[[router.route]]\nto = \"224.0.0.0/4\"\nvia = \"192.0.2.2\"\n",
            "bad.toml:9: router.route.to: \"224.0.0.0/4\" lies in 224.0.0.0/4, multicast, which no router forwards; write e.g. \"198.51.100.0/24\"",
        ),
        (
            "\n\n[[router.nic]]",
            "\nengine = \"jail\"\n[[router.nic]]",
            "bad.toml:3: router.engine: \"jail\" is no engine; engines: kvm, process, linux, kernel, lxc",
        ),
        (
            "\n\n[[router.nic]]",
            "\nname = \"core\"\n[[router.nic]]",
            "bad.toml:3: name: is there twice; remove one",
        ),
    ];
    for (old, new, expected) in cases {
        assert!(GOOD.contains(old), "{old}");
        assert_eq!(faults(GOOD.replacen(old, new, 1).as_bytes()), format!("{expected}\n"));
    }
}

#[test]
fn many_faults_are_ten_lines_and_a_count() {
    let text = format!("{GOOD}{}", "[[router.route]]\n".repeat(30));
    let faults = faults(text.as_bytes());
    assert_eq!(faults.lines().count(), 11);
    assert!(faults.ends_with("bad.toml: 50 more errors\n"), "{faults}");
}

#[test]
fn what_the_host_does_not_have_names_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = GOOD.replace("\n\n", "\npin = { vcpu = \"1023\" }\n").replace("\"null\"", "\"tap:lo\"");
    fs::write(folder.path().join("bad.toml"), text).expect("written");
    let output = ringroad(&["check", "bad.toml"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    assert!(
        lines[0].starts_with("bad.toml:3: router.pin.vcpu: CPU 1023 cannot be used on this host"),
        "{stderr}"
    );
    assert_eq!(
        lines[1],
        "bad.toml:6: router.nic.attach: interface \"lo\" exists and is not a TAP; choose another name"
    );
}

/// Both verbs check what a file refers to before anything is built.
#[test]
fn what_cannot_be_had_names_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        (
            "pcap:x.pcap\"\nreplay = \"none.pcap",
            "bad.toml:7: router.nic.replay: cannot replay none.pcap: No such file",
        ),
        ("pcap:none/x.pcap", "bad.toml:6: router.nic.attach: none/x.pcap lies in no folder that is there"),
        (
            "vhost-user-backend:none/x.sock",
            "bad.toml:6: router.nic.attach: there is no folder none: mkdir -p none",
        ),
    ];
    for (attach, expected) in cases {
        fs::write(folder.path().join("bad.toml"), GOOD.replace("null", attach)).expect("written");
        for verb in ["check", "run"] {
            let output = ringroad(&[verb, "bad.toml"], folder.path());
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{verb}");
            assert!(stderr.starts_with(expected) && stderr.lines().count() == 1, "{verb}: {stderr}");
        }
    }
}

#[test]
fn a_place_where_somebody_listens_names_its_line() {
    support::needs!(Root);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.prom");
    let _held = UnixListener::bind(&socket).expect("bound");
    let text = GOOD.replace("edge", "t01")
        + "[telemetry]\nprometheus = \"unix:"
        + &socket.display().to_string()
        + "\"\n";
    fs::write(folder.path().join("bad.toml"), text).expect("written");
    let output = ringroad(&["run", "bad.toml"], folder.path());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.starts_with("bad.toml:9: telemetry.prometheus: cannot listen on /"), "{stderr}");
    assert!(stderr.contains("it is a socket of another program; choose another place"), "{stderr}");
}

#[test]
fn wrong_words_on_the_command_line() {
    let folder = PathBuf::from("/");
    for words in [&[][..], &["chek"], &["check"], &["check", "a", "b"], &["doctor", "--jason"]] {
        let output = ringroad(words, &folder);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
}

mod all {
    use super::*;

    #[test]
    fn whole_files() {
        assert_eq!(faults(b""), "bad.toml: the file is empty; it describes at least one [[router]]\n");
        assert_eq!(
            faults(b"a = 1\n# \xff\n"),
            "bad.toml:2: an octet that is not UTF-8; save the file as UTF-8\n"
        );
        assert_eq!(
            faults(&vec![b'\n'; (1 << 20) + 1]),
            "bad.toml: larger than 1 MiB, the most that a file may be\n"
        );
        let syntax = faults(b"[[router]]\nname = \n");
        assert!(syntax.starts_with("bad.toml:2: not TOML: ") && syntax.lines().count() == 1, "{syntax}");
    }

    #[test]
    fn a_file_that_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let output = ringroad(&["check", "none.toml"], folder.path());
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr, "none.toml: cannot be opened: No such file or directory (os error 2)\n");
    }
}
