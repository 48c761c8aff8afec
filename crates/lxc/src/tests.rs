mod fakes;
mod groups;
mod lives;

use std::path::{Path, PathBuf};

use netlink::MacvtapMode;
use proptest::prelude::*;

use super::*;
use crate::folder::is_mounted_below;
use crate::info::cause;
use crate::orphan::is_lxc_start_command;

/// Paths of a Debian 12 host: programs in `/usr`, and links to there.
fn ground() -> HostPaths {
    let links =
        ["bin", "lib", "lib64", "sbin"].map(|name| (name.to_owned(), PathBuf::from(format!("usr/{name}"))));
    HostPaths {
        folder: PathBuf::from("/run/ringroad/pair/lxc/ringroad-edge"),
        mounted: vec!["usr".to_owned()],
        links: links.into(),
        seccomp: Some(PathBuf::from("/usr/share/lxc/config/common.seccomp")),
    }
}

fn nic(name: &str, link: Link) -> Nic {
    Nic { name: name.to_owned(), link, mac: None, mtu: None }
}

fn veth(name: &str, peer: &str) -> Nic {
    nic(name, Link::Veth { peer: peer.to_owned() })
}

fn container(nics: Vec<Nic>) -> Container {
    Container { name: name_for("edge"), host_name: "edge".to_owned(), root: Root::Programs, nics }
}

#[test]
fn the_text_of_the_papers_set_ups() {
    let nics = vec![
        Nic { mac: Some([2, 0, 0, 0, 0, 0x1a]), mtu: Some(1400), ..veth("lan", "rr-edge") },
        nic("wan", Link::Macvlan { parent: "eth0".to_owned(), mode: MacvtapMode::Bridge }),
        Nic { mac: Some([2, 0, 0, 0, 0, 9]), ..nic("vf", Link::Phys { link: "eth2".to_owned() }) },
    ];
    let expected = "\
lxc.uts.name = edge
lxc.console.path = none
lxc.tty.max = 0
lxc.pty.max = 64
lxc.autodev = 1
lxc.mount.auto = proc:mixed sys:mixed
lxc.seccomp.profile = /usr/share/lxc/config/common.seccomp
lxc.rootfs.path = dir:/run/ringroad/pair/lxc/ringroad-edge/root
lxc.mount.entry = /usr usr none bind,ro,nosuid,nodev 0 0
lxc.mount.entry = tmpfs run tmpfs nosuid,nodev,size=4m 0 0
lxc.mount.entry = tmpfs tmp tmpfs nosuid,nodev,size=4m 0 0
lxc.cap.keep = chown dac_override fowner fsetid kill net_admin net_bind_service net_raw setgid setpcap setuid
lxc.init.cmd = /bin/sleep infinity
lxc.signal.halt = SIGKILL
lxc.net.0.type = veth
lxc.net.0.veth.pair = rr-edge
lxc.net.0.name = lan
lxc.net.0.flags = up
lxc.net.0.hwaddr = 02:00:00:00:00:1a
lxc.net.0.mtu = 1400
lxc.net.1.type = macvlan
lxc.net.1.macvlan.mode = bridge
lxc.net.1.link = eth0
lxc.net.1.name = wan
lxc.net.1.flags = up
lxc.net.2.type = phys
lxc.net.2.link = eth2
lxc.net.2.name = vf
lxc.net.2.flags = up
";
    assert_eq!(text(&container(nics), &ground()).expect("it can be told"), expected);
}

