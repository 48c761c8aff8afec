//! Objective: `cargo xtask deb` makes a package that Debian's tools accept, reproducibly; it installs into an empty
//! root and is removed from it completely; its unit passes systemd's own check, and the rights that the unit leaves a
//! run are sufficient.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use support::{Finished, Traces, alone};
use tempfile::TempDir;

/// Packing takes a few seconds; building the packing task takes a minute, and many if other builds run as well.
const PATIENCE: Duration = Duration::from_secs(900);
const GONE: Duration = Duration::from_secs(60);
const UNIT: &str = "lib/systemd/system/ringroad@.service";
/// The unit for runs with control planes, and the file that adds the rights that they need.
const CONTROL: [&str; 2] = [
    "lib/systemd/system/ringroad-control@.service",
    "lib/systemd/system/ringroad-control@.service.d/rights.conf",
];

fn run(command: &mut Command) -> Finished {
    support::run(command, PATIENCE).expect("it ends")
}

/// Runs a command that must succeed; returns its output.
#[track_caller]
fn answer(command: &mut Command) -> String {
    let done = run(command);
    assert!(done.status.success(), "{command:?}: {}\n{}", done.stdout, done.stderr);
    done.stdout
}

fn pack(folder: &Path, umask: &str) -> PathBuf {
    // The lab must be in the same folder as the command; if it is not, this builds it.
    answer(Command::new(env!("CARGO_BIN_EXE_ringroad")).args(["lab", "list"]));
    let mut command = Command::new("sh");
    // The packer's umask must have no effect.
    let script = format!("umask {umask} && exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(task()).args(["deb", "--binary", env!("CARGO_BIN_EXE_ringroad")]);
    let said = answer(command.arg("--output").arg(folder).current_dir(env!("CARGO_MANIFEST_DIR")));
    PathBuf::from(said.lines().last().expect("it tells where the package is"))
}

/// Returns the program behind `cargo xtask`.
fn task() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "xtask", "--message-format=json"]);
    let said = answer(build.current_dir(env!("CARGO_MANIFEST_DIR")));
    let messages = said.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let programs: Vec<PathBuf> =
        messages.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?))).collect();
    programs.into_iter().find(|path| path.ends_with("xtask")).expect("a program")
}

/// Returns the package, which the first test of a run that needs it makes for all of them. A process that `cargo xtask test` has not
/// started makes its own.
fn package() -> &'static Path {
    static PACKAGE: OnceLock<(Option<TempDir>, PathBuf)> = OnceLock::new();
    let make = || {
        let common = support::common_folder();
        let own = common.is_none().then(|| tempfile::tempdir().expect("a folder"));
        let folder = common.as_deref().or(own.as_ref().map(TempDir::path)).expect("one of them");
        let fill = |folder: &Path| drop(pack(folder, "022"));
        let made = support::made_once(folder, &of_program(), fill).expect("a package");
        (own, package_in(&made))
    };
    &PACKAGE.get_or_init(make).1
}

/// Returns a name for the package of the program as it is now.
fn of_program() -> String {
    let facts = fs::metadata(env!("CARGO_BIN_EXE_ringroad")).expect("the program");
    let written = facts.modified().expect("a time").duration_since(UNIX_EPOCH).expect("since 1970");
    format!("package-{}-{}", facts.len(), written.as_nanos())
}

/// Finds the package in a folder.
fn package_in(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path());
    files.find(|path| path.extension().is_some_and(|ending| ending == "deb")).expect("a package")
}

/// Unpacks its files into a temporary folder.
fn unpacked() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    answer(Command::new("dpkg-deb").arg("-x").arg(package()).arg(folder.path()));
    folder
}

/// Returns the values of one key of the unit, as words.
fn unit_words(root: &Path, key: &str) -> Vec<String> {
    words_of(root, &[UNIT], key)
}

