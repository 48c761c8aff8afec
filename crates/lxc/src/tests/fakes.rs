//! Scripts that replace LXC's programs, with selectable behaviour.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::Programs;

/// Replaces `lxc-start`: stops itself until it is killed, and never has a child process, which could survive it.
pub(super) const STAYS: &str = "echo $$ >\"$2/$4/pid\"; kill -STOP $$";
/// Fails with an error in the log, as LXC does.
pub(super) const REFUSES: &str = "echo \"lxc-start $4 1 ERROR    network - ../src/lxc/network.c:x:1 - No such device - Failed\" >\"$7\"; exit 1";
/// Reports the running container.
pub(super) const TELLS: &str = "read pid <\"$2/$4/pid\" && kill -0 $pid && printf 'State:          RUNNING\\nPID:            %s\\n' $pid";
/// Kills the running container.
pub(super) const KILLS: &str = "read pid <\"$2/$4/pid\" && kill -9 $pid";
/// Neither does anything nor exits.
pub(super) const HANGS: &str = "kill -STOP $$";

/// A directory with programs, and one for the containers of a run.
pub(super) struct Fakes {
    folder: TempDir,
}

impl Fakes {
    /// Creates these scripts for `lxc-start`, `lxc-info` and `lxc-stop`.
    pub(super) fn new(start: &str, info: &str, stop: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, script) in [("lxc-start", start), ("lxc-info", info), ("lxc-stop", stop)] {
            write(&folder.path().join(name), script);
        }
        std::fs::create_dir(folder.path().join("home")).expect("a folder");
        Self { folder }
    }

    pub(super) fn programs(&self) -> Programs {
        Programs::at(self.folder.path())
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Removes one of the programs.
    pub(super) fn remove(&self, name: &str) {
        std::fs::remove_file(self.folder.path().join(name)).expect("it was there");
    }
}

/// Writes a script by another process. If this process had it open for writing, a child forked by another test could inherit
/// the descriptor, and executing the script would fail (ETXTBSY).
fn write(path: &Path, script: &str) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut pipe = shell.stdin.take().expect("its input");
    writeln!(pipe, "#!/bin/sh\n{script}").expect("it reads");
    drop(pipe);
    assert!(shell.wait().expect("it ends").success());
}
