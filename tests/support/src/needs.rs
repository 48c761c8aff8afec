//! What a test needs of the host.

use std::fs::OpenOptions;
use std::path::Path;

/// Something that a host may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The rights of root, and namespaces: `ip netns` can be used.
    Root,
    /// `/dev/kvm` can be opened.
    Kvm,
    /// `/dev/net/tun` can be opened.
    Tun,
    /// A program of this name in `PATH`.
    Program(&'static str),
}

/// Why the first of `needs` that is missing is missing; `None` if all are there.
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

/// Leaves the test, with a line that is counted as skipped, if the host lacks something:
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
