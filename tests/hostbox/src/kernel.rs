//! Debian's kernel, from its package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::image;
use crate::modules::{Index, Module};
use crate::programs;

/// Package that depends on the current kernel.
const META: &str = "linux-image-amd64";
/// Time limit for the download in seconds (70 MB).
const PATIENCE: &str = "300";

/// Paths that are unpacked: the image, and the modules for a host's network; not those for graphics, sound and
/// disks, which are four times as large.
const WANTED: [&str; 18] = [
    "./boot/vmlinuz-*",
    "./lib/modules/*/modules.builtin",
    "./lib/modules/*/kernel/arch/x86/crypto",
    "./lib/modules/*/kernel/arch/x86/kvm",
    "./lib/modules/*/kernel/crypto",
    "./lib/modules/*/kernel/drivers/crypto/ccp",
    "./lib/modules/*/kernel/drivers/net/*.ko",
    "./lib/modules/*/kernel/drivers/net/bonding",
    "./lib/modules/*/kernel/drivers/net/ethernet/intel/e1000",
    "./lib/modules/*/kernel/drivers/net/vxlan",
    "./lib/modules/*/kernel/drivers/vhost",
    "./lib/modules/*/kernel/drivers/virtio",
    "./lib/modules/*/kernel/fs/9p",
    "./lib/modules/*/kernel/fs/fscache",
    "./lib/modules/*/kernel/fs/netfs",
    "./lib/modules/*/kernel/lib",
    "./lib/modules/*/kernel/net",
    "./lib/modules/*/kernel/virt",
];

/// Name of the uncompressed kernel, in the folder of the compressed one.
const PLAIN: &str = "vmlinux.elf";
/// File with the list of wanted paths at the time a kernel was unpacked.
const LIST: &str = "wanted";

/// Unpacked kernel.
#[derive(Debug)]
pub struct Kernel {
    /// Debian's image, which decompresses itself.
    packed: PathBuf,
    /// Image that is booted.
    image: PathBuf,
    index: Index,
}

impl Kernel {
    /// Returns the kernel in this folder; if there is none yet, downloads Debian's package and unpacks it there.
    ///
    /// # Errors
    /// One line with the reason why there is none: no `apt-get`, no mirror, no room.
    pub fn obtain(folder: &Path) -> Result<Self> {
        let unpacked = folder.join("kernel");
        if !is_current(&unpacked) {
            unpack(folder, &unpacked)?;
        }
        let packed = only(&unpacked.join("boot"), |name| name.starts_with("vmlinuz-"))?;
        let modules = only(&unpacked.join("lib/modules"), |_| true)?;
        let plain = unpacked.join("boot").join(PLAIN);
        // If it cannot be extracted, the compressed image works as well, but boots slowly.
        let image = if plain.is_file() || plain_image(folder, &packed, &plain).is_ok() {
            plain
        } else {
            packed.clone()
        };
        Ok(Self { packed, image, index: Index::of(&modules)? })
    }

    /// Image to boot: normally an ELF file.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The bzImage that it was extracted from, which decompresses itself.
    pub fn packed(&self) -> &Path {
        &self.packed
    }

    /// Returns modules with their dependencies, in load order; built-in ones are omitted.
    pub(crate) fn modules(&self, names: &[&str]) -> Result<Vec<Module>> {
        self.index.closure(names)
    }
}

/// Extracts an image in a temporary folder and moves it into place only when it is complete.
fn plain_image(folder: &Path, packed: &Path, plain: &Path) -> Result<()> {
    let work = tempfile::Builder::new().prefix("image-").tempdir_in(folder)?;
    let file = work.path().join(PLAIN);
    image::unpack(packed, &file)?;
    Ok(fs::rename(file, plain)?)
}