#[test]
fn files_of_the_owners_have_their_own_init() {
    let init = ["/sbin/init", "--log"].map(str::to_owned).into();
    let root = Root::Folder { path: PathBuf::from("/srv/a router"), init };
    let container = Container { root, ..container(vec![]) };
    let text = text(&container, &HostPaths { seccomp: None, ..ground() }).expect("it can be told");
    let expected = [
        "lxc.rootfs.path = dir:/srv/a router",
        "lxc.cap.drop = mac_admin mac_override mknod sys_boot sys_module sys_rawio sys_time syslog",
        "lxc.init.cmd = /sbin/init --log",
    ];
    for line in expected.into_iter().chain(["lxc.net.0.type = empty"]) {
        assert!(text.lines().any(|known| known == line), "{line} is not in:\n{text}");
    }
    assert!(
        !text.contains("mount.entry") && !text.contains("seccomp") && !text.contains("signal.halt"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_told_is_refused() {
    let with_root = |path: &str, init: &[&str]| {
        let init = init.iter().map(|word| (*word).to_owned()).collect();
        Container { root: Root::Folder { path: PathBuf::from(path), init }, ..container(vec![]) }
    };
    let cases = [
        (Container { name: "a/b".to_owned(), ..container(vec![]) }, "the name of a container is `a/b`"),
        (Container { name: String::new(), ..container(vec![]) }, "the name of a container is ``"),
        (Container { name: "-n".to_owned(), ..container(vec![]) }, "the name of a container is `-n`"),
        (
            Container { host_name: "a\nlxc.cap.keep = all".to_owned(), ..container(vec![]) },
            "`a\\nlxc.cap.keep",
        ),
        (container(vec![veth("a-name-of-16-oct", "b")]), "`a-name-of-16-oct`"),
        (container(vec![veth("a", "b c")]), "`b c`"),
        (container(vec![veth("a", "x"), veth("a", "y")]), "is `a`, expected a unique name"),
        (container(vec![veth("a", "x"), veth("b", "x")]), "is `b`, expected a unique name"),
        (container(vec![Nic { mac: Some([1, 0, 0, 0, 0, 0]), ..veth("a", "x") }]), "a unicast address"),
        (container(vec![Nic { mtu: Some(67), ..veth("a", "x") }]), "is `67`, expected 68 to 65535"),
        (with_root("srv", &["/sbin/init"]), "the root of a container is `srv`"),
        (with_root("/srv/a#b", &["/sbin/init"]), "the root of a container"),
        (with_root("/", &["/sbin/init"]), "the root of a container is `/`"),
        (with_root("/srv", &[]), "the init of a container is ``"),
        (with_root("/srv", &["init"]), "the init of a container is `init`"),
        (with_root("/srv", &["/sbin/init", "a b"]), "the init of a container"),
    ];
    for (container, why) in cases {
        let line = text(&container, &ground()).expect_err("it cannot be told").to_string();
        assert!(line.contains(why) && line.lines().count() == 1, "{why}: {line}");
    }
}

#[test]
fn macvlans_may_stand_on_one_interface_and_moved_ones_are_moved_once() {
    let macvlan =
        |name: &str| nic(name, Link::Macvlan { parent: "eth0".to_owned(), mode: MacvtapMode::Private });
    assert!(check(&container(vec![macvlan("a"), macvlan("b")])).is_ok());
    let phys = |name: &str| nic(name, Link::Phys { link: "eth0".to_owned() });
    assert!(check(&container(vec![phys("a"), phys("b")])).is_err());
    assert!(check(&container(vec![veth("a", "eth0"), phys("b")])).is_err());
}

proptest! {
    /// For arbitrary values: a container that is accepted has the expected number of lines, and only keys that this crate
    /// writes.
    #[test]
    fn nothing_slips_in(
        host_name in "[a-z]{1,8}|(?s:.{0,20})",
        name in "[a-z]{1,8}|(?s:.{0,18})",
        peer in "[A-Z]{1,8}|(?s:.{0,18})",
        path in "/[a-z ]{0,8}[a-z]|/(?s:.{0,20})",
        word in "[a-z]{1,8}|(?s:.{0,10})",
    ) {
        let root = Root::Folder { path: PathBuf::from(path), init: vec!["/sbin/init".to_owned(), word] };
        let whole = Container { host_name, root, ..container(vec![veth(&name, &peer)]) };
        let Ok(text) = text(&whole, &ground()) else { return Ok(()) };
        prop_assert_eq!(text.lines().count(), 14, "{}", text);
        let keys = ["lxc.uts.", "lxc.console.", "lxc.tty.", "lxc.pty.", "lxc.autodev", "lxc.mount.auto", "lxc.seccomp.",
            "lxc.rootfs.path", "lxc.cap.drop", "lxc.init.cmd", "lxc.net.0."];
        for line in text.lines() {
            prop_assert!(keys.iter().any(|key| line.starts_with(key)), "{}", line);
        }
    }
}

#[test]
fn what_a_host_has_is_found() {
    let host = tempfile::tempdir().expect("a folder");
    for folder in ["usr", "lib32", "usr/share/lxc/config"] {
        std::fs::create_dir_all(host.path().join(folder)).expect("a folder");
    }
    std::os::unix::fs::symlink("usr/bin", host.path().join("bin")).expect("a link");
    std::fs::write(host.path().join("usr/share/lxc/config/common.seccomp"), "2\n").expect("a file");
    let found = HostPaths::look(host.path(), PathBuf::from("/run/x"));
    assert_eq!(found.mounted, ["lib32", "usr"]);
    assert_eq!(found.links, [("bin".to_owned(), PathBuf::from("usr/bin"))]);
    assert_eq!(found.seccomp.as_deref(), Some(Path::new("/usr/share/lxc/config/common.seccomp")));
    let bare = HostPaths::look(Path::new("/nowhere"), PathBuf::from("/run/x"));
    assert_eq!(
        bare,
        HostPaths { folder: PathBuf::from("/run/x"), mounted: vec![], links: vec![], seccomp: None }
    );
}

#[test]
fn what_lxc_info_says_is_read() {
    let read = |text: &str| Info::read(text).ok().map(|info| (info.state, info.pid));
    let whole = "Name:           ringroad-edge\nState:          RUNNING\nPID:            4711\nIP:             192.0.2.1\n";
    assert_eq!(read(whole), Some((State::Running, Some(4711))));
    assert_eq!(Info::read(whole).expect("its own words").running(), Some(4711));
    assert_eq!(read("State:          STOPPED\n"), Some((State::Stopped, None)));
    let frozen = Info::read("PID: 7\nState: FROZEN").expect("in any order");
    assert_eq!((frozen.state, frozen.running()), (State::Frozen, None));
    for text in [
        "",
        "PID: 7",
        "State:",
        "State: running",
        "State: RUNNING\nPID: x",
        "State: RUNNING\nPID: 0",
        "\u{1b}[2J",
    ] {
        let line = Info::read(text).expect_err("nobody can read it").to_string();
        assert!(line.lines().count() == 1 && !line.contains('\u{1b}'), "{line:?}");
    }
}

#[test]
fn the_cause_is_the_first_error() {
    let log = "\
lxc-start e 20261126050713.120 ERROR    seccomp - ../src/lxc/seccomp.c:parse_config:1 - Failed to load a filter
lxc-start e 20261126050713.123 WARN     cgfsng - ../src/lxc/cgroups/cgfsng.c:x:2 - Not so bad
lxc-start e 20261126050713.123 ERROR    network - ../src/lxc/network.c:netdev_configure_server_phys:1089 - No such device - Failed to \
retrieve ifindex for \"eth7\"
lxc-start e 20261126050713.124 ERROR    start - ../src/lxc/start.c:__lxc_start:2107 - Failed to spawn container \"e\"
";
    assert_eq!(cause(log).as_deref(), Some("No such device - Failed to retrieve ifindex for \"eth7\""));
    assert_eq!(cause("lxc-start e 1 ERROR    start - plain words\n").as_deref(), Some("plain words"));
    for log in ["", "lxc-start e 1 WARN x - y", "lxc-start e 1 ERROR ", "\0\0"] {
        assert_eq!(cause(log), None, "{log:?}");
    }
    let long = format!("l e 1 ERROR    x - a.c:b:1 - \u{7}{}", "y".repeat(1000));
    assert_eq!(cause(&long).expect("words"), "y".repeat(200));
}

#[test]
fn a_folder_with_a_mount_in_it_is_known() {
    let mounts = "36 35 98:0 / /run/x\\040y/root/usr ro - ext4 /dev/root ro\n37 35 0:5 / /run/z rw - tmpfs tmpfs rw\n\nodd\n";
    for (folder, mounted) in
        [("/run/x y", true), ("/run/x y/root/usr", true), ("/run/z", true), ("/run/x", false)]
    {
        assert_eq!(is_mounted_below(mounts, Path::new(folder)), mounted, "{folder}");
    }
}

#[test]
fn a_process_is_known_by_its_words() {
    let told: Vec<String> = ["-P", "/run/a", "-n", "e"].map(str::to_owned).into();
    let cases: [(&[u8], bool); 9] = [
        (b"lxc-start\0-P\0/run/a\0-n\0e\0-F\0", true),
        (b"/usr/bin/lxc-start\0-P\0/run/a\0-n\0e\0", true),
        (b"/bin/sh\0/tmp/lxc-start\0-P\0/run/a\0-n\0e\0-F\0", true),
        (b"lxc-start\0-P\0/run/a\0-n\0ee\0", false),
        (b"lxc-start\0-P\0/run/ab\0-n\0e\0", false),
        (b"lxc-start\0-n\0e\0", false),
        (b"xlxc-start\0-P\0/run/a\0-n\0e\0", false),
        (b"vi\0x\0lxc-start\0-P\0/run/a\0-n\0e\0", false),
        (b"", false),
    ];
    for (cmdline, is) in cases {
        assert_eq!(is_lxc_start_command(cmdline, &told), is, "{}", String::from_utf8_lossy(cmdline));
    }
}

#[test]
fn what_is_left_can_be_written_down() {
    let left = OrphanedContainer::new("ringroad-edge", Path::new("/run/ringroad/pair/lxc"));
    let text = serde_json::to_string(&left).expect("plain words");
    assert_eq!(serde_json::from_str::<OrphanedContainer>(&text).expect("its own text"), left);
    assert_eq!(left.folder(), Path::new("/run/ringroad/pair/lxc/ringroad-edge"));
}
