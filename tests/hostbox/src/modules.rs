//! Modules of a kernel and their dependencies, from each module's own `.modinfo`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// Name of the module, with `_` for `-`.
    pub(crate) name: String,
    /// Path of its file.
    pub(crate) path: PathBuf,
}

/// All modules of one kernel.
#[derive(Debug)]
pub(crate) struct Index {
    files: BTreeMap<String, PathBuf>,
    built_in: BTreeSet<String>,
}

impl Index {
    /// Indexes the modules below a folder such as `/lib/modules/6.1.0-56-amd64`.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        let list = folder.join("modules.builtin");
        let list = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
        let built_in = list.lines().filter_map(|line| name_of(Path::new(line))).collect();
        let mut files = BTreeMap::new();
        gather(folder, &mut files)?;
        Ok(Self { files, built_in })
    }

    /// Returns these modules and their dependencies, each after those that it needs.
    pub(crate) fn closure(&self, names: &[&str]) -> Result<Vec<Module>> {
        let mut found = Vec::new();
        for name in names {
            self.add(name, &mut found, 0)?;
        }
        Ok(found)
    }

    fn add(&self, name: &str, found: &mut Vec<Module>, depth: usize) -> Result<()> {
        let name = name.replace('-', "_");
        if self.built_in.contains(&name) || found.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let path = self.files.get(&name).with_context(|| format!("this kernel has no module {name}"))?;
        if depth > self.files.len() {
            bail!("module {name} needs itself");
        }
        let octets = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        for needed in needs(&octets) {
            self.add(&needed, found, depth + 1)?;
        }
        found.push(Module { name, path: path.clone() });
        Ok(())
    }
}

/// Adds the modules below a folder.
fn gather(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// Name of the module in a file.
fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.strip_suffix(".ko")?.replace('-', "_"))
}

/// Dependencies of a module: its `.modinfo` is a list of zero-terminated strings, one of which is
/// `depends=A,B`.
fn needs(module: &[u8]) -> Vec<String> {
    let texts = module.split(|octet| *octet == 0).filter_map(|text| std::str::from_utf8(text).ok());
    let depends = texts.filter_map(|text| text.strip_prefix("depends="));
    let names = depends.flat_map(|list| list.split(','));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