/// Downloads and unpacks in a temporary folder, and moves the result into place only when it is complete, because
/// other processes may need it at the same time.
fn unpack(folder: &Path, unpacked: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let work = tempfile::Builder::new().prefix("kernel-").tempdir_in(folder)?;
    let package = download(work.path())?;
    let tree = work.path().join("tree");
    fs::create_dir(&tree)?;
    let script = "dpkg-deb --fsys-tarfile \"$1\" | tar --extract --directory=\"$2\" --wildcards \
                  --no-wildcards-match-slash --no-same-owner \"${@:3}\"";
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", script, "bash"]).arg(&package).arg(&tree).args(WANTED);
    programs::said(&mut command).context("cannot unpack the kernel's package")?;
    fs::write(tree.join(LIST), WANTED.join("\n"))?;
    // A kernel of an older list is removed with the temporary folder.
    put(&tree, unpacked, &work.path().join("old"))
}

/// Returns true if a kernel was unpacked here, with everything that is wanted now.
fn is_current(unpacked: &Path) -> bool {
    fs::read_to_string(unpacked.join(LIST)).is_ok_and(|list| list == WANTED.join("\n"))
}

/// Moves an unpacked kernel into its place, and the one that is there to `old`. One that another process has
/// unpacked meanwhile stays: machines may be reading it.
fn put(tree: &Path, unpacked: &Path, old: &Path) -> Result<()> {
    if is_current(unpacked) {
        return Ok(());
    }
    if unpacked.exists() {
        let _ = fs::rename(unpacked, old);
    }
    match fs::rename(tree, unpacked) {
        // Another process was first.
        Err(_) if is_current(unpacked) => Ok(()),
        done => done.with_context(|| format!("cannot make {}", unpacked.display())),
    }
}

/// Downloads the package into a folder.
fn download(folder: &Path) -> Result<PathBuf> {
    let package = match name()? {
        Some(package) => package,
        None => {
            // A new machine has no package lists.
            programs::said(Command::new("timeout").args([PATIENCE, "apt-get", "update", "-q"]))?;
            name()?.with_context(|| format!("this host's package lists have no {META}"))?
        }
    };
    let mut command = Command::new("timeout");
    command.args([PATIENCE, "apt-get", "download", &format!("linux-image-{package}")]).current_dir(folder);
    // As another user it could not write into this folder, and would warn.
    command.args(["-o", "APT::Sandbox::User=root", "-q"]);
    programs::said(&mut command).context("the kernel's package cannot be had")?;
    only(folder, |name| name.ends_with(".deb"))
}

/// Version of the current kernel's package, the part after `linux-image-`; none if the lists do not have it.
fn name() -> Result<Option<String>> {
    let mut command = Command::new("apt-cache");
    let Ok(depends) = programs::said(command.args(["depends", META])) else {
        programs::find("apt-cache")?;
        return Ok(None);
    };
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    Ok(package.map(str::to_owned))
}

/// Returns the only entry of a folder whose name is wanted.
fn only(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let named = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted);
    let found: Vec<PathBuf> = paths.filter(named).collect();
    ensure!(found.len() == 1, "{} has {} of what should be there once", folder.display(), found.len());
    found.into_iter().next().context("nothing there")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_of_an_older_list_is_replaced_and_one_of_another_process_stays() {
        let work = tempfile::tempdir().unwrap();
        let unpacked = work.path().join("kernel");
        let tree = |name: &str, list: &str| {
            let tree = work.path().join(name);
            fs::create_dir(&tree).unwrap();
            fs::write(tree.join(LIST), list).unwrap();
            fs::write(tree.join("name"), name).unwrap();
            tree
        };
        let name = || fs::read_to_string(unpacked.join("name")).unwrap();
        fs::rename(tree("older", "./boot"), &unpacked).unwrap();
        put(&tree("first", &WANTED.join("\n")), &unpacked, &work.path().join("a")).unwrap();
        assert_eq!(name(), "first");
        put(&tree("second", &WANTED.join("\n")), &unpacked, &work.path().join("b")).unwrap();
        assert_eq!(name(), "first");
    }
}