/// Returns the values of one key in the files of a unit, as words.
fn words_of(root: &Path, files: &[&str], key: &str) -> Vec<String> {
    let read = |file: &&str| fs::read_to_string(root.join(file)).expect("a unit");
    let unit: String = files.iter().map(read).collect();
    let values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// One router between the host and nothing.
fn file_with(engine: &str) -> String {
    format!(
        "[[router]]\nname = \"t18\"\nengine = \"{engine}\"\n[[router.nic]]\nname = \"wan\"\n\
         attach = \"tap:t18-wan\"\naddress = \"192.0.2.1/24\"\n"
    )
}

/// Runs a program with the capabilities that the unit leaves it, and with the paths mounted read-only that the unit
/// makes so.
fn confined(root: &Path, program: &Path) -> Command {
    confined_by(root, &[UNIT], program)
}

/// Runs a program under the restrictions of the unit that these files make up.
fn confined_by(root: &Path, files: &[&str], program: &Path) -> Command {
    let unit_words = |root: &Path, key: &str| words_of(root, files, key);
    let capabilities = unit_words(root, "CapabilityBoundingSet");
    assert!(!capabilities.is_empty());
    let kept = capabilities.iter().map(|name| name.trim_start_matches("CAP_").to_ascii_lowercase());
    let kept = kept.map(|name| format!(",+{name}")).collect::<String>();
    let mut closed = unit_words(root, "ReadOnlyPaths");
    // Implied paths, see systemd.exec(5).
    if unit_words(root, "ProtectKernelTunables") == ["yes"] {
        closed.extend(["/sys", "/proc/sys", "/proc/irq"].map(str::to_owned));
    }
    if unit_words(root, "ProtectControlGroups") == ["yes"] {
        closed.push("/sys/fs/cgroup".to_owned());
    }
    let closed = closed.iter().map(|path| format!(" '{}'", path.trim_start_matches('-'))).collect::<String>();
    // What is open again behind what is closed, but for control groups, which this does not hide.
    let open = unit_words(root, "ReadWritePaths").into_iter().filter(|path| path.starts_with("/proc/"));
    let open = open.map(|path| format!(" '{path}'")).collect::<String>();
    let script = format!(
        "for path in{closed}; do [ -e $path ] || continue; mount --rbind $path $path && mount -o remount,bind,ro $path || exit 99; \
         done; for path in{open}; do mount --bind $path $path && mount -o remount,bind,rw $path || exit 98; done; \
         exec setpriv --inh-caps=-all --no-new-privs --bounding-set=-all{kept} \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(program);
    command
}

mod all {
    use super::*;

    #[test]
    fn two_packages_of_one_commit_are_the_same_octets() {
        support::needs!(Program("dpkg-deb"), Program("dpkg-shlibdeps"), Program("strip"), Program("git"));
        let (one, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        // A commit may be made in between: then try again.
        let pairs = (0..3).map(|_| (pack(one.path(), "022"), pack(other.path(), "077")));
        let (first, second) =
            pairs.into_iter().find(|(a, b)| a.file_name() == b.file_name()).expect("a pair");
        assert!(fs::read(&second).expect("a package") == fs::read(&first).expect("a package"));
        let names = |folder: &Path| {
            fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("one").file_name())
        };
        assert!(names(other.path()).all(|name| name.to_string_lossy().ends_with(".deb")));
    }

    #[test]
    fn it_says_what_it_is_and_holds_what_it_should() {
        support::needs!(Program("dpkg-deb"), Program("dpkg-shlibdeps"), Program("strip"), Program("git"));
        let field = |name: &str| answer(Command::new("dpkg-deb").arg("-f").arg(package()).arg(name));
        assert_eq!(field("Package"), "ringroad");
        assert!(field("Version").starts_with(env!("CARGO_PKG_VERSION")), "{}", field("Version"));
        assert_eq!(field("Architecture"), answer(Command::new("dpkg").arg("--print-architecture")));
        assert!(field("Depends").contains("libc6 (>= 2."), "{}", field("Depends"));
        let listed = answer(Command::new("dpkg-deb").arg("-c").arg(package()));
        for (mode, path) in [
            ("-rwxr-xr-x", "usr/bin/ringroad"),
            ("-rwxr-xr-x", "usr/bin/ringroad-lab"),
            ("-rw-r--r--", UNIT),
            ("-rw-r--r--", CONTROL[0]),
            ("-rw-r--r--", CONTROL[1]),
            ("drwxr-xr-x", "etc/ringroad/"),
            ("-rw-r--r--", "usr/share/doc/ringroad/copyright"),
            ("-rw-r--r--", "usr/share/doc/ringroad/changelog.gz"),
            ("-rw-r--r--", "usr/share/doc/ringroad/examples/two-routers.toml"),
        ] {
            let found = |line: &&str| {
                line.starts_with(&format!("{mode} root/root ")) && line.ends_with(&format!(" ./{path}"))
            };
            assert!(listed.lines().find(found).is_some(), "{mode} {path} in:\n{listed}");
        }
        let control = tempfile::tempdir().expect("a folder");
        answer(Command::new("dpkg-deb").arg("-e").arg(package()).arg(control.path()));
        let root = unpacked();
        for text in ["control", "md5sums", "postinst", "prerm", "postrm"] {
            let text = fs::read_to_string(control.path().join(text)).expect("a part of the package");
            assert!(!text.contains('{'), "a fact was not filled in: {text}");
        }
        let copyright =
            fs::read_to_string(root.path().join("usr/share/doc/ringroad/copyright")).expect("a text");
        assert!(!copyright.contains('{') && copyright.contains("libc v"), "{copyright}");
    }

    #[test]
    fn lintian_finds_no_error() {
        support::needs!(Program("dpkg-shlibdeps"), Program("strip"), Program("git"), Program("lintian"));
        let done = run(Command::new("lintian").args(["--fail-on", "error", "--allow-root"]).arg(package()));
        assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    }

    #[test]
    fn it_installs_into_an_empty_root_runs_from_there_and_goes_without_a_rest() {
        support::needs!(Root, Program("dpkg-shlibdeps"), Program("strip"), Program("git"));
        let root = tempfile::tempdir().expect("a folder");
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(root.path().join("var/lib/dpkg").join(folder)).expect("made");
        }
        for file in ["status", "available"] {
            fs::write(root.path().join("var/lib/dpkg").join(file), "").expect("written");
        }
        let dpkg = |words: &[&str]| {
            let mut command = Command::new("dpkg");
            // The libraries are those of the host, and so are the scripts' shell and systemctl.
            command.arg(format!("--root={}", root.path().display()));
            command.args(["--force-depends", "--force-script-chrootless", "--log=/dev/null"]).args(words);
            answer(&mut command)
        };
        dpkg(&["--install", package().to_str().expect("a path")]);
        assert_eq!(dpkg(&["--verify", "ringroad"]), "");
        let installed = root.path().join("usr/bin/ringroad");
        let version = answer(Command::new(&installed).arg("--version"));
        assert_eq!(version, format!("ringroad {}", env!("CARGO_PKG_VERSION")));
        let experiments = answer(Command::new(&installed).args(["lab", "list"]));
        assert!(experiments.lines().any(|line| line.starts_with("forward ")), "{experiments}");
        let entries = fs::read_dir(root.path().join("usr/share/doc/ringroad/examples")).expect("examples");
        let files = entries.map(|entry| entry.expect("an example").path());
        for example in files.filter(|file| file.extension().is_some_and(|ending| ending == "toml")) {
            let done = run(Command::new(&installed).arg("check").arg(&example));
            assert!(done.stdout.contains("router"), "{}: {}{}", example.display(), done.stdout, done.stderr);
        }
        dpkg(&["--purge", "ringroad"]);
        for rest in ["usr", "lib", "etc"] {
            assert!(!root.path().join(rest).exists(), "{rest} is left");
        }
    }

    #[test]
    fn systemd_accepts_the_unit_and_finds_little_exposed() {
        support::needs!(
            Program("dpkg-shlibdeps"),
            Program("strip"),
            Program("git"),
            Program("systemd-analyze")
        );
        let root = unpacked();
        let unit = root.path().join(UNIT);
        // Replace the program's path by its path here.
        let text = fs::read_to_string(&unit).expect("a unit");
        let program = root.path().join("usr/bin/ringroad");
        fs::write(&unit, text.replace("/usr/bin/ringroad", program.to_str().expect("a path")))
            .expect("written");
        let done = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit));
        // It reports faults in other units of the host as well.
        let faults: Vec<&str> = done.stderr.lines().filter(|line| line.contains("ringroad")).collect();
        assert_eq!(faults, [""; 0]);
        let other = root.path().join(CONTROL[0]);
        let text = fs::read_to_string(&other).expect("a unit");
        fs::write(&other, text.replace("/usr/bin/ringroad", program.to_str().expect("a path")))
            .expect("written");
        let done = run(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&other));
        let faults: Vec<&str> = done.stderr.lines().filter(|line| line.contains("ringroad")).collect();
        assert_eq!(faults, [""; 0], "with more rights");
        let mut command = Command::new("systemd-analyze");
        command.args(["security", "--offline=true", "--no-pager", "--threshold=45"]).arg(&unit);
        let done = run(&mut command);
        assert!(done.status.success(), "{}{}", done.stdout, done.stderr);
    }

    #[test]
    fn the_unit_calls_the_program_as_it_can_be_called() {
        support::needs!(Program("dpkg-shlibdeps"), Program("strip"), Program("git"));
        let root = unpacked();
        // Folder in which it finds the learned packet costs again.
        assert_eq!(unit_words(root.path(), "StateDirectory"), ["ringroad"]);
        for key in ["ExecStart", "ExecReload"] {
            let words = unit_words(root.path(), key);
            let (program, words) = words.split_first().expect("a command");
            assert_eq!(program, "/usr/bin/ringroad", "{key}");
            let file = words.last().expect("a file");
            assert_eq!(file, "/etc/ringroad/%i.toml", "{key}");
            // The missing file must be the complaint, not the command-line words.
            let words = words.iter().map(|word| {
                word.replace("/etc/ringroad/%i.toml", "/does/not/exist.toml").replace("%i", "edge")
            });
            let done = run(Command::new(root.path().join("usr/bin/ringroad")).args(words));
            assert_eq!(done.status.code(), Some(1), "{key}: {}", done.stderr);
            assert!(done.stderr.contains("/does/not/exist.toml"), "{key}: {}", done.stderr);
        }
    }

    #[test]
    fn it_tells_systemd_when_it_is_up() {
        support::needs!(Root, Tun, Program("dpkg-shlibdeps"), Program("strip"), Program("git"));
        let _turn = alone();
        let root = unpacked();
        assert_eq!(unit_words(root.path(), "Type"), ["notify"]);
        let (file, socket) = (root.path().join("file.toml"), root.path().join("notify"));
        fs::write(&file, file_with("process")).expect("written");
        let heard = UnixDatagram::bind(&socket).expect("bound");
        heard.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut command = Command::new(root.path().join("usr/bin/ringroad"));
        command.args(["run", "--json", "--seconds", "0.5"]).arg(&file).env("NOTIFY_SOCKET", &socket);
        let done = run(&mut command);
        assert!(done.status.success(), "{}", done.stderr);
        let mut octets = [0; 256];
        let length = heard.recv(&mut octets).expect("it tells");
        let said = String::from_utf8_lossy(&octets[..length]).into_owned();
        assert!(said.lines().any(|line| line == "READY=1"), "{said}");
    }

    #[test]
    fn the_unit_lets_interrupts_be_moved() {
        support::needs!(
            Root,
            Program("dpkg-shlibdeps"),
            Program("strip"),
            Program("git"),
            Program("setpriv"),
            Program("unshare")
        );
        let root = unpacked();
        // Write each interrupt's present affinity back.
        let script = "for file in /proc/irq/*/smp_affinity_list; do echo \"$(cat $file)\" >$file && exit 0; done 2>/dev/null; exit 1";
        if !run(Command::new("sh").args(["-c", script])).status.success() {
            println!("SKIPPED: no interrupt of this host can be moved");
            return;
        }
        let done = run(confined(root.path(), Path::new("sh")).args(["-c", script]));
        assert!(done.status.success(), "{}: {}", done.status, done.stderr);
        // The host's tunables can only be read.
        let done =
            run(confined(root.path(), Path::new("sh")).args(["-c", "echo 1 >/proc/sys/vm/stat_interval"]));
        assert!(
            !done.status.success() && done.stderr.contains("Read-only"),
            "{}: {}",
            done.status,
            done.stderr
        );
    }

    #[test]
    fn the_rights_of_the_other_unit_are_enough_for_frr_and_those_of_the_unit_are_not() {
        support::needs!(
            Root,
            Tun,
            Program("dpkg-shlibdeps"),
            Program("strip"),
            Program("git"),
            Program("setpriv"),
            Program("unshare"),
            Program("vtysh")
        );
        let _turn = alone();
        let root = unpacked();
        let (file, frr) = (root.path().join("file.toml"), root.path().join("frr.conf"));
        fs::write(&frr, "router ospf\n ospf router-id 192.0.2.1\n").expect("written");
        let control = format!("control = {{ frr = \"{}\" }}\n", frr.display());
        let text = file_with("process").replacen("[[router.nic]]", &format!("{control}[[router.nic]]"), 1);
        fs::write(&file, text).expect("written");
        let program = root.path().join("usr/bin/ringroad");
        let before = Traces::now();
        let mut command = confined_by(root.path(), &CONTROL, &program);
        let mut running =
            support::Running::start(command.args(["run", "--log", "text"]).arg(&file)).expect("it starts");
        running
            .wait_for_line(PATIENCE, |line| line.contains("FRR has loaded its configuration"))
            .expect("FRR runs");
        running.signal(support::Signal::TERM).expect("signalled");
        let done = running.wait(PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
        assert_eq!(Traces::left(&before, GONE), [""; 0]);
        let mut command = confined(root.path(), &program);
        let done = run(command.args(["run", "--json", "--seconds", "1"]).arg(&file));
        assert!(!done.status.success(), "it makes a namespace without the right to");
        assert_eq!(Traces::left(&before, GONE), [""; 0]);
    }

    #[test]
    fn the_capabilities_of_the_unit_are_enough() {
        support::needs!(
            Root,
            Tun,
            Program("dpkg-shlibdeps"),
            Program("strip"),
            Program("git"),
            Program("setpriv"),
            Program("unshare")
        );
        let _turn = alone();
        let root = unpacked();
        let mut engines = vec!["process"];
        match support::missing(&[support::Need::Kvm]) {
            None => engines.push("kvm"),
            Some(why) => println!("SKIPPED: engine kvm: {why}"),
        }
        for engine in engines {
            let before = Traces::now();
            let file = root.path().join("file.toml");
            fs::write(&file, file_with(engine)).expect("written");
            let mut command = confined(root.path(), &root.path().join("usr/bin/ringroad"));
            command.args(["run", "--json", "--seconds", "1"]).arg(&file);
            let done = run(&mut command);
            assert!(done.status.success(), "{engine}: {}", done.stderr);
            assert!(done.stdout.contains("t18"), "{engine}: {}", done.stdout);
            assert_eq!(Traces::left(&before, GONE), [""; 0]);
        }
    }
}
