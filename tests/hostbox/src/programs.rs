//! Programs of this host, and their shared libraries.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Runs a command to completion and returns its output.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(done.status.success(), "`{shown}` failed: {}", last_line(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Last line of a program's error messages.
pub(crate) fn last_line(complaint: &[u8]) -> String {
    let complaint = String::from_utf8_lossy(complaint);
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it does not say why").to_owned()
}

/// Finds a program by its path, or by its name in `PATH` or in root's folders.
pub(crate) fn find(program: &str) -> Result<PathBuf> {
    if program.contains('/') {
        ensure!(Path::new(program).is_file(), "there is no {program}");
        return Ok(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut candidates = folders.map(|folder| folder.join(program));
    candidates.find(|path| path.is_file()).with_context(|| format!("`{program}` is not installed"))
}

/// Lists the shared libraries and the loader of a program or library; empty for a static one.
pub(crate) fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let done =
        Command::new("ldd").arg(program).stdin(Stdio::null()).output().context("cannot start `ldd`")?;
    let text = String::from_utf8_lossy(&done.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        bail!("{}: {}", program.display(), line.trim());
    }
    Ok(text.lines().filter_map(library).collect())
}

/// Parses `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the loader.
fn library(line: &str) -> Option<PathBuf> {
    let (before, _) = line.rsplit_once(" (0x")?;
    let path = before.split_once("=> ").map_or(before, |(_, path)| path).trim();
    path.starts_with('/').then(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_what_ldd_says() {
        let said = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tstatically linked\n";
        let found: Vec<PathBuf> = said.lines().filter_map(library).collect();
        assert_eq!(
            found,
            [Path::new("/lib/x86_64-linux-gnu/libc.so.6"), Path::new("/lib64/ld-linux-x86-64.so.2")]
        );
    }

    #[test]
    fn a_program_is_found_with_what_it_needs() {
        let bash = find("bash").unwrap();
        assert!(libraries(&bash).unwrap().iter().any(|path| path.ends_with("libc.so.6")));
        assert!(find("no-such-program").unwrap_err().to_string().contains("not installed"));
    }
}
