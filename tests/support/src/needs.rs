//! Requirements of a test on the host.

use std::fs::OpenOptions;
use std::path::Path;

/// Requirement that a host may not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root privileges and namespaces: `ip netns` can be used.
    Root,
    /// `/dev/kvm` can be opened.
    Kvm,
    /// `/dev/net/tun` can be opened.
    Tun,
    /// A program of this name in `PATH`.
    Program(&'static str),
}

/// Returns the reason why the first unmet requirement is not met; `None` if all are met.
pub fn missing(needs: &[Need]) -> Option<String> {
    needs.iter().find_map(|need| match need {
        Need::Root => (!rustix::process::geteuid().is_root()).then(|| "not run as root".to_owned()),
        Need::Kvm => cannot_open("/dev/kvm"),
        Need::Tun => cannot_open("/dev/net/tun"),
        Need::Program(name) => (!in_path(name)).then(|| format!("`{name}` is not installed")),
    })
}

fn cannot_open(device: &str) -> Option<String> {
    let opened = OpenOptions::new().read(true).write(true).open(device);
    opened.err().map(|error| format!("cannot open {device}: {error}"))
}

fn in_path(program: &str) -> bool {
    let found = |folder: &Path| folder.join(program).is_file();
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| found(&folder)))
}

/// Returns from the test, with a line that is counted as skipped, if the host does not meet a requirement:
/// `support::needs!(Root, Kvm, Program("busybox"));`
#[macro_export]
macro_rules! needs {
    ($($need:ident $(($name:literal))?),+ $(,)?) => {
        if let Some(why) = $crate::missing(&[$($crate::Need::$need $(($name))?),+]) {
            println!("SKIPPED: {why}");
            return;
        }
    };
}
