use super::*;

#[test]
fn each_engine_has_a_case() {
    let names = STANDS.map(|(stand, _)| stand.by.name());
    assert_eq!(names, ["kvm", "process", "linux", "kernel", "lxc"]);
}

/// Nothing is started for these.
#[test]
fn a_linux_guest_is_not_run_without_its_files() {
    let refused = |options: &Options| {
        let measured = measure((Stand::LINUX_TAP, Stand::LINUX_TAP), options, 0);
        format!("{:#}", measured.expect_err("there is no guest"))
    };
    let line = refused(&Options::default());
    assert!(line.contains("--kernel PATH --initrd PATH") && line.lines().count() == 1, "{line}");
    let line = refused(&Options { kernel: Some("/nowhere/vmlinuz".into()), ..Options::default() });
    assert!(line.starts_with("/nowhere/vmlinuz: ") && line.lines().count() == 1, "{line}");
}
