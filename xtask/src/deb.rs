//! `cargo xtask deb`: builds the Debian package reproducibly: the same commit in the same folder gives the same octets, whatever the target
//! folder. The tier `all` builds it twice to verify that.

mod facts;
mod reproducible;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::step::{COMMAND, LAB, Step, installed, root, target_dir};
use facts::Facts;
pub(crate) use reproducible::reproducible;
use tree::Tree;

/// Debian's tools for making a package, and the packages that provide them.
const TOOLS: [(&str, &str); 4] =
    [("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"), ("strip", "binutils"), ("gzip", "gzip")];
/// Maintainer scripts, which dpkg runs at installation and removal.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Time limit of a build.
const BUILD: Duration = Duration::from_secs(3600);
/// Folder of packaged systemd units. (Debian 12 expects them here, not below /usr.)
const UNITS: &str = "lib/systemd/system";
const DOCUMENTS: &str = "usr/share/doc/ringroad";

struct Options {
    /// The command; the lab is in the same folder.
    binary: Option<PathBuf>,
    output: PathBuf,
}

/// Builds the command and the lab unless given, and packs them; prints the path of the package.
pub(crate) fn run(arguments: &[String]) -> Result<bool> {
    let options = parse(arguments)?;
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let binary = match options.binary {
        Some(binary) => binary,
        None => build(&target_dir())?,
    };
    println!("{}", made(&binary, &Facts::gather()?, &options.output)?.display());
    Ok(true)
}

/// Returns the reason why no package can be made here.
fn missing() -> Option<String> {
    let (tool, package) = TOOLS.iter().find(|(tool, _)| !installed(tool))?;
    Some(format!("`{tool}` is not installed: apt-get install {package}"))
}

/// Packs a program in a folder; returns the path of the package.
fn made(binary: &Path, facts: &Facts, output: &Path) -> Result<PathBuf> {
    let stage = output.join("stage");
    let tree = Tree::new(stage.clone())?;
    fill(&tree, binary, facts, &output.join("shlibdeps")).context("cannot lay the package out")?;
    let package = output.join(facts.file_name());
    pack(&stage, &package, facts)?;
    fs::remove_dir_all(&stage)?;
    Ok(package)
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options { binary: None, output: target_dir().join("debian") };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let mut path = || -> Result<PathBuf> {
            let value = rest.next().with_context(|| format!("{word} needs a path"))?;
            std::path::absolute(value).with_context(|| format!("{word} {value}: no path"))
        };
        match word.as_str() {
            "--binary" => options.binary = Some(path()?),
            "--output" => options.output = path()?,
            _ => bail!("unexpected argument `{word}`; there are --binary FILE and --output FOLDER"),
        }
    }
    Ok(options)
}

/// Builds both programs in a target folder; returns the path of the command.
fn build(target: &Path) -> Result<PathBuf> {
    for package in [COMMAND, LAB.0] {
        let step = Step::new("cargo").args(["build", "--release", "--locked", "--package", package]);
        let step = step.env("CARGO_TARGET_DIR", target).limit(BUILD);
        ensure!(step.run()?, "the release build failed");
    }
    Ok(target.join("release").join(COMMAND))
}

/// The unit, and the same with more rights, for runs with control planes and kernel routers.
fn units(tree: &Tree) -> Result<()> {
    let unit = packaging("ringroad@.service")?;
    tree.write(&format!("{UNITS}/ringroad@.service"), &unit, 0o644)?;
    let other = unit.replace("ringroad@", "ringroad-control@");
    tree.write(&format!("{UNITS}/ringroad-control@.service"), &other, 0o644)?;
    let more = packaging("ringroad-control.conf")?;
    tree.write(&format!("{UNITS}/ringroad-control@.service.d/rights.conf"), &more, 0o644)
}

fn fill(tree: &Tree, binary: &Path, facts: &Facts, scratch: &Path) -> Result<()> {
    let programs = [
        tree.copy(binary, "usr/bin/ringroad", 0o755)?,
        tree.copy(&binary.with_file_name(LAB.1), "usr/bin/ringroad-lab", 0o755)?,
    ];
    answer(Command::new("strip").args(["--strip-unneeded", "--remove-section=.comment"]).args(&programs))?;
    // Examples and units refer to /usr/bin/ringroad; router files belong in this folder.
    tree.folder("etc/ringroad")?;
    units(tree)?;
    for document in ["README.md", "CHANGELOG.md", "SECURITY.md"] {
        // Skip a document that does not exist (yet).
        if let Ok(text) = fs::read(root().join(document)) {
            tree.write_packed(&format!("{DOCUMENTS}/{document}.gz"), &text)?;
        }
    }
    for example in facts::names_in(&root().join("examples"))? {
        tree.copy(
            &root().join("examples").join(&example),
            &format!("{DOCUMENTS}/examples/{example}"),
            0o644,
        )?;
    }
    let copyright = facts.fill_in(&packaging("debian/copyright")?)?;
    tree.write(&format!("{DOCUMENTS}/copyright"), &copyright, 0o644)?;
    let changelog = facts.fill_in(&packaging("debian/changelog")?)?;
    tree.write_packed(&format!("{DOCUMENTS}/changelog.gz"), changelog.as_bytes())?;
    // The installed files are complete; the control files follow.
    let (size, sums) = (tree.kib()?, tree.md5sums()?);
    let depends = shared_libraries(&programs, scratch)?;
    let control = packaging("debian/control")?.replace("{size}", &size.to_string());
    let control = facts.fill_in(&control.replace("{depends}", &depends))?;
    tree.write("DEBIAN/control", &control, 0o644)?;
    tree.write("DEBIAN/md5sums", &sums, 0o644)?;
    for script in SCRIPTS {
        tree.write(&format!("DEBIAN/{script}"), &packaging(&format!("debian/{script}"))?, 0o755)?;
    }
    Ok(())
}

fn packaging(name: &str) -> Result<String> {
    let path = root().join("packaging").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Lists the packages, with versions, of the shared libraries that programs are linked to.
fn shared_libraries(programs: &[PathBuf], scratch: &Path) -> Result<String> {
    // dpkg-shlibdeps expects to run in a source package.
    fs::create_dir_all(scratch.join("debian"))?;
    let control = "Source: ringroad\n\nPackage: ringroad\nArchitecture: any\n";
    fs::write(scratch.join("debian/control"), control)?;
    let mut command = Command::new("dpkg-shlibdeps");
    let said = answer(command.arg("-O").args(programs).current_dir(scratch))?;
    fs::remove_dir_all(scratch)?;
    let depends = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends.map(str::to_owned).context("dpkg-shlibdeps named no library")
}

fn pack(stage: &Path, package: &Path, facts: &Facts) -> Result<()> {
    let mut command = Command::new("dpkg-deb");
    command.args(["--build", "--root-owner-group", "-Zxz"]).arg(stage).arg(package);
    // Fix the two sources of differences between builds: timestamps, and the distribution of work among threads.
    command.env("SOURCE_DATE_EPOCH", &facts.epoch).env("DPKG_DEB_THREADS_MAX", "1");
    answer(&mut command).map(|_| ())
}

/// Runs a command and returns its output; if it fails, returns an error with its messages.
fn answer(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    ensure!(done.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
