use std::os::unix::net::UnixListener;

use config::parse;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// Faults of a router's NIC with this attachment.
fn wrong(lines: &str) -> String {
    let text = format!(
        "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"lan\"\nattach = \"null\"\n[[router.nic]]\nname = \"wan\"\n{lines}\n"
    );
    faults(&parse(&text, "f.toml").expect("a good file"), None).to_string()
}

#[test]
fn what_cannot_be_had_has_a_place_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("text"), "no capture").expect("written");
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let good = format!("attach = \"pcap:{}\"", at("new.pcap"));
    assert_eq!(wrong(&good), "");
    for (replay, why) in
        [("none", "No such file"), ("text", "pcap"), ("pipe", "no regular file"), ("", "file")]
    {
        let line = wrong(&format!("{good}\nreplay = \"{}\"", at(replay)));
        let place = format!("f.toml:9: router.nic.replay: cannot replay {}: ", at(replay));
        assert!(line.starts_with(&place) && line.contains(why) && !line.contains('\n'), "{line}");
    }
    let none = at("none/new");
    for (attach, why) in [
        (format!("pcap:{none}"), format!("{none} lies in no folder that is there")),
        (format!("pcap:{}", at("")), format!("{} is a folder: name a file", at(""))),
        (format!("vhost-user-backend:{none}"), format!("there is no folder {0}: mkdir -p {0}", at("none"))),
        (
            format!("vhost-user-frontend:{}", at("text")),
            format!("{} is there and no socket: remove it, or choose another path", at("text")),
        ),
    ] {
        assert_eq!(wrong(&format!("attach = \"{attach}\"")), format!("f.toml:8: router.nic.attach: {why}"));
    }
}

#[test]
fn a_missing_interconnection_is_reported_once_with_its_key() {
    let nic = |name: &str| format!("[[group.nic]]\nname = \"{name}\"\nattach = \"switch:{name}\"\n");
    let text = format!(
        "[switch.wan]\n[switch.lan]\n[[group]]\nname = \"core\"\nkind = \"multistage\"\nbackends = 2\nbalancer = \"vm\"\n\
         interconnect = \"bridge:no-such-bridge\"\n{}{}",
        nic("wan"),
        nic("lan")
    );
    let plan = parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let what = "there is no bridge \"no-such-bridge\"; make it: ip link add no-such-bridge type bridge";
    assert_eq!(faults(&plan, None).to_string(), format!("f.toml:8: group.interconnect: {what}"));
}

#[test]
fn an_address_that_tunnels_cannot_have_is_reported_once_with_its_key() {
    let nic = |name: &str| format!("[[group.nic]]\nname = \"{name}\"\nattach = \"switch:{name}\"\n");
    let text = format!(
        "[switch.wan]\n[switch.lan]\n[[group]]\nname = \"core\"\nkind = \"multistage\"\nbackends = 2\nbalancer = \"vm\"\n\
         tunnels = \"udp:192.0.2.1:4800-192.0.2.2:4800\"\n{}{}",
        nic("wan"),
        nic("lan")
    );
    let plan = parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
    let told = faults(&plan, None).to_string();
    assert!(told.starts_with("f.toml:8: group.tunnels: cannot have the address 192.0.2.1: "), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn what_a_linux_guest_is_made_of_has_a_place_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let text = format!(
        "[[router]]\nname = \"edge\"\nengine = \"linux\"\nkernel = \"{}\"\ninitrd = \"{}\"\nconsole = \"{}\"\n\
         [[router.nic]]\nname = \"wan\"\nattach = \"null\"\n",
        at("none"),
        at(""),
        at("none/log")
    );
    let plan = parse(&text, "f.toml").expect("a good file");
    let told = faults(&plan, None).to_string();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(
        lines,
        [
            format!(
                "f.toml:4: router.kernel: cannot read {}: No such file or directory (os error 2)",
                at("none")
            ),
            format!("f.toml:5: router.initrd: cannot read {}: it is no regular file", at("")),
            format!("f.toml:6: router.console: {} lies in no folder that is there", at("none/log")),
        ]
    );
    assert!(faults(&plan, Some(&plan)).is_empty(), "what a run has is not asked for again");
}

#[test]
fn where_somebody_listens_nobody_else_can() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = Listen::Tcp(held.local_addr().expect("an address"));
    assert_eq!(listen(&place).expect_err("taken").kind(), ErrorKind::AddrInUse);
    drop(held);
    listen(&place).expect("it is free");
    let nobody = Listen::Tcp("192.0.2.1:9477".parse().expect("an address"));
    assert_eq!(listen(&nobody).expect_err("no such address").kind(), ErrorKind::AddrNotAvailable);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a b.sock");
    let place = Listen::Unix(path.clone());
    listen(&place).expect("nothing is there");
    let held = UnixListener::bind(&path).expect("bound");
    assert_eq!(listen(&place).expect_err("taken").kind(), ErrorKind::AddrInUse);
    drop(held);
    listen(&place).expect("nobody listens");
    let nowhere = Listen::Unix(folder.path().join("none/a.sock"));
    assert!(listen(&nowhere).expect_err("no folder").to_string().contains("there is no folder"));
}
