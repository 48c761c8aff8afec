//! What a NIC is plugged into, as its file says: `KIND:NAME`, and the keys that only some kinds have.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kinds::{ALL, LATER, null};
use crate::{Fields, Key, Kind, Traits};

/// What a NIC is plugged into, as its file says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attach {
    /// As it is written: `switch:lan`.
    text: String,
    /// The keys that its kind has, as far as the file gives them or they are something by themselves.
    keys: BTreeMap<String, String>,
}

impl Attach {
    /// Nothing: what is sent is counted and dropped, and nothing comes.
    pub fn null() -> Self {
        Self::of("null")
    }

    /// A program that is handed the NIC's rings, at a socket that we connect to.
    pub fn handed(path: &str) -> Self {
        let mut attach = Self::of(&format!("vhost-user-frontend:{path}"));
        attach.set("socket", "connect");
        attach
    }

    fn of(text: &str) -> Self {
        Self { text: text.to_owned(), keys: BTreeMap::new() }
    }

    /// Reads it; the keys that it has besides are still to be [`set`](Self::set).
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn read(text: &str) -> Result<Self, String> {
        let attach = Self::of(text);
        if LATER.contains(&attach.word()) {
            return Err(format!("{:?} is not in this version; forms: {}", attach.word(), forms()));
        }
        let kind = attach.find().ok_or_else(|| format!("{text:?} is no attachment; forms: {}", forms()))?;
        (kind.read)(text, attach.name())?;
        Ok(attach)
    }

    fn word(&self) -> &str {
        self.text.split(':').next().unwrap_or_default()
    }

    /// A word that is not among the kinds is none, whatever stands behind it; one alone misses what stands behind its colon.
    fn find(&self) -> Option<&'static Kind> {
        let is_it =
            |kind: &&Kind| kind.word == self.word() && (kind.behind.is_some() || kind.word == self.text);
        ALL.iter().copied().find(is_it)
    }

    /// Gives one of its keys a value.
    pub fn set(&mut self, key: &str, value: &str) {
        self.keys.insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn spec(&self) -> &'static Kind {
        self.find().unwrap_or(&null::KIND)
    }

    /// Its word in files, before the colon.
    pub fn kind(&self) -> &'static str {
        self.spec().word
    }

    /// What stands behind the colon.
    pub fn name(&self) -> &str {
        self.text.split_once(':').map_or("", |(_, name)| name)
    }

    /// The keys that its kind has.
    pub fn keys(&self) -> &'static [Key] {
        self.spec().keys
    }

    /// The value of one of them.
    pub fn key(&self, key: &str) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// What its keys say of it, in words that follow its name; often nothing.
    pub fn detail(&self) -> String {
        let said = |key: &Key| Some(format!("{}{}", key.verb, self.key(key.name)?));
        let said: Vec<String> = self.keys().iter().filter_map(said).collect();
        if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) }
    }

    /// What the rest of a plan has to know of it.
    pub fn traits(&self) -> Traits {
        (self.spec().traits)(self)
    }

    /// The switch of the run, if it is a port of one.
    pub fn switch(&self) -> Option<&str> {
        (self.kind() == "switch").then_some(self.name())
    }

    /// The interface of the host that it stands on, if it does.
    pub fn lower(&self) -> Option<&str> {
        self.traits().is_on_interface.then_some(self.name())
    }
}

impl fmt::Display for Attach {
    /// As it is written in a file: `switch:lan`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// The words of all kinds.
pub fn words() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|kind| kind.word)
}

/// The keys that some kinds have, each with how the first of these is written.
pub fn keys() -> impl Iterator<Item = (&'static Key, String)> {
    ALL.iter().flat_map(|kind| kind.keys.iter().map(move |key| (key, kind.form())))
}

/// What the kinds count: what metrics call each group, and what its fields mean.
pub fn counts() -> impl Iterator<Item = (&'static str, Fields)> {
    ALL.iter().flat_map(|kind| kind.counts.iter().copied())
}

/// How attachments are written: `tap:INTERFACE`.
fn forms() -> String {
    ALL.iter().map(|kind| kind.form()).collect::<Vec<_>>().join(", ")
}

/// What is wrong with the name of an interface: what the kernel would refuse, and `%`, which would make it choose a number.
pub(crate) fn interface(_: &str, name: &str) -> Result<(), String> {
    let plain = |octet: u8| octet.is_ascii_graphic() && !b"/:%".contains(&octet);
    if (1..=15).contains(&name.len()) && name.bytes().all(plain) && name != "." && name != ".." {
        return Ok(());
    }
    Err(format!("{name:?} is not an interface name; use 1 to 15 visible ASCII characters except / : %"))
}

/// What is wrong with the path of a file.
pub(crate) fn path(text: &str, name: &str, example: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('\0') {
        let kind = text.split(':').next().unwrap_or(text);
        return Err(format!("{text:?} names no file; write e.g. \"{kind}:{example}\""));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
