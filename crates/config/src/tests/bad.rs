//! Invalid files as a whole, and their exact error lines.

use crate::{MOST_ERRORS, MOST_OCTETS, load, parse};

/// A valid file: each case of `one_line` changes one piece of it.
pub(super) const GOOD: &str = r#"[switch.lan]
ageing = 300

[[router]]
name = "edge"
engine = "kvm"
vcpus = 1
memory = "32M"
vhost = "shared"
pin = { vcpu = "1", vhost = "0" }
spin = "50us"

[[router.nic]]
name = "wan"
model = "virtio-net"
attach = "tap:tap0"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
queues = 1
mtu = 1500
ring = 1024

[[router.nic]]
name = "lan"
attach = "switch:lan"
address = "198.51.100.1/24"
deliver = "queued"

[[router.route]]
to = "0.0.0.0/0"
via = "192.0.2.254"

[[router.neighbour]]
address = "192.0.2.254"
mac = "02:00:00:00:00:99"
"#;

#[track_caller]
pub(crate) fn errors(text: &str) -> String {
    parse(text, "f.toml").expect_err("the file is bad").to_string()
}

#[test]
fn the_good_file_is_good() {
    assert!(parse(GOOD, "f.toml").is_ok());
}

#[test]
fn whole_documents() {
    assert_eq!(errors(""), "f.toml: the file is empty; it describes at least one [[router]]");
    assert_eq!(errors(" \n\n"), "f.toml: the file is empty; it describes at least one [[router]]");
    assert_eq!(errors("# nothing\n"), "f.toml: router: missing; a file describes at least one [[router]]");
    assert_eq!(
        errors("router = 3"),
        "f.toml:1: router: an integer where an array of tables [[router]] is expected"
    );
    assert_eq!(errors("router = [3]"), "f.toml:1: router: an integer where a table [[router]] is expected");
    assert_eq!(
        errors("[router]\nname = 'a'"),
        "f.toml:1: router: a table where an array of tables [[router]] is expected"
    );
    assert_eq!(
        errors("[[router]]\nname = 'a'"),
        "f.toml:1: router.nic: missing; a router has at least one [[router.nic]]"
    );
    assert_eq!(
        errors("[[ruter]]\nname = 'a'").lines().next(),
        Some("f.toml: router: missing; a file describes at least one [[router]]")
    );
    assert!(errors("[[router]\nname = 'a'").starts_with("f.toml:1: not TOML: "));
    assert!(errors("a = 1\nb = \"open\n").starts_with("f.toml:2: not TOML: "));
}

#[test]
fn too_many_nics() {
    let nic = |n| format!("[[router.nic]]\nname = 'n{n}'\nattach = 'null'\n");
    let text = format!("[[router]]\nname = 'a'\nmemory = '512M'\n{}", (0..33).map(nic).collect::<String>());
    assert_eq!(errors(&text), "f.toml:100: router.nic: 33 NICs are too many; a router has at most 32");
}

#[test]
fn nine_addresses() {
    let addresses: Vec<String> = (1..10).map(|n| format!("\"10.0.{n}.1/24\"")).collect();
    let text = GOOD.replacen("\"192.0.2.1/24\"", &format!("\"192.0.2.1/24\", {}", addresses.join(", ")), 1);
    assert_eq!(
        errors(&text),
        "f.toml:18: router.nic.address: 10 addresses are too many; a NIC has at most 8"
    );
}

const TWO: &str = "[switch.s]\n\
    [[router]]\nname='a'\n[[router.nic]]\nname='x'\nattach='switch:s'\naddress='10.0.0.1/24'\n\
    [[router]]\nname='b'\n[[router.nic]]\nname='x'\nattach='switch:s'\naddress='10.0.0.2/24'\n";

#[test]
fn between_routers() {
    assert!(parse(TWO, "two_R.toml").is_ok_and(|plan| plan.name == "two-r"));
    assert_eq!(
        errors(&TWO.replace("name='b'", "name='a'")),
        "f.toml:9: router.name: \"a\" is taken in line 3 already; choose another"
    );
    assert_eq!(
        errors(&TWO.replace("10.0.0.2", "10.0.0.1")),
        "f.toml:13: router.nic.address: 10.0.0.1 is the address of a.x on \"switch:s\" already; choose another"
    );
}

#[test]
fn every_fault_is_found_and_ten_are_shown() {
    let text = format!("{GOOD}{}", "[[router.route]]\n".repeat(20));
    let Err(all) = parse(&text, "f.toml") else { panic!("the file is bad") };
    assert_eq!(all.errors.len(), 40);
    let lines: Vec<String> = all.lines().collect();
    assert_eq!(lines.len(), MOST_ERRORS + 1);
    assert_eq!(lines[MOST_ERRORS], "f.toml: 30 more errors");
}

#[test]
fn names_of_files() {
    let Err(errors) = parse(TWO, "/x/-.toml") else { panic!("no name for the run") };
    assert_eq!(
        errors.to_string(),
        "/x/-.toml: name: the file's own name, \"-\" is not a name; use 1 to 31 of a-z, 0-9 and -, \
         a letter or digit first; or write name = \"...\""
    );
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder for files");
    let path = folder.path().join("f.toml");
    let shown = path.display().to_string();
    let error = || load(&path).expect_err("the file is bad").to_string();
    assert_eq!(error(), format!("{shown}: cannot be opened: No such file or directory (os error 2)"));
    std::fs::write(&path, b"a = 1\nb = '\xff'\n").expect("written");
    assert_eq!(error(), format!("{shown}:2: an octet that is not UTF-8; save the file as UTF-8"));
    std::fs::write(&path, vec![b'#'; MOST_OCTETS as usize + 1]).expect("written");
    assert_eq!(error(), format!("{shown}: larger than 1 MiB, the most that a file may be"));
    let error = load(folder.path()).expect_err("a folder").to_string();
    assert_eq!(error, format!("{}: cannot be read: Is a directory (os error 21)", folder.path().display()));
}

#[test]
fn a_queue_that_nobody_of_ours_reads_cannot_be_tuned() {
    let file = |attach: &str, more: &str| {
        format!(
            "[[router]]\nname = \"r\"\n{more}[[router.nic]]\nname = \"n\"\nattach = \"{attach}\"\nqueue_len = \"auto\"\n"
        )
    };
    for attach in ["xdp:eth0", "null", "pcap:x.pcap", "vhost-user-backend:v.sock"] {
        assert!(errors(&file(attach, "")).contains("only the queue of a TAP or macvtap"), "{attach}");
    }
    for attach in ["tap:t", "bridge:b", "ovs:o", "macvtap:m"] {
        parse(&file(attach, ""), "f.toml").expect("good");
        let said = errors(&file(attach, "vhost = \"kernel\"\n"));
        assert!(
            said.contains("f.toml:7: router.nic.queue_len") && said.contains("the kernel reads the queue"),
            "{said}"
        );
    }
}
