use std::fs;

use super::*;

fn installed(programs: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for program in programs {
        let path = root.path().join(program);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, "").expect("written");
    }
    root
}

fn layout() -> Layout {
    Layout::new(Path::new("/"), "edge").expect("a name")
}

fn line(command: &CommandLine) -> String {
    command.words.join(" ")
}

#[test]
fn a_missing_frr_is_one_line_that_names_the_package() {
    let root = installed(&[]);
    let missing = Programs::find(root.path(), [Daemon::Zebra]).expect_err("nothing is there").to_string();
    assert!(
        missing.contains("`zebra`") && missing.contains("package `frr`") && !missing.contains('\n'),
        "{missing}"
    );
    let root = installed(&["usr/lib/frr/zebra", "usr/bin/vtysh"]);
    let missing = Programs::find(root.path(), [Daemon::Zebra, Daemon::Bgp]).expect_err("no bgpd").to_string();
    assert!(missing.contains("`bgpd`"), "{missing}");
    let root = installed(&["usr/lib/frr/zebra"]);
    let missing = Programs::find(root.path(), [Daemon::Zebra]).expect_err("no vtysh").to_string();
    assert!(missing.contains("`vtysh`"), "{missing}");
}

#[test]
fn command_lines_are_those_of_frr() {
    let root = installed(&["usr/lib/frr/zebra", "usr/lib/frr/bfdd", "usr/bin/vtysh"]);
    let programs = Programs::find(root.path(), [Daemon::Zebra, Daemon::Bfd]).expect("all there");
    let options = Options { fpm: true, bfd: true };
    let zebra = programs.start(Daemon::Zebra, &layout(), options);
    assert_eq!(zebra.program, root.path().join("usr/lib/frr/zebra"));
    let common = "-N edge -A 127.0.0.1 -f /dev/null --log stdout --log-level informational";
    assert_eq!(line(&zebra), format!("{common} -r -K 120 -s 16777216 -M dplane_fpm_nl"));
    let bfd = line(&programs.start(Daemon::Bfd, &layout(), options));
    assert_eq!(bfd, format!("{common} --dplaneaddr unix:/run/frr/edge/bfdd_dplane.sock"));
    assert_eq!(line(&programs.start(Daemon::Bfd, &layout(), Options::default())), common);
    assert_eq!(line(&programs.load(&layout(), None)), "-N edge -b");
    assert_eq!(line(&programs.load(&layout(), Some(Daemon::Bgp))), "-N edge -b -d bgpd");
    assert_eq!(line(&programs.ask(&layout(), "show bfd peers json")), "-N edge -c show bfd peers json");
    assert_eq!((options.preamble().lines().count(), Options::default().preamble()), (1, String::new()));
}

#[test]
fn versions_are_read_as_zebra_tells_them() {
    for (told, version) in [
        ("zebra version 8.4.4\nCopyright 1996-2005 Kunihiro Ishiguro, et al.\n", Some((8, 4))),
        ("zebra version 8.5-dev\n", Some((8, 5))),
        ("zebra version 10.3-0~deb13u1\n", Some((10, 3))),
        ("zebra version unknown\n", None),
        ("zebra version 8\n", None),
        ("Copyright\nzebra version 8.4.4\n", None),
        ("", None),
    ] {
        assert_eq!(version_in(told), version, "{told}");
    }
}

#[test]
fn a_zebra_that_cannot_be_asked_reads_no_answers() {
    let root = installed(&["usr/lib/frr/zebra", "usr/bin/vtysh"]);
    let programs = Programs::find(root.path(), [Daemon::Zebra]).expect("all there");
    assert_eq!((programs.version(), programs.reads_answers()), (None, false), "it is no program");
}
